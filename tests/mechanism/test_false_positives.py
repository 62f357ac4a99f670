"""On matching noise each instrument says "p ≤ 0.05" in about one of twenty draws: 200 cheap draws per null.

The noise is built so that the value and the draws of the null are exchangeable: then the counted p-value of 19 draws is
exact, and the number of false alarms is Binomial(200, 0.05).  It must lie within the central 99.9% of that.  An
instrument prints the largest p-value over its nulls, so its own rate can only be lower.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import pytest
import torch
from scipy.stats import binom
from torch import nn

from tests.mechanism.planted import Chance, noise
from windtunnel import models
from windtunnel.geometry import Measurement
from windtunnel.mechanism import (
    ablate,
    chance,
    dose,
    exchangeability,
    late,
    patch,
    position_ranges,
    roles,
    shifted_prior,
)
from windtunnel.mechanism.losses import TURNED, UNTRAINED
from windtunnel.mechanism.patch import MISMATCHED
from windtunnel.mechanism.score import NULL_EPISODES
from windtunnel.models import touch
from windtunnel.tunnels import HMM, Bijection, Inputs

NETWORKS, RATE, B = 200, 0.05, 19
LOW, HIGH = (int(binom.ppf(q, NETWORKS, RATE)) for q in (0.0005, 0.9995))
TUNNEL = Bijection(symbols=6, length=6)  # so large that two episodes seldom agree
PARTS = ("embed", "blocks.0.attention.out", "blocks.0.ff.out", "blocks.0.residual")


class Indifferent(nn.Module):
    """Its tensors are noise, and a change of them moves the logits at all later positions by a Gaussian map.

    Unchanged it makes one fixed guess.  A Gaussian map looks the same from every direction, so damage turned at random
    does what the damage itself does; and noise knows no donor, so any donor is as good as another.
    """

    def __init__(self, tunnel, seed: int, width: int = 8) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.idle = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.maps = torch.randn(len(PARTS), width, tunnel.classes, generator=generator, dtype=torch.float64)
        self.guess = torch.randn(tunnel.classes, generator=generator, dtype=torch.float64)

    def forward(self, tokens, features, readout, tap=None):
        tensors = noise(Inputs(tokens, features, readout), self.maps.shape[0] * self.maps.shape[1])
        moved = torch.zeros(*tokens.shape, len(self.guess), dtype=torch.float64)
        for name, x, read in zip(PARTS, tensors.chunk(len(PARTS), -1), self.maps):
            moved = moved + (touch(tap, name, x) - x) @ read
        return self.guess + moved.cumsum(1)[:, readout]


class Sized(Indifferent):
    """Moved far more by how large a change is than by where it leads.

    All directions then cost nearly the same, and a value that took its means or partners from other episodes than the
    draws of its null would lie outside of them.
    """

    def forward(self, tokens, features, readout, tap=None):
        tensors = noise(Inputs(tokens, features, readout), self.maps.shape[0] * self.maps.shape[1])
        moved = torch.zeros(*tokens.shape, len(self.guess), dtype=torch.float64)
        for name, x, read in zip(PARTS, tensors.chunk(len(PARTS), -1), self.maps):
            change = touch(tap, name, x) - x
            moved = moved + change.square().sum(-1, keepdim=True) * read[0] + 0.01 * change @ read
        return self.guess + moved.cumsum(1)[:, readout]


def network(seed: int, kind: type[Indifferent] = Indifferent):
    return models.build(lambda _: kind(TUNNEL, seed), TUNNEL)


def episodes(seed: int, tunnel=TUNNEL, count: int = 6):
    return tunnel.sample(count, seed=seed)


def many(seed: int):
    """So many that nulls are drawn on a third of them, and moved."""
    return episodes(seed, count=3 * NULL_EPISODES)


def alarm(found: list, null: str, index: int = 0) -> bool:
    """Whether one record claims something against one null."""
    record = [m for m in found if isinstance(m, Measurement)][index]
    assert len(record.nulls[null]) == B
    alone = replace(record, nulls={null: record.nulls[null]})
    assert alone.p_value is not None
    return alone.p_value <= RATE


CASES = {
    "ablate": (lambda s: ablate(network(s), TUNNEL, episodes(s), [], methods=["resample"]), [TURNED]),
    "ablate, many": (lambda s: ablate(network(s, Sized), TUNNEL, many(s), [], methods=["resample"]), [TURNED]),
    "ranges, many": (lambda s: position_ranges(network(s, Sized), TUNNEL, many(s), [], methods=["mean"]), [TURNED]),
    "ranges": (lambda s: position_ranges(network(s), TUNNEL, episodes(s), [], methods=["mean"]), [TURNED]),
    "late": (lambda s: late(network(s), TUNNEL, episodes(s), [], lengths=[6]), [TURNED]),
    "roles": (lambda s: roles(network(s), TUNNEL, episodes(s), []), [TURNED]),
    "patch": (lambda s: patch(network(s), TUNNEL, episodes(s), []), [TURNED, MISMATCHED]),
    "dose": (lambda s: dose(network(s), TUNNEL, episodes(s), []), [MISMATCHED, TURNED]),
}


@pytest.mark.parametrize("case", CASES)
def test_false_alarms_come_at_the_stated_rate(case, monkeypatch):
    """Each network gets its own random rotations and derangements, as independent networks would."""
    measure, nulls = CASES[case]
    alarms = dict.fromkeys(nulls, 0)
    # One range and one role instead of all: the same code, a quarter of the time.
    monkeypatch.setattr(sys.modules["windtunnel.mechanism.ranges"], "named_ranges", lambda tunnel: {"start": range(3)})
    monkeypatch.setattr(sys.modules["windtunnel.mechanism.roles"], "ROLES", ("update",))
    for seed in range(NETWORKS):
        for room, name in itertools.product(("ablation", "patch"), ("rotation", "derangement")):
            own = getattr(chance, name)
            module = sys.modules[f"windtunnel.mechanism.{room}"]  # the room's front door has a function of that name
            monkeypatch.setattr(module, name, lambda size, *more, f=own, s=seed: f(size, s, *more))
        found = measure(seed)
        for null in nulls:
            alarms[null] += alarm(found, null)
    assert all(LOW <= number <= HIGH for number in alarms.values()), f"{alarms} of {NETWORKS}"


UNTRAINED_CASES = {
    "late": lambda nets, eps: late(nets[0], TUNNEL, eps, nets[1:], lengths=[6], draws=0),
    "dose": lambda nets, eps: dose(nets[0], TUNNEL, eps, nets[1:], draws=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNTRAINED_CASES)
def test_one_more_untrained_network_is_seldom_told_from_the_others(case):
    alarms = 0
    for seed in range(NETWORKS):
        nets = [network(1000 * seed + index) for index in range(1 + B)]
        alarms += alarm(UNTRAINED_CASES[case](nets, episodes(seed)), UNTRAINED)
    assert LOW <= alarms <= HIGH, f"{alarms} of {NETWORKS}"


PREDICTORS = {
    "exchange, episodes": ("unrelated episodes", 0),
    "shift, home": ("equal means", 0),
    "exchange, untrained": (UNTRAINED, B),
    "shift, untrained": (UNTRAINED, 2 * B + 1),  # two-sided: so many are needed to reach 0.05
}
SLOW = [pytest.param(case, marks=pytest.mark.slow if "untrained" in case else ()) for case in PREDICTORS]


@pytest.mark.parametrize("case", SLOW)
def test_behaviour_raises_false_alarms_at_the_stated_rate(case):
    """Exchanged worlds that chance takes for other ones; a shift to the very same prior."""
    null, others = PREDICTORS[case]
    world, alarms = HMM(states=5, symbols=3, length=2), 0
    for seed in range(NETWORKS):
        predictors = [Chance(world, 100 * seed + index) for index in range(1 + others)]
        if case.startswith("exchange"):
            found = exchangeability(predictors[0], world, episodes(seed, world, 12), predictors[1:])
        else:
            given = {"worlds": {"the same": world}, "seed": 10_000 + seed}
            found = shifted_prior(predictors[0], world, episodes(seed, world, 40), predictors[1:], **given)
        record = found[0]
        assert isinstance(record, Measurement)
        p_value = replace(record, nulls={null: record.nulls[null]}).p_value
        alarms += p_value is not None and p_value <= RATE
    assert LOW <= alarms <= HIGH, f"{alarms} of {NETWORKS}"
