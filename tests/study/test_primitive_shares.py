"""`wt.primitives`: whatever is handed over, the share of the tunnel's primitive that it realises, in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import windtunnel as wt
from windtunnel.errors import InputError
from windtunnel.study import Share, Trial, share_measurement, shares, trial
from windtunnel.study.predictors import Counter
from windtunnel.study.primitive_shares import reference_rows
from windtunnel.study.quantity import Quantity

URN = wt.tunnels.Urn(symbols=6, length=12)
FEW = {"episodes": 300}
UNIFORM = wt.baselines(URN)["uniform"]
LAST = wt.baselines(URN)["last-observation"]


class Window(nn.Module):
    """A network of one's own, of which the truth is known: it counts the last `window` draws of an urn, or all."""

    def __init__(self, tunnel, window=10**6):
        super().__init__()
        self.symbols, self.window = tunnel.symbols, window
        self.prior = nn.Parameter(torch.full((tunnel.symbols,), tunnel.concentration))

    def forward(self, tokens, features, readout):
        seen = nn.functional.one_hot(tokens, self.symbols + 1)[..., :-1].cumsum(1)
        before = torch.zeros_like(seen)
        before[:, self.window :] = seen[:, : -self.window]
        return torch.log(self.prior + seen - before)[:, readout]


class Ahead(Window):
    """It sees the whole sequence at every readout."""

    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout[-1:]).expand(-1, len(readout), -1)


# --- planted truths
def test_a_module_that_has_the_primitive_and_modules_that_do_not():
    whole, some, last = (wt.primitives(Window(URN, window), URN, **FEW) for window in (10**6, 4, 1))
    assert (whole.state, some.state, last.state) == ("realised", "partial", "absent")
    assert whole.share.mean == pytest.approx(1.0, abs=1e-9) and last.share.mean == pytest.approx(0.0, abs=1e-6)
    for found in (whole, some, last):
        assert found.primitive == "accumulation" and found.base == "last-observation" and found.base_bits > 0.3
        assert found.share.over == "sequences" and found.share.low <= found.share.mean <= found.share.high
    kl = [wt.evaluate(p, URN, **FEW).kl_bits.mean for p in (wt.models.build(lambda t: Window(t, 4), URN), LAST)]
    assert some.share.mean == pytest.approx(1 - kl[0] / kl[1], abs=1e-9)
    assert (some.kl_bits, some.base_bits) == pytest.approx(kl)


@pytest.mark.parametrize("name", ["urn-transformer", "bijection-transformer", "recall-transformer"])
def test_the_shipped_networks_realise_what_they_were_trained_for(name):
    assert wt.primitives(wt.zoo.load(name), episodes=40).state == "realised"


def test_an_untrained_network_does_not():
    found = wt.primitives(wt.models.build("lstm", URN, params=3000), URN, **FEW)
    assert found.state == "absent" and found.failed and "so more than the primitive is lacking" in str(found)


# --- every kind of subject
@pytest.fixture(scope="module")
def run(tmp_path_factory):
    shape = {"preset": "quick", "params": 3000, "steps": 3, "device": "cpu"}
    return wt.train(URN, "lstm", seeds=2, out=tmp_path_factory.mktemp("runs") / "urn", **shape)


def same(a: Share, b: Share) -> bool:
    return a.to_dict() == b.to_dict()


def test_a_run_its_networks_and_its_folder_opened_again(run):
    found = wt.primitives(run, **FEW)
    assert found.share.over == "seeds" and len(found.per_seed) == 2 and found.share.low < found.share.high
    assert same(found, wt.primitives(run, URN, **FEW))
    assert same(found, wt.primitives(wt.load(run.path), **FEW))
    assert same(found, wt.primitives(run.models, URN, **FEW))
    assert same(found, wt.primitives(tuple(run.models), URN, **FEW))
    one = wt.primitives(run.models[1], URN, **FEW)
    assert one.share.over == "sequences" and one.share.mean == pytest.approx(found.per_seed[1])
    assert wt.primitives(run, URN.with_length(20), **FEW).base_bits != found.base_bits


def test_a_module_is_the_same_bare_built_or_among_others():
    bare, built = Window(URN, 3).train(), wt.models.build(lambda tunnel: Window(tunnel, 3), URN)
    assert same(wt.primitives(bare, URN, **FEW), wt.primitives(built, URN, **FEW)) and bare.training
    mixed = wt.primitives([bare, Counter(URN), built], URN, **FEW)
    assert mixed.per_seed[0] == mixed.per_seed[2] < mixed.per_seed[1] == pytest.approx(1.0)
    by_name = shares({"bare": bare, "all": [bare, Counter(URN), built]}, URN, **FEW)
    assert same(by_name["all"], mixed) and same(by_name["bare"], wt.primitives(bare, URN, **FEW))
    assert wt.study.primitives is wt.primitives


class Mine(wt.tunnels.Urn):
    """A tunnel of one's own, whose trial a test registers."""


@pytest.fixture
def says():
    """Registers a trial of `Mine`; afterwards it is that of an urn again."""
    yield lambda told: trial.register(Mine, told)
    trial.register(Mine, trial.dispatch(wt.tunnels.Urn))


MINE = Mine(symbols=6, length=12)


def test_a_tunnel_of_ones_own_says_itself_what_it_tests(says):
    says(lambda tunnel: Trial("binding", {"nothing": UNIFORM}))
    found = wt.primitives(LAST, MINE, **FEW)
    assert (found.primitive, found.base) == ("binding", "nothing") and 0 < found.share.mean < 1


class Declared(wt.tunnels.Tunnel):
    """A tunnel of one's own that declares a primitive and has no trial."""

    primitives = ("accumulation",)
    classes, vocabulary, feature_width, positions, readouts, hypotheses_log2 = 2, 2, 0, 3, 3, 1.0
    episodes = draw = None


# --- what is wrong is told in one line
@pytest.mark.parametrize(
    ("subject", "tunnel", "told"),
    [
        (3, URN, "subject = a value of type int: must be a predictor"),
        ("runs/first", URN, r"subject = a value of type str: .* a run's folder is opened by load\(…\)"),
        (Path("runs/first"), URN, r"a run's folder is opened by load\(…\)"),
        ({"a": UNIFORM}, URN, "subject = a value of type dict: must be a predictor"),
        (Window, URN, "subject = the class Window: must be an instance of it"),
        (lambda tunnel: Window(tunnel), URN, "subject = a value of type function: must be a predictor"),
        ([], URN, r"subject = \[\]: must be"),
        ([UNIFORM, 3], URN, "subject = a value of type int"),
        (UNIFORM, None, "tunnel = None: must be a tunnel, .* bring their own"),
        (Window(URN), None, "tunnel = None: must be a tunnel, .* bring their own"),
        (UNIFORM, "urn", "tunnel = 'urn': must be a tunnel"),
        (UNIFORM, wt.tunnels.HMM(), "must be one that tests a primitive: Urn, Bijection"),
        (UNIFORM, Declared(), r"must have a trial, added by @wt\.study\.trial\.register; .* is not enough"),
        (nn.Linear(2, 2), URN, "model Linear: forward must take"),
        (Window(wt.tunnels.Urn(symbols=4)), URN, "model Window"),
        (Ahead(URN), URN, "model Ahead: must be causal"),
        (wt.models.build("mlp", wt.tunnels.Bijection(), params=3000), URN, "the model's vocabulary"),
    ],
)
def test_subjects_that_are_none(subject, tunnel, told):
    with pytest.raises(InputError, match=told) as error:
        wt.primitives(subject, tunnel, **FEW)
    assert "\n" not in str(error.value)


B = {"nothing": UNIFORM}


@pytest.mark.parametrize(
    ("told_by", "line"),
    [
        (lambda tunnel: 3, "trial of Mine = 3: must be a windtunnel.study.Trial, or None"),
        (lambda tunnel: 1 / 0, r"trial of Mine: must give a Trial or None, but failed \(ZeroDivisionError in test_\w+"),
        (lambda: None, r"trial of Mine: must give a Trial or None, but failed \(TypeError in "),
        (
            lambda tunnel: Trial("counting", B),
            "trial of Mine: Trial primitive = 'counting': must be one of accumulation",
        ),
        (lambda tunnel: Trial("binding", {}), "trial of Mine: Trial without = {}: must be at least one predictor"),
        (lambda tunnel: Trial("binding", [UNIFORM]), "Trial without = .*: must be predictors by name"),  # type: ignore
        (lambda tunnel: Trial("binding", {"b": 3}), r"Trial without\['b'\] = 3: must be a predictor"),  # type: ignore
        (lambda tunnel: Trial("binding", {"b": Counter}), r"Trial without\['b'\] = .*: must be a predictor"),  # type: ignore
        (lambda tunnel: Trial("binding", B, {"o": None}), r"Trial others\['o'\] = None: must be a predictor"),  # type: ignore
        (lambda tunnel: Trial("binding", B, where=3), "Trial where = 3: must be the name of"),  # type: ignore
        (
            lambda tunnel: Trial("binding", B, where="sen"),
            "trial of Mine: where = 'sen': must be None or one of .* none",
        ),
    ],
)
def test_a_trial_of_ones_own_that_is_wrong(says, told_by, line):
    says(told_by)
    for ask in (lambda: wt.primitives(LAST, MINE, **FEW), lambda: reference_rows(MINE, **FEW)):
        with pytest.raises(InputError, match=line) as error:
            ask()
        assert "\n" not in str(error.value)


def test_a_subset_that_a_tunnel_of_ours_does_not_have_is_told_with_those_it_has():
    world = wt.tunnels.Bijection(symbols=4, length=4, replacement=True)
    asked = Trial("binding", {"nothing": wt.baselines(world)["uniform"]}, where="sen")
    with pytest.raises(InputError, match=r"trial of Bijection: where = 'sen': must be None or one of .* seen"):
        asked.readouts(world, world.sample(2))


@pytest.mark.parametrize("option", [{"episodes": 0}, {"seed": -1}, {"stream": "x"}, {"device": "tpu"}, {"chunk": 0}])
def test_options_are_those_of_evaluate(option):
    (name,) = option
    with pytest.raises(InputError, match=f"{name} = "):
        wt.primitives(UNIFORM, URN, **option)


def test_shares_wants_names():
    with pytest.raises(InputError, match=r"subjects = .*: must be subjects by name; `primitives` takes one by itself"):
        shares(UNIFORM, URN)  # type: ignore[arg-type]


# --- how it is told
def test_one_line_says_it_all():
    quantity = Quantity.of_seeds([0.99961, 0.99962, 0.99963])
    found = Share("binding", quantity, 0.0004, "familiarity", 1.19, quantity.values)
    line = (
        "binding realised: share 0.9996 [0.9996, 0.9996] over 3 seeds; KL 0.0004 against 1.19 bits of familiarity, "
        "the best predictor without it"
    )
    assert str(found) == line and repr(found) == f"<{line}>"
    assert found.told.startswith("realised: share 1 [1, 1] over 3 seeds") and found.told == found.to_dict()["told"]


def test_a_kl_of_some_readouts_says_so():
    """At all readouts it is another, which stands beside it wherever a share is printed."""
    tunnel = wt.tunnels.Bijection(symbols=4, length=4, replacement=True)
    found = wt.primitives(wt.baselines(tunnel)["uniform"], tunnel, episodes=50)
    words = f"KL {found.kl_bits:.4g} at the readouts that need it, against {found.base_bits:.3g} bits of familiarity"
    assert found.where == "seen" and words in str(found) and words in found.told
    again = Share.of_record(json.loads(json.dumps(found.to_dict())))
    assert str(again) == str(found)
    everywhere = wt.primitives(wt.baselines(URN)["uniform"], URN, episodes=50)
    assert everywhere.where is None and "need it" not in str(everywhere) and "where" not in everywhere.to_dict()


@pytest.mark.parametrize(("high", "failed"), [(0.009, False), (-0.001, True)])
def test_only_what_is_worse_beyond_chance_is_said_to_lack_more(high, failed):
    found = Share("binding", Quantity(-0.08, -0.17, high, "sequences"), 6.5, "stored-values", 6.0, (-0.08,))
    assert found.state == "absent" and found.no_better and found.failed == failed
    assert ("so more than the primitive is lacking" in str(found)) == failed


def test_one_episode_decides_nothing():
    found = wt.primitives(wt.zoo.load("bijection-transformer"), episodes=1)
    assert found.state == "unclear" and "[" not in str(found) and "over sequences" not in str(found)


def test_where_the_primitive_is_worth_nothing_it_says_so_without_a_warning(recwarn):
    for replacement in (False, True):  # B loses nothing; no key was ever seen before
        tunnel = wt.tunnels.Bijection(symbols=4, length=1, replacement=replacement)
        found = wt.primitives(wt.baselines(tunnel)["uniform"], tunnel, episodes=20)
        assert found.state == "void" and math.isnan(found.share.mean) and not found.failed
        why = "no readout that needs it was drawn" if replacement else "worth less than 0.3 bits here"
        assert f"void ({why})" in str(found) and "nan" not in str(found) and "nan" not in found.told
        assert ("KL 0 against 0 bits of last-observation, the best" in str(found)) != replacement
        assert str(Share.of_record(json.loads(json.dumps(found.to_dict())))) == str(found)
    assert not recwarn.list


def test_an_infinite_loss_is_told_as_such_without_a_warning(recwarn):
    class Sure:
        """Certain, and on some episodes wrong."""

        def log_probs(self, inputs):
            certain = Counter(URN).log_probs(inputs)
            certain[inputs.tokens[:, 1] == 0] = torch.tensor([0.0, *[-torch.inf] * 5], dtype=torch.float64)
            return certain

    found = wt.primitives(Sure(), URN, **FEW)
    assert found.share.mean == found.share.low == -math.inf and found.kl_bits == math.inf and found.failed
    assert wt.primitives([Sure(), UNIFORM], URN, **FEW).per_seed[0] == -math.inf
    assert not recwarn.list


def test_an_infinite_sequence_counts_only_where_it_is_drawn():
    """Three sequences of which one is lost for good: 8 of 27 resamplings do without it, and are as good as the rest."""
    with np.errstate(invalid="raise"):
        (drawn,) = share_measurement._bootstrap(np.array([[1.0, np.inf, 1.0]]), np.array([2.0, 2.0, 2.0]))
    assert set(drawn) == {-np.inf, 0.5} and np.mean(drawn == 0.5) == pytest.approx(8 / 27, abs=0.05)


def test_many_sequences_are_resampled_in_blocks(monkeypatch):
    whole = wt.primitives([UNIFORM, LAST], URN, **FEW)
    monkeypatch.setattr(share_measurement, "MOST_WEIGHTS", 300 * 7)
    blocks = wt.primitives([UNIFORM, LAST], URN, **FEW)
    np.testing.assert_allclose(blocks.per_seed_error, whole.per_seed_error, rtol=1e-9, atol=1e-12)
