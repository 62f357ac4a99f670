"""The survey on tiny untrained networks: it runs, says what does not apply, and no failure stops the rest."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.geometry import INSTRUMENTS, Measurement, Missing
from windtunnel.mechanism import inspect
from windtunnel.mechanism.survey import INSTRUMENTS as ALL
from windtunnel.tunnels import HMM, Bijection, Recall

TUNNELS = {
    "bijection": Bijection(symbols=4, length=4),
    "bijection-replacement": Bijection(symbols=3, length=5, replacement=True, layout="paper"),
    "hmm": HMM(states=3, symbols=3, length=5),
    "hmm-symbol": HMM(states=3, symbols=4, length=4, predict="symbol"),
    "recall": Recall(pairs=3, queries=2, filler=1, keys=4, values=4),
}


def survey(model, tunnel=None, only=tuple(INSTRUMENTS), **options) -> list:
    """What the instruments of this room say of one network."""
    return [entry.found for entry in inspect(model, tunnel, only=only, **options).entries]


@pytest.mark.parametrize("tunnel", TUNNELS.values(), ids=TUNNELS)
@pytest.mark.parametrize("name", ["transformer", "mamba", "lstm"])
def test_every_network_in_every_tunnel_gives_records(name, tunnel):
    model = models.build(name, tunnel, depth=2, width=8)
    records = survey(model, tunnel, episodes=16, untrained=2)
    plain = json.loads(json.dumps([record.to_dict() for record in records], allow_nan=False))
    assert len(plain) == len(records)
    missing = [record for record in records if isinstance(record, Missing)]
    assert not [record.reason for record in missing if "failed" in record.reason]
    for record in records:
        if isinstance(record, Measurement):
            assert record.nulls or record.note
            if "not identifiable" not in record.note:
                assert "untrained" in record.nulls
    has_attention = name == "transformer"
    assert ("keys" in {record.name for record in missing}) != has_attention
    assert any("lens" in record.name for record in records if isinstance(record, Measurement))
    assert isinstance(tunnel, HMM) == any("Rand" in record.name for record in records)


def test_an_lstm_says_that_it_has_no_keys():
    tunnel = TUNNELS["bijection"]
    (found,) = survey(models.build("lstm", tunnel, depth=1, width=8), tunnel, episodes=4, untrained=0, only=["keys"])
    assert found == Missing("keys", "lstm has no keys: no tensor of it ends with .attention.k")


def test_a_failing_instrument_does_not_stop_the_rest(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("out of luck\nsecond line")

    monkeypatch.setitem(ALL, "keys", broken)
    tunnel = TUNNELS["bijection"]
    model = models.build("transformer", tunnel, depth=1, width=8)
    records = survey(model, tunnel, episodes=4, untrained=1, only=["keys", "lens"])
    place = f"test_survey.py:{broken.__code__.co_firstlineno + 1}"
    assert Missing("keys", f"failed: RuntimeError in {place}: out of luck", broken=True) in records
    assert any(isinstance(record, Measurement) for record in records)


def test_selection():
    tunnel = TUNNELS["bijection"]
    model = models.build("transformer", tunnel, depth=1, width=8)
    told: list[tuple] = []
    asked = ["lens", "dynamics"]
    found = inspect(
        model, tunnel, episodes=4, untrained=1, only=asked, progress=lambda *told_now: told.append(told_now)
    )
    assert told == [("lens", 0, 2), ("dynamics", 1, 2)]
    assert found.settings["model"] == "transformer" and found.settings["tunnel"] == repr(tunnel)
    assert {entry.seed for entry in found.entries} == {None}
    records = [entry.found for entry in found.entries]
    reasons = {record.name: record.reason for record in records if isinstance(record, Missing)}
    assert "needs a run" in reasons["dynamics"]
    with pytest.raises(InputError, match="tunnel = None"):
        inspect(model)
    with pytest.raises(InputError, match="tunnel = 'hmm': must be a tunnel"):
        inspect(model, "hmm")
    with pytest.raises(InputError, match=r"subject = str: must be a run, .* or a network"):
        inspect("model")


def test_the_same_survey_twice_is_the_same():
    tunnel = TUNNELS["hmm"]
    model = models.build("transformer", tunnel, depth=1, width=8)
    once, again = ([r.to_dict() for r in survey(model, tunnel, episodes=12, untrained=2)] for _ in range(2))
    assert once == again
    torch.manual_seed(3)
    model.train()
    survey(model, tunnel, episodes=8, untrained=1, only=["lens"])
    assert model.training and torch.rand(1).item() == pytest.approx(_first_draw(3))  # leaves mode and generator alone


def test_a_survey_leaves_frozen_parts_frozen():
    tunnel = TUNNELS["hmm"]
    model = models.build("transformer", tunnel, depth=2, width=8).train()
    model.blocks[0].eval()
    survey(model, tunnel, episodes=8, untrained=1, only=["lens"])
    assert model.training and model.blocks[1].training and not model.blocks[0].training


def _first_draw(seed: int) -> float:
    return torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()


class Foreign(nn.Module):
    """Somebody's own network, with or without a residual stream to show."""

    def __init__(self, tunnel):
        super().__init__()
        self.embedding, self.head = nn.Embedding(tunnel.vocabulary, 8), nn.Linear(8, tunnel.classes)

    def forward(self, tokens, features, readout, tap=None):
        x = models.touch(tap, "embed", self.embedding(tokens))
        x = models.touch(tap, "blocks.0.residual", x.cumsum(1))
        return self.head(x[:, readout])


def test_a_foreign_network_gets_what_its_taps_allow():
    tunnel = TUNNELS["bijection"]
    model = models.build(Foreign, tunnel)
    records = survey(model, tunnel, episodes=12)
    names = {record.name for record in records if isinstance(record, Measurement)}
    assert "belief decoded, R²" in names and "PC1 share" in names
    reasons = {record.name: record.reason for record in records if isinstance(record, Missing)}
    assert "final norm and head are not known" in reasons["lens"] and not any("failed" in r for r in reasons.values())


def test_a_module_that_nobody_built_is_wrapped_and_tried():
    tunnel = TUNNELS["bijection"]
    found = inspect(Foreign(tunnel), tunnel, episodes=12, only=["values", "flip", "exchange"])
    assert {entry.instrument for entry, _ in found.measurements()} == {"values", "flip", "exchange"}
    assert not any("failed" in reason for _, reason in found.missing)

    class Backwards(Foreign):
        def forward(self, tokens, features, readout, tap=None):
            return super().forward(tokens.flip(1), features, readout, tap)

    with pytest.raises(InputError, match=r"^model Backwards: must be causal"):
        inspect(Backwards(tunnel), tunnel)
    with pytest.raises(InputError, match="must be at most max_length = 7"):
        inspect(models.build("transformer", tunnel, depth=1, width=8), TUNNELS["hmm"])


def test_a_network_without_taps_says_so():
    tunnel = TUNNELS["hmm"]

    class Closed(nn.Module):
        def __init__(self, tunnel):
            super().__init__()
            self.head = nn.Linear(1, tunnel.classes)

        def forward(self, tokens, features, readout):
            return self.head(tokens[:, readout, None].float())

    records = survey(models.build(Closed, tunnel), tunnel, episodes=8)
    assert records and all(isinstance(record, Missing) and "failed" not in record.reason for record in records)
