"""On matching noise every instrument of this room, called as a survey calls it, raises the alarms it owns up to.

`test_false_positives` puts the pure pieces to the same test.  Here it is the whole instrument: which tensors it
gathers, which null it draws from them, and how it searches over layers and heads.  Two kinds of noise, 200 draws each:

    one more untrained network among its twins         every reading against the null "untrained"
    a network whose tensors know nothing of the input  every reading against shuffled labels or episodes, hypotheses
                                                       matched at random, random vectors

In both the value and the draws of the null are exchangeable: alarms are binomial, and must lie within the central 99.9%
of that.  Two things keep a rate from being 0.05 exactly.  Counted p-values have steps: `stated` is the largest rate up
to 0.05 that a null of so many draws can have.  And the five twins of a survey are judged by a t that is cautious where
they scatter normally, because the best of several places has a long tail; so of these it is asked that the subject be
the most extreme of six in one draw of six, which needs no assumption, and that alarms be no more than stated.

The instruments are whole, but for the number of draws and replicates (see FEW).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, nn

from windtunnel import models
from windtunnel.geometry import Measurement
from windtunnel.geometry.measurement import COUNTED
from windtunnel.geometry.task import exact_belief, window_belief
from windtunnel.mechanism.inspect import UNTRAINED
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.models import touch
from windtunnel.tunnels import HMM, Bijection, Episodes, Tunnel

DRAWS, RATE = 200, 0.05
WORLD, MEMORY = HMM(states=3, symbols=3, length=4), Bijection(symbols=3, length=4, replacement=True)
LONG = HMM(states=3, symbols=3, length=8)  # rows of an episode that are alike must be many to mislead
MANY = Bijection(symbols=6, length=6)  # three hypotheses have but six matchings, and none is rare
EPISODES = 10

FEW = {  # draws of nulls and replicates of intervals: as few as can tell anything, for the sake of time
    "key_survey": {"DRAWS": 39, "REPLICATES": 2, "GROUPS": 1},  # two-sided: so many are needed to reach 0.05
    "alignment_survey": {"DRAWS": 39},
    "value_survey": {"DRAWS": COUNTED, "REPLICATES": 2},
    "belief_survey": {"DRAWS": COUNTED, "RANKS": (1,)},
    "lens": {"DRAWS": COUNTED},
    "cluster_survey": {"DRAWS": 39, "SHUFFLES": COUNTED, "REPLICATES": 2},
    "clusters": {"REFERENCES": 2, "RESTARTS": 1},
}
Subject = tuple[nn.Module, Tunnel, Episodes]
WHOLE_NUMBERS = ("clusters by silhouette", "clusters by gap")  # ties: fewer alarms than stated


def slow(case: str):
    return pytest.param(case, marks=pytest.mark.slow)


def stated(measurement: Measurement, null: str) -> float:
    """The largest rate up to RATE that a p-value against this null can have."""
    draws, sides = len(measurement.nulls[null]), 2 if measurement.side == "both" else 1
    if draws < COUNTED:
        return RATE
    return sides * int(RATE * (draws + 1) / sides + 1e-9) / (draws + 1)


@dataclass
class Tally:
    """How often something was said of each reading of an instrument, and how often it should be."""

    times: Counter[str] = field(default_factory=Counter)
    draws: Counter[str] = field(default_factory=Counter)
    rates: dict[str, float] = field(default_factory=dict)

    def add(self, reading: str, said: bool, rate: float) -> None:
        self.times[reading] += said
        self.draws[reading] += 1
        self.rates[reading] = rate

    def outside(self, *, above_only: bool = False) -> dict[str, int]:
        """Readings whose number lies outside the binomial bound, or above it."""
        assert self.rates and set(self.draws.values()) == {DRAWS}
        found = {}
        for reading, rate in self.rates.items():
            least, most = (binom.ppf(q, DRAWS, rate) for q in (0.0005, 0.9995))
            tied = any(name in reading for name in WHOLE_NUMBERS)
            if not (0 if above_only or tied else least) <= self.times[reading] <= most:
                found[reading] = self.times[reading]
        return found


def readings(found: Iterable, nulls: Iterable[str]) -> Iterator[tuple[str, Measurement, str]]:
    """(what is read, the record with this null alone, the null)."""
    for index, m in enumerate(one for one in found if isinstance(one, Measurement)):
        kind = ", ".join(str(m.where[key]) for key in ("hypotheses", "path", "stream") if key in m.where)
        for null in set(nulls) & set(m.nulls):
            yield f"{index} {m.name} ({kind}), {null}", replace(m, nulls={null: m.nulls[null]}), null


@pytest.fixture
def own_chance(monkeypatch) -> Callable[[int], None]:
    """Few draws, and a function that gives a draw its own: an instrument's generators start alike for every network, so
    that all would meet the same shuffles, lucky or not."""
    for module, values in FEW.items():
        for name, value in values.items():
            monkeypatch.setattr(sys.modules[f"windtunnel.geometry.{module}"], name, value)
    generator = np.random.default_rng

    def of_draw(draw: int) -> None:
        monkeypatch.setattr(
            np.random, "default_rng", lambda seed: generator([draw, seed] if isinstance(seed, int) else seed)
        )

    return of_draw


# --- one more untrained network among its twins


@cache
def template(tunnel: Tunnel):
    model = models.build("transformer", tunnel, depth=2, width=8, heads=2)
    assert isinstance(model, models.SequenceModel)
    return model.spec


@cache
def untrained(tunnel: Tunnel, draw: int, count: int) -> list[nn.Module]:
    return [models.from_spec(template(tunnel), seed=1000 * draw + index).eval() for index in range(count)]


@pytest.mark.parametrize("name", [slow("keys"), "alignment", slow("values"), slow("beliefs"), "lens", slow("clusters")])
def test_one_more_untrained_network_is_seldom_told_from_its_twins(name: str, own_chance, monkeypatch):
    for module, values in FEW.items():  # the other nulls are not asked here
        if "DRAWS" in values:
            monkeypatch.setattr(sys.modules[f"windtunnel.geometry.{module}"], "DRAWS", 2)
    tunnel: Tunnel = {"keys": MEMORY, "alignment": MEMORY}.get(name, WORLD)
    most_extreme, alarms = Tally(), Tally()
    for draw in range(DRAWS):
        own_chance(draw)
        subject, *twins = untrained(tunnel, draw, 1 + UNTRAINED)
        found = INSTRUMENTS[name](subject, tunnel, tunnel.sample(EPISODES, seed=draw), twins)
        for reading, m, null in readings(found, ["untrained"]):
            sample, sides = m.nulls[null], 2 if m.side == "both" else 1
            assert len(sample) == UNTRAINED and m.p_value is not None
            above, below = m.value > sample.max(), m.value < sample.min()
            first = {"above": above, "below": below, "both": above or below}[m.side]
            most_extreme.add(reading, bool(first), sides / (1 + UNTRAINED))
            alarms.add(reading, m.p_value <= RATE, RATE)
    assert not most_extreme.outside()
    assert not alarms.outside(above_only=True)


# --- a network that knows nothing of the input


class Noise(nn.Module):
    """Hands over every tensor an instrument may ask for: Gaussian, from its own generator, whatever it reads.

    Keys and queries are one Gaussian vector per token, head and layer.  All else is drawn anew for each row; streams
    and values have a part of size `kin` that is common to all rows of an episode, as real ones have.  In `shown`
    (n, T, C) is what they hold beside, for the episodes in their order.
    """

    def __init__(self, tunnel: Tunnel, seed: int, *, kin: float = 0.0, loud: float = 1.0, shown: Tensor | None = None):
        super().__init__()
        self.idle, self.generator = nn.Parameter(torch.zeros(1)), torch.Generator().manual_seed(seed)
        self.classes, self.kin, self.loud, self.shown = tunnel.classes, kin, loud, shown
        self.vectors = self.draw(2, 2, tunnel.vocabulary, 2, 4)  # layers, query or key, tokens, heads, width

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def stream(self, n: int, length: int) -> Tensor:
        x = self.loud * (self.draw(n, length, 4) + self.kin * self.draw(n, 1, 4))
        return x if self.shown is None else torch.cat([self.shown[:n].to(x), x], -1)

    def forward(self, tokens, features, readout, tap=None):
        n, length = tokens.shape
        touch(tap, "embed", self.stream(n, length))
        for layer, vectors in enumerate(self.vectors):
            for part, table in zip("qk", vectors):
                touch(tap, f"blocks.{layer}.attention.{part}", table[tokens].transpose(1, 2))
            touch(tap, f"blocks.{layer}.attention.v", self.stream(n, length)[:, None])
            scores = self.draw(n, 2, length, length).masked_fill(torch.ones(length, length).triu(1) > 0, -torch.inf)
            touch(tap, f"blocks.{layer}.attention.pattern", scores.softmax(-1))
            touch(tap, f"blocks.{layer}.residual", self.stream(n, length))
        return self.draw(n, len(readout), self.classes)


def noise(tunnel: Tunnel, draw: int, **options):
    return models.build(lambda _: Noise(tunnel, draw, **options), tunnel)


def ignorant(tunnel: Tunnel, **options) -> Callable[[int], Subject]:
    return lambda draw: (noise(tunnel, draw, **options), tunnel, tunnel.sample(EPISODES, seed=draw))


def unrelated(draw: int) -> Subject:
    """A real network, and episodes that hold the beliefs of others against its answers."""
    told, shown = (WORLD.sample(EPISODES, seed=seed) for seed in (draw, 10_000 + draw))
    return untrained(WORLD, draw, 1)[0], WORLD, replace(told, inputs=shown.inputs)


def forgetful(draw: int) -> Subject:
    """Its streams hold the belief of one who saw the last observation only, and noise: nothing beyond that window."""
    episodes = WORLD.sample(2 * EPISODES, seed=draw)
    window = window_belief(WORLD, episodes, 1)
    assert window is not None
    return noise(WORLD, draw, shown=at_readouts(episodes, window)), WORLD, episodes


def carrier(draw: int) -> Subject:
    """Its streams hold the exact belief and next to nothing else: no more clustered than the belief itself."""
    episodes = WORLD.sample(EPISODES, seed=draw)
    belief = at_readouts(episodes, exact_belief(WORLD, episodes))
    return noise(WORLD, draw, shown=belief, loud=0.01), WORLD, episodes


def at_readouts(episodes: Episodes, known: np.ndarray) -> Tensor:
    """(n, T, C) what is known at the readouts, zero elsewhere."""
    whole = torch.zeros(*episodes.inputs.tokens.shape, known.shape[-1])
    whole[:, episodes.inputs.readout] = torch.from_numpy(known).float()
    return whole


RANDOM, EPISODE, LABEL = "random vectors", "shuffled episodes", "shuffled labels"
ALIKE = {  # case -> instrument, subject, nulls that it is like, and what of the readings is noise ("": all)
    "keys": ("keys", ignorant(MANY), [RANDOM, "hypotheses matched at random"], ""),
    "alignment": ("alignment", ignorant(MEMORY), [EPISODE], ""),
    "values": ("values", ignorant(WORLD), [LABEL], ""),
    "lens": ("lens", unrelated, [EPISODE], ""),
    "beliefs": ("beliefs", ignorant(WORLD, kin=1.0), [EPISODE], ""),
    "beliefs beyond": ("beliefs", forgetful, [EPISODE], "beyond window"),
    "clusters": ("clusters", ignorant(LONG, kin=2.0), [LABEL, EPISODE], ""),
}
QUICK = ("keys", "alignment", "values", "lens")


@pytest.mark.parametrize("case", [case if case in QUICK else slow(case) for case in ALIKE])
def test_noise_raises_alarms_at_the_stated_rate(case, own_chance):
    name, make, nulls, part = ALIKE[case]
    tally = Tally()
    for draw in range(DRAWS):
        own_chance(draw)
        for reading, m, null in readings(INSTRUMENTS[name](*make(draw), []), nulls):
            if part in reading:
                assert m.p_value is not None
                tally.add(reading, m.p_value <= RATE, stated(m, null))
    assert {null for null in nulls if any(null in reading for reading in tally.rates)} == set(nulls)
    assert not tally.outside()


WEAKER = {  # subjects that can be at most as good as their null
    "beliefs": ("beliefs", ignorant(WORLD), ["random subspaces"]),  # all of it decodes noise no better than a part
    "clusters": ("clusters", carrier, ["exact belief"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WEAKER)
def test_what_cannot_beat_its_null_seldom_does(case, own_chance):
    name, make, nulls = WEAKER[case]
    tally = Tally()
    for draw in range(DRAWS):
        own_chance(draw)
        for reading, m, null in readings(INSTRUMENTS[name](*make(draw), []), nulls):
            assert m.p_value is not None
            tally.add(reading, m.p_value <= RATE, stated(m, null))
    assert not tally.outside(above_only=True)
