"""One's own architecture: by name, by function, with and without taps; and everything that can be said wrongly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import windtunnel as wt
from tests.models.cases import TUNNELS, Bag, dense_inputs, every_tunnel, small
from tests.tunnels.test_bad_input import UNFIT_NAMES
from windtunnel import models
from windtunnel.errors import InputError, require_name
from windtunnel.fidelity import baselines, evaluate
from windtunnel.training import train
from windtunnel.tunnels import HMM, Bijection

TUNNEL = TUNNELS["bijection"]


class TappedBag(Bag):
    def forward(self, tokens, features, readout, tap=None):
        return self.head(models.touch(tap, "bag", self.embedding(tokens).cumsum(1))[:, readout])


class Returning(nn.Module):
    """Returns nothing of some kind, as networks do that give a cache or a loss beside their logits."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, tokens, features, readout):
        return self.kind()


@pytest.fixture
def registered():
    models.register("bag", Bag)
    yield "bag"
    models.unregister("bag")


@every_tunnel
def test_any_callable_is_a_model(tunnel):
    model = models.build(Bag, tunnel, seed=3)
    score = evaluate(model, tunnel, episodes=64)
    assert 0.0 < score.kl_bits.mean < 20.0
    again = models.build(lambda world: Bag(world), tunnel, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
    assert model.log_probs(tunnel.sample(3).inputs).dtype == torch.float32


@pytest.mark.parametrize("model", ["transformer", lambda tunnel: models.build("mlp", tunnel, depth=3, width=96)])
def test_weights_are_those_of_the_seed_in_whatever_thread_they_are_drawn(model):
    """A factory that calls `build` itself is one thread's work, too."""

    def weights(seed: int) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in models.build(model, TUNNEL, seed=seed).parameters()])

    state, seeds = torch.get_rng_state(), [0, 1, 2, 3] * 3
    alone = [weights(seed) for seed in seeds]
    with ThreadPoolExecutor(4) as threads:
        assert all(map(torch.equal, threads.map(weights, seeds), alone))
    assert torch.equal(torch.get_rng_state(), state)


def test_registered_name(registered):
    assert registered in models.names()
    assert models.summaries()["bag"] == "Counts of the tokens so far."
    assert models.build("bag", TUNNEL, width=24).module.head.in_features == 24  # options reach the factory
    with pytest.raises(InputError, match=r"^name = 'bag': must be a name that is not taken: transformer, mamba"):
        models.register("bag", Bag)
    with pytest.raises(InputError, match=r"^model options = {'depth': 2}: must be keywords the factory takes"):
        models.build("bag", TUNNEL, depth=2)


class Softmaxed(Bag):
    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout).softmax(-1)


def test_a_forward_that_changes_its_inputs_is_refused():
    """Whoever is scored on the same episodes afterwards would read something else."""

    class Erasing(Bag):
        def forward(self, tokens, features, readout):
            logits = super().forward(tokens, features, readout)
            tokens.zero_()
            return logits

    with pytest.raises(InputError, match=r"^model Erasing: forward must leave tokens, features and readout as they"):
        models.build(Erasing, TUNNELS["bijection"])


def test_probabilities_instead_of_logits_are_refused():
    """They train, badly: the softmax of a softmax cannot be sure of anything."""
    with pytest.raises(
        InputError, match=r"^model Softmaxed returned probabilities, .* must be logits, without a softmax$"
    ):
        models.build(Softmaxed, TUNNEL)


def test_built_in_names_cannot_be_taken():
    with pytest.raises(InputError, match=r"name that is not taken"):
        models.register("transformer", Bag)
    with pytest.raises(InputError, match=r"^factory = 3: must be a function"):
        models.register("three", 3)


def test_a_name_that_no_command_or_file_can_have_is_refused():
    for name in UNFIT_NAMES:
        with pytest.raises(InputError, match=r"^name = .*: must be 1 to 100 letters, digits and signs, "):
            models.register(name, Bag)
    for name in (*models.names(), *wt.tunnels.names(), *wt.zoo.names(), "Größe_2.1"):
        require_name("name", name)


def test_names_and_summaries():
    assert models.names() == ["transformer", "mamba", "lstm", "mlp", "linear-attention"]
    assert all(models.summaries()[name] and "\n" not in models.summaries()[name] for name in models.names())


def test_taps_of_ones_own():
    episodes = TUNNEL.sample(3)
    assert models.trace(models.build(TappedBag, TUNNEL), episodes)["bag"].shape == (3, TUNNEL.positions, 8)
    plain = models.build(Bag, TUNNEL)
    assert not models.has_taps(plain) and models.tap_names(plain) == []
    with pytest.raises(InputError, match=r"has no taps: nothing to trace$"):
        models.trace(plain, episodes)
    with pytest.raises(InputError, match=r"has no taps"):
        plain.log_probs(episodes.inputs, tap=lambda name, value: value)


def test_a_built_in_model_may_come_from_a_function():
    model = models.build(lambda tunnel: models.build("mlp", tunnel, depth=1, width=8), TUNNEL)
    assert isinstance(model, models.SequenceModel)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (
            lambda tunnel: Bag(tunnel, extra=1),
            r"logits of shape \(2, 4, 5\): must be \(n, readouts, classes\) = \(2, 4, 4\)",
        ),
        (
            lambda tunnel: Returning(tuple),
            r"returned a value of type tuple: must be a tensor of logits \(n, K, C\) = \(2, 4, 4\)$",
        ),
        (
            lambda tunnel: Returning(dict),
            r"returned a value of type dict: must be a tensor of logits \(n, K, C\) = \(2, 4, 4\)$",
        ),
        (lambda tunnel: 5, "returned int: must be a torch.nn.Module"),
        (lambda tunnel: nn.Linear(3, 3), r"forward must take \(tokens, features, readout\)"),
    ],
    ids=["shape", "tuple", "dict", "type", "signature"],
)
def test_a_wrong_factory_is_told_at_once(factory, message):
    with pytest.raises(InputError, match=message) as error:
        models.build(factory, TUNNEL)
    assert "\n" not in str(error.value)


class NoTunnel(nn.Module):
    def __init__(self):
        super().__init__()


class Mistaken(Bag):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.head = nn.Linear(8, "four" + 4)  # type: ignore[operator]


@pytest.mark.parametrize("model", [Bag(TUNNEL), nn.Linear(3, 3), 3], ids=["module", "one line", "number"])
def test_what_builds_no_module_is_refused_in_one_line(model):
    told = r"must be the name of an architecture, or a function that takes a tunnel and returns a module, e\.g\. lambda"
    with pytest.raises(InputError, match=rf"^model = .*: {told} tunnel: net$") as error:
        models.build(model, TUNNEL)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=rf"^model = .*: {told} tunnel: Net\(…\)$"):  # a new one for every seed
        train(TUNNEL, model, device="cpu")
    with pytest.raises(InputError, match=r"^factory = .*: must be a function that takes a tunnel"):
        models.register("mine", model)


class Refusing(Bag):
    def __init__(self, tunnel, width=8):
        raise ValueError("width must be even,\nreally")


class InsideTorch(Bag):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.head = nn.Linear(8, -3)


FAILED = r"its factory failed, called with this tunnel"


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (
            NoTunnel,
            r"must be a function that takes a tunnel .* alone it cannot be called \(too many positional arguments\)$",
        ),
        (lambda: NoTunnel(), r"must be a function that takes a tunnel .*\(too many positional arguments\)$"),
        (Mistaken, rf"{FAILED} \(TypeError in test_own_models\.py:\d+: can only concatenate str"),
        (Refusing, rf"{FAILED} \(ValueError in test_own_models\.py:\d+: width must be even,\)$"),
        (InsideTorch, rf"{FAILED} \(RuntimeError in test_own_models\.py:\d+: Trying to create tensor"),
        (lambda tunnel: {}[tunnel], rf"{FAILED} \(KeyError in test_own_models\.py:\d+: "),
    ],
    ids=["no tunnel", "nothing", "type", "value", "torch", "key"],
)
def test_a_factory_that_raises_is_told_in_one_line_with_its_reason(factory, told):
    models.register("mine", factory)
    try:
        for name, call in (
            (factory.__name__, lambda: models.build(factory, TUNNEL)),
            (factory.__name__, lambda: train(TUNNEL, factory, steps=1, device="cpu")),
            ("mine", lambda: models.build("mine", TUNNEL)),
        ):
            with pytest.raises(InputError, match=rf"^model {name}: {told}") as error:
                call()
            assert "\n" not in str(error.value)
            assert error.value.__cause__ is not None and error.value.__cause__.__traceback__
    finally:
        models.unregister("mine")


def test_options_are_told_apart_from_what_they_do_inside():
    with pytest.raises(InputError, match=r"^model options = {'height': 4}: must be keywords the factory takes"):
        models.build(Bag, TUNNEL, height=4)
    with pytest.raises(InputError, match=r"cannot be called \(missing a required argument: 'width'\)$"):
        models.build(lambda tunnel, width: Refusing(tunnel, width), TUNNEL)
    with pytest.raises(InputError, match=rf"{FAILED} and {{'width': 4}} \(ValueError in test_own_models"):
        models.build(lambda tunnel, width: Refusing(tunnel, width), TUNNEL, width=4)
    told = rf"^model Refusing: {FAILED} and {{'width': 4}} \(ValueError in test_own_models"
    with pytest.raises(InputError, match=told):
        models.build(Refusing, TUNNEL, width=4)
    with pytest.raises(InputError, match=r"^params = 0: must be a whole number"):  # a refusal of ours stays as it is
        models.build(lambda tunnel: models.build("mlp", tunnel, params=0), TUNNEL)


class SmallTable(Bag):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.embedding = nn.Embedding(2, 8)


class WrongType(Bag):
    """A TypeError that is none of the call."""

    def forward(self, tokens, features, readout):
        return len(readout) + "heads"  # type: ignore[operator]


class NoReadout(Bag):
    def forward(self, tokens, features):  # type: ignore[override]
        return self.head(self.embedding(tokens))


class Unwritten(nn.Module):
    def __init__(self, tunnel):
        super().__init__()


GIVEN = r"two episodes of this tunnel, tokens \(2, 7\) from 0 to 7, features None, readout \(4,\)"


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (NoReadout, r"forward must take \(tokens, features, readout\) \(too many positional arguments\)$"),
        (
            SmallTable,
            rf"forward failed on {GIVEN} \(IndexError in cases\.py:\d+: index out of range",
        ),
        (WrongType, rf"forward failed on {GIVEN} \(TypeError in test_own_models\.py:\d+: unsupported operand"),
        (Unwritten, rf"forward failed on {GIVEN} \(NotImplementedError in .*: Module \[Unwritten\] is missing the"),
    ],
)
def test_a_mistake_inside_a_forward_is_not_called_a_wrong_signature(factory, told):
    with pytest.raises(InputError, match=rf"^model {factory.__name__}: {told}") as error:
        models.build(factory, TUNNEL)
    assert "\n" not in str(error.value) and error.value.__cause__ is not None


def test_a_module_with_a_forward_alone_is_scored_as_the_message_says():
    net = Bag(TUNNEL)
    with pytest.raises(
        InputError, match=r"^subject = a value of type Bag: .* by models\.build\(lambda tunnel: net, tunnel\)$"
    ):
        evaluate(net, TUNNEL, episodes=4)
    assert evaluate(models.build(lambda tunnel: net, TUNNEL), TUNNEL, episodes=4).kl_bits.mean > 0


def test_a_bare_module_is_scored_from_the_front_door():
    net = Bag(TUNNEL)
    built = evaluate(models.build(lambda tunnel: net, TUNNEL), TUNNEL, episodes=8)
    assert wt.evaluate(net, TUNNEL, episodes=8).to_dict() == built.to_dict()
    assert wt.evaluate([net, Bag(TUNNEL)], TUNNEL, episodes=8).kl_bits.over == "seeds"
    with pytest.raises(InputError, match="must be causal"):
        wt.evaluate(Glance(TUNNEL), TUNNEL, episodes=8)
    with pytest.raises(InputError, match=r"^tunnel"):
        wt.evaluate(net)


class Glance(Bag):
    """Reads all positions at each."""

    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout) + self.embedding(tokens).mean()


class OwnLogProbs(Bag):
    """A predictor as it is, which tells nobody its sizes; with room for so many positions."""

    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.place = nn.Embedding(tunnel.positions, 8)

    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout) + self.place(readout).sum(-1, keepdim=True)

    def log_probs(self, inputs):
        return self(inputs.tokens, inputs.features, inputs.readout).log_softmax(-1)


def test_a_module_built_for_another_tunnel_is_refused_in_one_line():
    few, many = Bijection(symbols=4, length=4), Bijection(symbols=8, length=4)
    needs = r"must take the tunnel's vocabulary of 16, {} positions and 0 features; its embeddings have {} and 7 rows$"
    failed = r"log_probs failed \(index out of range in self\): "
    for model, tunnel, message in (
        (models.build(Bag, few), many, r"the model's vocabulary = 8: must be the tunnel's 16$"),
        (models.build(Bag, many), few, r"the model's vocabulary = 16: must be the tunnel's 8$"),  # other tokens, too
        (models.build(Bag, many), HMM(), r"the model's vocabulary = 16: must be the tunnel's 15$"),
        (OwnLogProbs(few), many, r"OwnLogProbs\." + failed + needs.format(7, 8)),
        (OwnLogProbs(many), many.with_length(8), r"OwnLogProbs\." + failed + needs.format(15, 16)),
        (models.build(OwnLogProbs, many), many.with_length(8), r"OwnLogProbs\." + failed + needs.format(15, 16)),
        (OwnLogProbs(many), few, r"OwnLogProbs\.log_probs returned shape \(4, 4, 8\): must be .* shape \(4, 4, 4\)"),
    ):
        with pytest.raises(InputError, match=f"^{message}") as error:
            evaluate(model, tunnel, episodes=4)
        assert "\n" not in str(error.value)
    assert evaluate(models.build(Bag, many), many.with_length(8), episodes=4).kl_bits.mean > 0  # a length is no size


def test_the_traceback_of_a_mistake_inside_is_kept():
    class Slip:
        def log_probs(self, inputs):
            return [][0]

    with pytest.raises(InputError, match=r"^Slip\.log_probs failed \(list index out of range\): .* features$") as error:
        evaluate(Slip(), TUNNEL, episodes=4)
    assert isinstance(error.value.__cause__, IndexError) and error.value.__cause__.__traceback__


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet", {}, "model = 'resnet': must be one of transformer, mamba, lstm, mlp, linear-attention"),
        ("transformer", {"width": 30, "heads": 4, "depth": 1}, r"heads = 4: must be a divisor of width = 30 \(1, 2, 3"),
        ("transformer", {"width": 30, "heads": 4, "params": 100_000}, "heads = 4: must be a divisor of width = 30"),
        ("transformer", {"width": 30, "heads": 2, "positions": "rope"}, "heads = 2: .* that makes heads of even width"),
        ("transformer", {"positions": "sine"}, "positions = 'sine': must be one of learned, rope, alibi, none"),
        ("transformer", {"colour": 3}, "transformer option = 'colour': must be one of depth, width, heads"),
        (
            "transformer",
            {"preset": "paper"},
            r"transformer preset = 'paper' \(did you mean paper-hmm\?\): must be one of paper-bijection, paper-hmm",
        ),
        ("transformer", {"preset": "paper-hmm", "params": 5}, "params = 5: must be left out with preset"),
        ("transformer", {"params": -1}, "params = -1: must be a whole number from 1 to 10000000000"),
        ("transformer", {"params": 1e6}, "params = 1000000.0: must be a whole number"),
        ("transformer", {"depth": 0}, "depth = 0: must be a whole number of at least 1"),
        ("transformer", {"width": 2.5}, "width = 2.5: must be a whole number"),
        ("transformer", {"max_length": 3}, "max_length = 3: must be a whole number of at least 7"),
        ("transformer", {"seed": -1}, "seed = -1: must be a whole number from 0"),
        ("lstm", {"heads": 2}, "lstm option = 'heads': must be one of depth, width, style"),
        ("lstm", {"style": "plain"}, "style = 'plain': must be one of residual, stacked"),
        ("lstm", {"style": "stacked", "width": 16, "ff_width": 8}, "ff_width = 8: must be 0 when style is stacked"),
        ("mlp", {"context": "some"}, "context = 'some': must be one of full, position"),
        ("mlp", {"context": "position", "width": 16, "embed_width": 8}, "embed_width = 8: must be 0 when context"),
        ("mamba", {"width": 16, "state": 0}, "state = 0: must be a whole number of at least 1"),
        ("linear-attention", {"width": 16, "heads": 3}, "heads = 3: must be a divisor of width = 16"),
    ],
)
def test_bad_options_are_told_in_one_line(name, options, message):
    with pytest.raises(InputError, match=f"^{message}") as error:
        models.build(name, TUNNEL, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("world", ["hmm", HMM, Bag(TUNNEL)], ids=["name", "class", "module"])
def test_what_is_no_tunnel_is_told_in_one_line(world):
    for call in (
        lambda: models.build("transformer", world),
        lambda: models.build(Bag, world),
        lambda: train(world, "transformer", device="cpu"),
        lambda: train(world, "transformer", preset="standard", device="cpu"),
        lambda: baselines(world),
    ):
        with pytest.raises(InputError, match=r"^tunnel = .*: must be a tunnel, e\.g\. windtunnel\.tunnels\.HMM\(\)$"):
            call()


@pytest.mark.parametrize("build", [lambda: small("mlp-full", TUNNEL), lambda: models.build(Bag, TUNNEL)])
def test_episodes_are_not_taken_for_their_inputs(build):
    with pytest.raises(InputError, match=r"^inputs = .*: must be the inputs of episodes, episodes\.inputs$") as error:
        build().log_probs(TUNNEL.sample(3))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variant", ["transformer", "mlp-full", "mlp-position"])
def test_inputs_longer_than_max_length_are_refused(variant):
    tunnel = HMM(states=2, symbols=2, length=4)
    long = tunnel.with_length(9)
    with pytest.raises(InputError, match=r"^input length = 13: must be at most max_length = 8 for this \w+$"):
        small(variant, tunnel).log_probs(long.sample(2).inputs)
    assert small(variant, tunnel, max_length=13).log_probs(long.sample(2).inputs).shape == (2, 9, 2)


@pytest.mark.parametrize(
    "variant",
    ["transformer-rope", "transformer-alibi", "transformer-none", "mamba", "lstm-residual", "linear-attention"],
)
def test_the_others_take_any_length(variant):
    tunnel = HMM(states=2, symbols=2, length=4)
    assert small(variant, tunnel).log_probs(tunnel.with_length(40).sample(2).inputs).shape == (2, 40, 2)


def test_features_must_fit_the_tunnel():
    with_features, without = HMM(states=2, symbols=2, length=4), Bijection(symbols=4, length=4)
    inputs = dense_inputs(without, 2)
    with pytest.raises(InputError, match=r"^features = None: must be \(n, T, 2\)"):
        small("mlp-full", with_features)(inputs.tokens % 4, None, inputs.readout)
    with pytest.raises(InputError, match=r"^features of shape \(2, 7, 2\): must be None"):
        small("mlp-full", without)(inputs.tokens, torch.zeros(2, 7, 2), inputs.readout)
