"""From outside: the exact predictor is exact, a short memory shows its length, chance shows nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from scipy.stats import binom

from tests.mechanism.planted import CIRCLE, TINY, ZEROS, Chance, Exact, Recurrent, noise, planted
from windtunnel.errors import InputError
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import evidence_flip, exchangeability, patch, roles, shifted_prior
from windtunnel.mechanism.worlds import exchange, flip, shifted
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

EPISODES = TINY.sample(32)
ONCE, AGAIN = Bijection(symbols=5, length=5), Bijection(symbols=5, length=6, replacement=True)
URN = Urn(symbols=4, length=6, concentration=0.5)
RECALL = Recall(pairs=3, queries=2, filler=2, keys=5, values=6)
NOISY = Recall(pairs=3, queries=2, filler=2, keys=5, values=6, noise=0.3, repeats=2)


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


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, URN], ids=["hmm", "bijection", "replacement", "urn"])
def test_an_exact_predictor_is_exchangeable_and_chance_is_not(tunnel):
    episodes = tunnel.sample(24)
    (exact,) = exchangeability(Exact(tunnel), tunnel, episodes, [Chance(tunnel, 0)])
    (chance,) = exchangeability(Chance(tunnel, 0), tunnel, episodes, [])
    assert not isinstance(exact, Missing) and not isinstance(chance, Missing)
    assert exact.value == pytest.approx(0.0, abs=1e-9) and exact.high < 1e-9
    assert exact.nulls["unrelated episodes"].min() > 0.5 and exact.nulls["untrained"].min() > 0.2
    assert chance.value > 0.2 and chance.side == "below"
    (same,) = exchangeability(Uniform(tunnel.classes), tunnel, episodes, [])
    assert isinstance(same, Missing)


class FirstToken:
    """Its prediction hangs on what comes first and on nothing else: the order of the evidence is all to it."""

    def __init__(self, tunnel) -> None:
        self.classes = tunnel.classes

    def log_probs(self, inputs):
        logits = torch.zeros(len(inputs), len(inputs.readout), self.classes, dtype=torch.float64)
        logits[torch.arange(len(inputs)), :, inputs.tokens[:, 1] % self.classes] = 3.0
        return logits.log_softmax(-1)


NOTHING = [
    Urn(symbols=4, length=3),
    Bijection(symbols=6, length=3),
    Recall(pairs=1, queries=1, filler=0, keys=4, values=4),
]


@pytest.mark.parametrize("tunnel", NOTHING, ids=["urn", "bijection", "recall"])
def test_where_nothing_can_be_exchanged_there_is_no_number(tunnel):
    """One piece of evidence has one order: nobody is exchangeable for that."""
    (found,) = exchangeability(FirstToken(tunnel), tunnel, tunnel.sample(64), [])
    assert isinstance(found, Missing) and "0 of 64 episodes look otherwise after the exchange" in found.reason


def test_episodes_that_look_the_same_after_the_exchange_are_left_out_and_told():
    """Two draws keep their order half of the time, and seem exchanged where they are alike."""
    tunnel = Urn(symbols=4, length=4)
    episodes = tunnel.sample(64)
    edited = exchange(tunnel, episodes, 2)
    differs = edited.differs(episodes)
    assert 2 < differs.sum() < 40
    (found,) = exchangeability(FirstToken(tunnel), tunnel, episodes, [], step=2)
    assert not isinstance(found, Missing)
    assert len(found.arrays["tv"]) == differs.sum() and (found.arrays["tv"] > 0).all()
    assert found.note == f"{64 - int(differs.sum())} of 64 episodes left out: they look the same after the exchange"


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, RECALL, NOISY, URN], ids=str)
def test_exchanged_worlds_have_the_same_belief_and_other_inputs(tunnel):
    episodes = tunnel.sample(20)
    step = tunnel.readouts // 2 + 1 if tunnel.readouts > 3 else 1
    edited = exchange(tunnel, episodes, step)
    moved = edited.episodes.posterior
    if edited.rename is not None:
        moved = moved.gather(2, edited.rename[:, None, :].expand_as(moved))
        assert not torch.allclose(edited.episodes.posterior, episodes.posterior, atol=1e-3)
    chosen = edited.lag >= 0
    assert torch.allclose(moved[chosen], episodes.posterior[chosen], atol=1e-12) and chosen.any()
    same_features = episodes.inputs.features is None or torch.equal(
        episodes.inputs.features, edited.episodes.inputs.features
    )
    assert not (same_features and torch.equal(episodes.inputs.tokens, edited.episodes.inputs.tokens))


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, RECALL, NOISY, URN], ids=str)
def test_a_flip_changes_only_what_it_says(tunnel):
    episodes = tunnel.sample(20)
    edited = flip(tunnel, episodes, 1)
    before, after = episodes.inputs.tokens, edited.episodes.inputs.tokens
    differ, chosen = before != after, edited.lag >= 0
    assert differ.any(1).all() and chosen.any()
    if tunnel.readouts > 2:
        for i in range(20):  # what lies before the first compared readout's evidence is untouched
            last = int(edited.episodes.inputs.readout[chosen[i].nonzero().max()]) if chosen[i].any() else 0
            kind = int(differ[i, : last + 1].sum())
            assert kind == 1 or (tunnel == AGAIN and kind >= 1) or not chosen[i].any()
    assert torch.equal(edited.episodes.posterior, tunnel.episodes(edited.episodes.latent).posterior)
    changed = (edited.episodes.posterior - episodes.posterior).abs().sum(-1) > 1e-9
    assert changed[chosen].any() and (tunnel != TINY or not changed[:, 0].any())
    if isinstance(tunnel, Bijection):
        assert (edited.episodes.latent["permutation"].sort(1).values == torch.arange(tunnel.symbols)).all()


def test_a_flip_is_followed_only_until_a_second_thing_differs():
    tunnel = Bijection(symbols=3, length=7, replacement=True)  # every key comes up, so the partner does too
    episodes = tunnel.sample(40)
    edited = flip(tunnel, episodes, 0)
    keys, shown = episodes.latent["keys"], episodes.latent["values"] != edited.episodes.latent["values"]
    for i, k in (edited.lag >= 0).nonzero().tolist():
        assert set(keys[i, :k][shown[i, :k]].tolist()) == {int(keys[i, 0])}
    assert ((edited.lag[:, 1:] < 0).any(1) & (edited.lag[:, 1:] >= 0).any(1)).any()


def test_a_shifted_prior():
    worlds = shifted(TINY)
    assert list(worlds) == ["concentration 0.3", "concentration 3", "rotating", "sticky"]
    found = shifted_prior(Exact(TINY), TINY, EPISODES, [Uniform(3)])
    assert [m.where["world"] for m in found if not isinstance(m, Missing)] == list(worlds)
    assert all(abs(m.value) < 1e-9 for m in found if not isinstance(m, Missing))
    short = {
        m.where["world"]: m for m in shifted_prior(Exact(TINY, 1), TINY, EPISODES, []) if not isinstance(m, Missing)
    }
    assert short["rotating"].low > 0.05 and short["rotating"].value > short["rotating"].nulls["equal means"].max()
    assert isinstance(shifted_prior(Exact(AGAIN), AGAIN, AGAIN.sample(4), [])[0], Missing)  # longer than its symbols
    assert list(shifted(ONCE)) == ["with replacement"] and list(shifted(RECALL)) == ["noise 0.2"]
    assert list(shifted(URN)) == ["concentration 0.05", "concentration 0.2", "concentration 1"]
    assert shifted(ZEROS) == {}  # fixed matrices have no prior


def test_a_tunnel_without_edits_says_so():
    fixed = HMM(states=2, symbols=2, length=3, header=None, transition=((0.5, 0.5),) * 2, emission=((0.5, 0.5),) * 2)
    with pytest.raises(InputError, match="header = None"):
        exchange(fixed, fixed.sample(2), 1)
    with pytest.raises(InputError, match="no evidence flip is defined"):
        flip(object(), fixed.sample(2), 1)


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
    (exchanged,) = exchangeability(Exact(TINY), TINY, TINY.sample(count, seed=3), [])
    assert isinstance(exchanged, Measurement) and len(exchanged.nulls["unrelated episodes"]) <= min(draws, 19)


@pytest.mark.parametrize("step", [-1, 5, 1.5, "last"])
def test_a_step_that_there_is_not_is_refused(step):
    model, drawn = planted(Recurrent), TINY.sample(4)
    for ask in (
        partial(evidence_flip, steps=[step]),
        *(partial(f, step=step) for f in (exchangeability, patch, roles)),
    ):
        with pytest.raises(InputError, match=r"step = .*: must be a whole number from 0 to 4"):
            ask(model, TINY, drawn, [])
