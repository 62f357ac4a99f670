"""A network with changed tensors is scored like any other; a change that would change nothing is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import windtunnel as wt
from tests.models.cases import every_variant, small
from windtunnel.errors import InputError

TUNNEL = wt.tunnels.HMM(states=3, symbols=4, length=6)
SCORED = {"episodes": 24, "chunk": 10}


class Own(nn.Module):
    """One's own, with two taps."""

    def __init__(self, tunnel):
        super().__init__()
        self.embedding, self.head = nn.Embedding(tunnel.vocabulary, 8), nn.Linear(8, tunnel.classes)

    def forward(self, tokens, features, readout, tap=None):
        x = wt.models.touch(tap, "embed", self.embedding(tokens))
        return wt.models.touch(tap, "logits", self.head(x[:, readout]))


def kl(predictor) -> float:
    return wt.evaluate(predictor, TUNNEL, **SCORED).kl_bits.mean


@every_variant
def test_nothing_changed_costs_nothing_and_an_ablation_is_that_of_a_tap(variant):
    model = small(variant, TUNNEL)
    assert kl(wt.edited(model, {})) == pytest.approx(kl(model), abs=1e-5)
    assert kl(wt.edited(model, {"final": lambda x: x})) == kl(wt.edited(model, {}))
    episodes = TUNNEL.sample(24, dtype=torch.float32)
    found = wt.edited(model, {"blocks.*.residual": torch.zeros_like}).log_probs(episodes.inputs)
    wanted = model.log_probs(
        episodes.inputs, lambda name, x: 0 * x if name.startswith("blocks.") and name.endswith(".residual") else x
    )
    assert torch.equal(found, wanted)


def test_one_position_from_another_episode():
    model, inputs = small("transformer", TUNNEL), TUNNEL.sample(5, dtype=torch.float32).inputs
    last = TUNNEL.positions - 1

    def patch(x):
        x[:, last] = x.roll(1, 0)[:, last]  # in place: it is a copy
        return x

    top = f"blocks.{len(model.blocks) - 1}.residual"
    own = wt.edited(model, {}).log_probs(inputs)
    found = wt.edited(model, {top: patch}).log_probs(inputs)
    assert torch.equal(found[:, :-1], own[:, :-1]) and torch.equal(found[:, -1], own.roll(1, 0)[:, -1])


def test_a_tensor_that_feeds_back_tells_its_step_to_who_asks():
    model, inputs = small("lstm-residual", TUNNEL), TUNNEL.sample(3, dtype=torch.float32).inputs
    name = next(name for name in model.taps() if name.endswith(".cell"))
    steps = []
    wt.edited(model, {name: lambda x, step: steps.append(step) or x}).log_probs(inputs)
    assert steps == list(range(TUNNEL.positions))
    every = wt.edited(model, {name: lambda x: 0 * x}).log_probs(inputs)
    late = wt.edited(model, {name: lambda x, step: 0 * x if step == TUNNEL.positions - 1 else x}).log_probs(inputs)
    assert not torch.equal(every, late)


def test_ones_own_network_and_one_of_the_zoo_with_its_tunnel():
    model = wt.models.build(Own, TUNNEL)
    assert kl(wt.edited(model, {"logits": torch.zeros_like})) == pytest.approx(kl(wt.baselines(TUNNEL)["uniform"]))
    shipped = wt.edited(wt.zoo.load("urn-transformer"), {"logits": torch.zeros_like})
    assert wt.evaluate(shipped, episodes=20).kl_bits.mean > 0.01
    with pytest.raises(InputError, match=r"^the model's vocabulary = 10: must be the tunnel's 11"):
        wt.evaluate(wt.edited(model, {}), wt.tunnels.Urn())


def test_evaluation_leaves_the_network_as_it_was():
    model = small("transformer", TUNNEL).train()
    kl(wt.edited(model, {"final": torch.zeros_like}))
    assert model.training and torch.is_grad_enabled()


def refused(model, edits) -> str:
    with pytest.raises(InputError) as error:
        kl(wt.edited(model, edits))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_mistakes_in_one_line():
    model = small("transformer", TUNNEL)
    told = refused(model, {"blocks.0.attn.out": torch.zeros_like})
    assert told.startswith("tap name = 'blocks.0.attn.out': must match one of ")
    assert "blocks.0.attention.out, " in told and " in all, see model.taps())" in told and len(told) < 250
    deep = wt.models.build("transformer", TUNNEL, depth=6, width=8)
    told = refused(deep, {"blocks.residual": torch.zeros_like})  # equally near to each, which come in their own order
    assert f"one of {', '.join(f'blocks.{k}.residual' for k in range(5))}, …" in told
    assert refused(model, {"blocks.7.*": torch.zeros_like}).startswith(
        "tap name = 'blocks.7.*': must match one of embed,"
    )
    assert refused(model, {"final": 3}) == "edits['final'] = 3: must be a function of the tensor"
    assert refused(model, ["final"]).startswith("edits = ['final']: must be named functions, e.g. {")
    assert refused(model, {"final": lambda x: None}).startswith(
        "edits['final'] returned a value of type NoneType: must be a tensor (10, "
    )
    assert refused(model, {"final": lambda x: x[:1]}).startswith("edit of final has shape (1, 6, ")
    assert "failed on shape (10, 6, " in refused(model, {"final": lambda x: x.nothing})
    assert refused([model], {}).startswith("model = ") and "run.models[0]" in refused([model], {})
    assert "models.build(lambda tunnel: net, tunnel)" in refused(Own(TUNNEL), {})
    assert refused(wt.models.build(lambda tunnel: Blind(tunnel), TUNNEL), {}).endswith("has no taps: nothing to edit")


class Blind(Own):
    """One without taps."""

    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout)
