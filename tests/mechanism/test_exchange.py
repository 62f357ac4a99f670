"""Exchanged evidence: the exact predictor stays, chance does not, and where nothing changes there is no number."""

from __future__ import annotations

import pytest
import torch

from tests.mechanism.planted import AGAIN, ONCE, TINY, URN, Chance, Exact
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import exchangeability
from windtunnel.mechanism.worlds import exchange
from windtunnel.tunnels import Bijection, Recall, Urn


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


@pytest.mark.parametrize(("count", "draws"), [(2, 1), (3, 2), (5, 24), (8, 199)])
def test_few_episodes_have_few_others(count, draws):
    (exchanged,) = exchangeability(Exact(TINY), TINY, TINY.sample(count, seed=3), [])
    assert isinstance(exchanged, Measurement) and len(exchanged.nulls["unrelated episodes"]) <= min(draws, 19)
