"""Changed evidence: the exact predictor moves exactly as it should, a short memory shows its length, chance nothing."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from tests.mechanism.planted import AGAIN, CIRCLE, ONCE, TINY, URN, ZEROS, Chance, Exact, noise
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import evidence_flip
from windtunnel.tunnels import HMM

EPISODES = TINY.sample(32)


def by_lag(found) -> dict:
    return {(m.name.split(", ")[1], m.where["lag"]): m for m in found if not isinstance(m, Missing)}


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, URN], ids=["hmm", "bijection", "replacement", "urn"])
def test_an_exact_predictor_moves_exactly_as_it_should(tunnel):
    found = by_lag(evidence_flip(Exact(tunnel), tunnel, tunnel.sample(32), [Uniform(tunnel.classes)]))
    assert len(found) >= 6
    for (kind, lag), m in found.items():
        assert m.value == pytest.approx(1.0, abs=1e-6), (kind, lag)
        assert (m.nulls["untrained"] == 0).all()
        assert m.nulls["exact shift of another episode"].max() < 0.95
        assert m.p_value is not None and m.low <= m.value + 1e-12


@pytest.mark.parametrize("window", [1, 2])
def test_a_short_memory_shows_its_length(window):
    found = by_lag(evidence_flip(Exact(TINY, window=window), TINY, EPISODES, []))
    lags = sorted(lag for kind, lag in found if kind == "slope")
    assert lags == [0, 1, 2, 4]
    for lag in lags:
        if lag < window:
            assert found["slope", lag].value > 0.3
        else:
            assert found["slope", lag].value == 0.0 == found["correlation", lag].value


class Jittery:
    """Exact but for an error of a millionth, which depends on all it has read."""

    def __init__(self, tunnel) -> None:
        self.exact = Exact(tunnel)

    def log_probs(self, inputs):
        log_probs = self.exact.log_probs(inputs)
        return (log_probs + 1e-6 * noise(inputs, log_probs.shape[-1])[:, inputs.readout]).log_softmax(-1)


def test_where_the_exact_belief_hardly_moves_there_is_no_slope():
    """Memory fades as 0.05 to the power of the lag: after 16 steps an error of a millionth is all there is."""
    transition = ((0.525, 0.475), (0.475, 0.525))
    tunnel = HMM(states=2, symbols=2, length=20, header=None, transition=transition, emission=((0.8, 0.2), (0.3, 0.7)))
    found = evidence_flip(Jittery(tunnel), tunnel, tunnel.sample(32), [])
    slopes = {m.where["lag"]: m for m in found if not isinstance(m, Missing) and m.name.endswith("slope")}
    assert all(m.value == pytest.approx(1.0, abs=0.05) for m in slopes.values()) and {0, 1, 2} == set(slopes)
    missing = {m.name: m.reason for m in found if isinstance(m, Missing)}
    assert list(missing) == [f"evidence flip, lag {lag}" for lag in (4, 8, 16)]
    assert all("nothing to follow: the exact belief itself moves" in reason for reason in missing.values())


def test_chance_is_seldom_claimed():
    """p ≤ 0.05 against the shifts of other episodes in 5% of 200 predictors, within the binomial bound."""
    tunnel, draws, claimed = HMM(states=3, symbols=3, length=3), 200, 0
    for seed in range(draws):
        episodes = tunnel.sample(12, seed=seed)
        found = evidence_flip(Chance(tunnel, seed), tunnel, episodes, [], steps=[1], lags=[0], shuffles=19)
        assert not isinstance(found[0], Missing)
        claimed += (found[0].p_value or 0.0) <= 0.05
    assert binom.ppf(0.001, draws, 0.05) <= claimed <= binom.ppf(0.999, draws, 0.05)


def test_flips_that_cannot_happen_are_left_out_and_told():
    """On the rest the exact predictor is exact; of the others there is no belief to follow."""
    found = evidence_flip(Exact(ZEROS), ZEROS, ZEROS.sample(64), [Uniform(3)])
    slopes = by_lag(found)
    assert len(slopes) >= 6 and all(m.value == pytest.approx(1.0, abs=1e-6) for m in slopes.values())
    (note,) = {m.note for m in slopes.values()}
    lost, count = (int(word) for word in note.split(" changed")[0].split(" of "))
    assert 0 < lost < count == 4 * 64
    assert note.endswith("changed episodes left out: impossible under this chain, which has zeros")
    assert not any(m.note for m in by_lag(evidence_flip(Exact(TINY), TINY, EPISODES, [Uniform(3)])).values())


def test_where_no_flip_can_happen_there_is_no_number():
    found = evidence_flip(Exact(CIRCLE), CIRCLE, CIRCLE.sample(8), [])
    told = "32 of 32 changed episodes left out: impossible under this chain, which has zeros"
    assert [(m.name, m.reason) for m in found if isinstance(m, Missing)] == [
        (f"evidence flip, lag {lag}", told) for lag in (0, 1, 2, 4)
    ]
    assert len(found) == 4


@pytest.mark.parametrize(("count", "draws"), [(2, 1), (3, 2), (5, 24), (8, 199)])
def test_few_episodes_have_few_others(count, draws):
    """Two episodes can be exchanged in one way.  Counted 199 times it gave p = 0.005 every other time."""
    found = evidence_flip(Exact(TINY), TINY, TINY.sample(count), [])
    shifts = [m for m in found if isinstance(m, Measurement)]
    assert shifts and all(len(m.nulls["exact shift of another episode"]) == draws for m in shifts)
    if count == 2:
        assert all(m.p_value is not None and m.p_value >= 0.5 for m in shifts)
