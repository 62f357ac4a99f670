"""A head that alone carries the signal is found, and where no head is special none is claimed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from tests.mechanism.planted import TINY, OneHead, planted
from tests.models.cases import small
from windtunnel import models
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import Bench, Place, ablate, ablation, bits_lost, heads
from windtunnel.mechanism.ablation import METHODS
from windtunnel.mechanism.chance import DRAWS, rotation
from windtunnel.mechanism.estimate import MOVED, measured
from windtunnel.mechanism.heads import ALONE, effective_number, head_losses, largest_share, rotated_losses
from windtunnel.mechanism.ranges import named_ranges, position_ranges
from windtunnel.mechanism.score import Benches
from windtunnel.tunnels import HMM

EPISODES = TINY.sample(40)


@pytest.mark.parametrize("method", METHODS)
def test_the_carrying_head_is_identified(method):
    model = planted(OneHead, carrier=2, leak=0.01)
    fresh = planted(OneHead, carrier=None, leak=0.5)
    found = heads(model, TINY, EPISODES, [fresh], methods=[method], rotations=5)
    single = {(m.where["layer"], m.where["head"]): m for m in found if m.name == "bits lost to head ablation"}
    carrier = single.pop((1, 2))
    assert carrier.value > 0.2 and carrier.low > 0.1
    assert carrier.low <= carrier.value <= carrier.high
    assert 0.7 * carrier.value > max(carrier.nulls["rotated heads"].max(), carrier.nulls["untrained"].max())
    assert all(abs(m.value) < 0.01 for m in single.values()) and len(single) == 7
    spread = {m.name: m for m in found if m.name in ("largest head", "share of the largest head")}
    top = spread["largest head"]
    assert (top.where["layer"], top.where["head"], top.searched) == (1, 2, 8)
    assert top.value == pytest.approx(carrier.value) and top.p_value is not None
    assert 0.7 * top.value > top.nulls["rotated heads"].max()
    share = spread["share of the largest head"]
    assert share.value > 0.95 and 0.7 * share.value > share.nulls["rotated heads"].max()
    number = next(m for m in found if m.name == "effective number of heads")
    assert 1.0 <= number.value < 1.1 and number.value < number.nulls["rotated heads"].min()


def test_without_a_leak_the_other_heads_cost_exactly_nothing():
    losses = head_losses(Bench(planted(OneHead, carrier=1), TINY, EPISODES), "resample")
    assert (losses[:, [0, 1, 2, 3, 4, 6, 7]] == 0).all() and losses[:, 5].mean() > 0.2


def test_the_spread_over_heads():
    one, bank = np.array([0.0, 2.0, -1.0, 0.0]), np.full(4, 0.3)
    assert largest_share(one) == 1.0 and effective_number(one) == 1.0
    assert largest_share(bank) == pytest.approx(0.25) and effective_number(bank) == pytest.approx(4.0)
    assert largest_share(-bank) == 0.0 and effective_number(-bank) == 0.0


class Isotropic(torch.nn.Module):
    """All heads side by side are turned at random before they are read: no head differs from a random subspace."""

    def __init__(self, inner: OneHead, seed: int) -> None:
        super().__init__()
        self.inner = inner
        self.idle = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.turn = rotation(12, 99, seed)

    def forward(self, tokens, features, readout, tap=None):
        def turned(name, value):
            if name == "blocks.1.attention.head_out" and tap is not None:
                flat = value.transpose(1, 2).flatten(2)
                value = tap(name, (flat @ self.turn).unflatten(2, (4, 3)).transpose(1, 2))
                back = value.transpose(1, 2).flatten(2) @ self.turn.T
                self.read = back[..., :3] + 0.5 * back[..., 3:6]
            return value

        logits = self.inner(tokens, features, readout, turned)
        return logits if tap is None else self.read[:, readout]


def test_where_no_head_is_special_few_are_claimed():
    """One head against 19 equal-rank subspaces, counted: p ≤ 0.05 in 5% of 200 networks, within the binomial bound."""
    tunnel = HMM(states=3, symbols=2, length=2)
    episodes, draws, name = tunnel.sample(6), 200, "blocks.1.attention.head_out"
    claimed, inner = 0, OneHead(tunnel, carrier=None)
    for seed in range(draws):
        one = Bench(models.build(lambda _, s=seed: Isotropic(inner, s), tunnel), tunnel, episodes)
        value = float(bits_lost(one, [Place(name, head=0)], "zero").mean())
        places = [Place(name, basis=rotation(12, seed, d)[:, :3]) for d in range(DRAWS)]
        null = np.array([float(lost.mean()) for lost in one.lost_each([ablation(one, [p], "zero") for p in places])])
        p_value = Measurement("head", value, value, value, "sequences", nulls={"random": null}).p_value
        claimed += p_value is not None and p_value <= 0.05
    assert binom.ppf(0.0005, draws, 0.05) <= claimed <= binom.ppf(0.9995, draws, 0.05)


@pytest.mark.parametrize("method", METHODS)
def test_the_only_head_of_a_layer_is_not_held_against_itself(method):
    """To rotate one head is to ablate it: what would differ is rounding, and its p-value would be made of that."""
    model = small("transformer", TINY, heads=1)
    found = heads(model, TINY, EPISODES, [small("transformer", TINY, heads=1, seed=1)], methods=[method])
    assert all(list(m.nulls) == ["untrained"] and ALONE in m.note for m in found if isinstance(m, Measurement))
    assert found and all(isinstance(m, Measurement) for m in found)


@pytest.mark.parametrize("method", METHODS)
def test_a_moved_null_that_is_the_same_ablation_lies_on_the_value(method):
    """The value of the few has their own mean and their own partners, as the draws have: rotated or not, one head is
    one head."""
    model = small("transformer", TINY, heads=1).double()
    benches = Benches.of(model, TINY, EPISODES)
    assert len(benches.small.episodes) < len(EPISODES)
    rotated = rotated_losses(benches.small, method, 3)
    own, few = benches.of_all_and_few(lambda bench: head_losses(bench, method))
    assert np.allclose(rotated, few.mean(0), rtol=0, atol=1e-12)
    if method != "zero":
        assert not np.allclose(few, own[: len(few)], rtol=0, atol=1e-9)
    one = measured("one head", [own[:, 0]], nulls={"rotated": rotated[:, 0]}, few=[few[:, 0]])
    assert np.allclose(one.nulls["rotated"], one.value, rtol=0, atol=1e-12) and MOVED in one.note


def test_parts_and_ranges():
    found = ablate(planted(OneHead), TINY, EPISODES, [planted(OneHead, carrier=None, leak=0.5)])
    by = {(m.where["layer"], m.where["part"], m.where["method"]): m for m in found}
    assert set(by) == {(layer, "mixer", method) for layer in (0, 1) for method in METHODS}
    for method in METHODS:
        assert by[0, "mixer", method].value == 0.0 == by[0, "mixer", method].high
        assert by[1, "mixer", method].low > 0.1
        assert len(by[1, "mixer", method].nulls["untrained"]) == 1  # the same layer of the one network
    assert list(named_ranges(TINY)) == [
        *("header", "transition rows", "emission rows"),
        *("first quarter", "second quarter", "third quarter", "last quarter"),
    ]
    covered = [t for name, part in named_ranges(TINY).items() if "quarter" in name for t in part]
    assert covered == list(range(6, 11))
    model = small("transformer", TINY)
    ranges = position_ranges(model, TINY, EPISODES[:8], [], draws=2)
    assert len(ranges) == 7 * len(METHODS) and all(m.nulls for m in ranges if not isinstance(m, Missing))


def test_a_range_is_taken_away_before_positions_are_mixed():
    """An MLP sums over all positions before its first block: the header is in every readout's sum by then."""
    for variant, needed in (("mlp-full", True), ("mlp-position", False), ("transformer-rope", True), ("mamba", True)):
        found = position_ranges(small(variant, TINY), TINY, EPISODES[:8], [], draws=0)
        header = [m for m in found if isinstance(m, Measurement) and m.where["positions"] == "header"]
        assert {m.where["tensor"] for m in header} == {"embed"}, variant
        assert all((m.value != 0.0) == needed for m in header), variant
