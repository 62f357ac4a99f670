"""A network of one's own gets every instrument that its tensors allow, and one clear line for the others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.geometry import Measurement, Missing
from windtunnel.geometry.belief_survey import beliefs
from windtunnel.geometry.key_survey import keys
from windtunnel.geometry.value_survey import values
from windtunnel.mechanism import inspect, late, position_ranges, swap
from windtunnel.mechanism.longer import Reader, on_cpu
from windtunnel.models import touch
from windtunnel.tunnels import HMM

TUNNEL = HMM(states=3, symbols=3, length=4)


class Own(nn.Module):
    """A running mean, a table of as many positions as it was trained on, keys without queries, no entrance."""

    def __init__(self, tunnel):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(tunnel.vocabulary, 8, generator=generator))
        self.places = nn.Parameter(torch.randn(tunnel.positions, 8, generator=generator))
        self.head = nn.Linear(8, tunnel.classes)

    def forward(self, tokens, features, readout, tap=None):
        x = self.table[tokens] + self.places[torch.arange(tokens.shape[1], device=tokens.device)]
        x = x + touch(tap, "blocks.0.attention.out", x.cumsum(1))
        touch(tap, "blocks.0.attention.k", x[:, None])
        x = touch(tap, "blocks.0.residual", x)
        return self.head(x[:, readout])


def test_it_keeps_its_home_length_and_its_head_is_found():
    model, episodes = models.build(Own, TUNNEL), TUNNEL.sample(12)
    found = late(model, TUNNEL, episodes, [], draws=2)
    assert {m.where["length"] for m in found if isinstance(m, Measurement)} == {TUNNEL.length}
    longer = [m for m in found if isinstance(m, Missing)]
    assert len(longer) == 2 and not any(m.broken for m in longer)  # as it was built: another try would end alike
    assert all("out of bounds" in m.reason for m in longer)
    frames = [m for m in swap(model, TUNNEL, episodes, [], draws=2) if isinstance(m, Measurement)]
    assert "hypothesis frame" in {m.where["subspace"] for m in frames}


class Masked(Own):
    """Has made up its mind about the length."""

    def forward(self, tokens, features, readout, tap=None):
        if len(readout) != TUNNEL.length:
            raise ValueError("my mask is too small")
        return super().forward(tokens, features, readout, tap)


def test_one_that_breaks_down_on_longer_inputs_is_told_so_and_nothing_is_broken():
    found = late(models.build(Masked, TUNNEL), TUNNEL, TUNNEL.sample(12), [], draws=2)
    (six, ten) = [m for m in found if isinstance(m, Missing)]
    assert not six.broken and not ten.broken
    assert six.reason.startswith("the network cannot read inputs of length 6: ValueError in test_own_network.py:")
    assert ten.reason.endswith("my mask is too small")


class Gathered(Own):
    """Finds its positions by `gather`, which says RuntimeError where an index says IndexError."""

    def forward(self, tokens, features, readout, tap=None):
        self.places.gather(0, torch.arange(tokens.shape[1])[:, None])
        return super().forward(tokens, features, readout, tap)


@pytest.mark.parametrize("kind", [Own, Masked, Gathered])
def test_on_a_gpu_a_copy_is_asked_first(kind, monkeypatch):
    """At an index that is out of range a GPU would stop for good.  Here is none: to ask it would be another error."""
    model, episodes, longer = models.build(kind, TUNNEL), TUNNEL.sample(12), TUNNEL.with_length(6)
    there = {id(model): torch.device("cuda")}
    monkeypatch.setitem(Reader.require.__globals__, "device_of", lambda one: there.get(id(one), torch.device("cpu")))
    with pytest.raises(InputError) as error:
        Reader(model, TUNNEL, episodes).require(longer, longer.sample(4))
    assert "CUDA" not in str(error.value) and "cuda" not in str(error.value)


def test_a_copy_that_cannot_read_what_it_should_says_nothing(monkeypatch):
    model, asked = models.build(Own, TUNNEL), []
    monkeypatch.setitem(Reader.require.__globals__, "device_of", lambda one: torch.device("meta"))
    monkeypatch.setitem(Reader.require.__globals__, "on_cpu", lambda one: asked.append(one) or 1 / 0)
    reader = Reader(model, TUNNEL, TUNNEL.sample(4))
    for _ in range(2):
        assert reader._copy is None
    assert asked == [model]


def test_a_copy_on_the_cpu_has_the_weights_of_its_own_and_ties_what_is_tied():
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    network[2].weight = network[0].weight
    copy = on_cpu(network)
    assert copy[2].weight is copy[0].weight is not network[0].weight
    assert all(torch.equal(a, b) for a, b in zip(copy.state_dict().values(), network.state_dict().values()))


@pytest.mark.gpu
def test_a_gpu_outlives_inputs_that_are_too_long():
    found = late(models.build(Own, TUNNEL).cuda(), TUNNEL, TUNNEL.sample(12), [], draws=2)
    assert len([m for m in found if isinstance(m, Missing)]) == 2
    assert float(torch.ones(2, device="cuda").sum()) == 2.0


def test_what_it_does_not_name_is_told():
    model, episodes = models.build(Own, TUNNEL), TUNNEL.sample(8)
    (queries,) = keys(model, TUNNEL, episodes, [])
    assert isinstance(queries, Missing) and ".attention.q" in queries.reason
    (entrance,) = position_ranges(model, TUNNEL, episodes, [], draws=2)
    assert isinstance(entrance, Missing) and "before the first block" in entrance.reason


class OfOneLength(Own):
    """Queries beside its keys; it reads inputs of the length that it was trained on, and no others."""

    def forward(self, tokens, features, readout, tap=None):
        x = self.table[tokens].view(len(tokens), *self.places.shape) + self.places
        return self.asked(x, readout, tap)

    def asked(self, x, readout, tap):
        touch(tap, "blocks.0.attention.q", x[:, None])
        touch(tap, "blocks.0.attention.k", x[:, None])
        return self.head(x.cumsum(1)[:, readout])


class Summed(OfOneLength):
    """It reads any length, and hands over no embedding but the sum with its positions."""

    def forward(self, tokens, features, readout, tap=None):
        return self.asked(touch(tap, "positioned", self.table[tokens] + self.places[: tokens.shape[1]]), readout, tap)


@pytest.mark.parametrize(("kind", "why"), [(OfOneLength, "failed: "), (Summed, "`positioned` without `embed`")])
def test_without_bare_tokens_the_keys_in_context_are_read(kind, why):
    found = keys(models.build(kind, TUNNEL), TUNNEL, TUNNEL.sample(8), [])
    told = {(m.name, m.reason) for m in found if isinstance(m, Missing)}
    assert {m.where["path"] for m in found if isinstance(m, Measurement)} == {"formed"}
    assert {name for name, _ in told} == {"keys of bare tokens"} and all(why in reason for _, reason in told)


def test_where_nothing_precedes_the_blocks_no_block_stands_in_for_it():
    model, episodes = models.build(Own, TUNNEL), TUNNEL.sample(16)
    read = [m for m in beliefs(model, TUNNEL, episodes, []) if isinstance(m, Measurement)]
    shown = [m for m in values(model, TUNNEL, episodes, []) if isinstance(m, Measurement)]
    assert read and shown and all(m.where["layer"] == 0 and m.arrays["layer"].tolist() == [0] for m in read + shown)
    assert all("before the first block" not in m.nulls for m in shown)


class Weightless(nn.Module):
    """Counts what it has seen: nothing to learn, and nowhere in particular."""

    def forward(self, tokens, features, readout, tap=None):
        x = touch(tap, "embed", nn.functional.one_hot(tokens, TUNNEL.vocabulary).float())
        mixed = touch(tap, "blocks.0.attention.out", x.cumsum(1))
        x = touch(tap, "blocks.0.residual", x + mixed)
        return x[:, readout, : TUNNEL.classes]


def test_a_network_without_weights_is_looked_at_like_others():
    found = inspect(Weightless(), TUNNEL, only=["keys", "values", "beliefs", "ablate", "ranges"], episodes=16)
    assert not any("failed" in reason for _, reason in found.missing), found.missing
    assert {entry.instrument for entry, _ in found.measurements()} == {"values", "beliefs", "ablate", "ranges"}
