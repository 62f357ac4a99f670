"""Claims about geometry and mechanism find the readings that the instruments really write, under those names."""

from __future__ import annotations

import math

import pytest

from tests.study.micro import recipe
from windtunnel.study import reproduce
from windtunnel.study.claims import claim, nulls
from windtunnel.study.paper_plan import READ
from windtunnel.study.plan import HOME, Cell, Condition, Plan, World
from windtunnel.study.verdict import UNTESTED
from windtunnel.tunnels import HMM, Bijection

WORLDS = {
    "bijection": World("bijection", Bijection(symbols=5, length=5)),
    "bijection-replacement": World("bijection-replacement", Bijection(symbols=5, length=8, replacement=True)),
    "hmm": World("hmm", HMM(states=3, symbols=3), (HOME, Condition("length-50", {"length": 50}))),
}
VARIANTS = {
    "bijection-transformer": ("bijection", "transformer"),
    "bijection-replacement-transformer": ("bijection-replacement", "transformer"),
    "hmm-transformer": ("hmm", "transformer"),
    "hmm-mamba": ("hmm", "mamba"),
    "hmm-lstm": ("hmm", "lstm-residual"),
    "hmm-lstm-stacked": ("hmm", "lstm-stacked"),
}
CLAIMS = (
    "late-attention",
    "late-off-20",
    "late-off-50",
    "mamba-entropy",
    "mamba-spread",
    "lstm-entropy",
    "orthogonal-keys",
    "sharpening",
    "sharpening-target",
    "value-manifold",
    "value-order",
    "belief-readable",
    "frame-precision",
    "mamba-five-clusters",
    "lstm-collapse",
    "every-layer",
    "one-frame-head",
    "roles",
)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """The paper's cells in a tiny size, two seeds, surveyed with the paper's instruments."""
    cells = []
    for name, (world, variant) in VARIANTS.items():
        made = recipe(WORLDS[world], variant, seeds=(0, 1), steps=6, ladder=3, checkpoint_every=6, batch=4)
        if world == "hmm" and variant == "transformer":
            made = made.with_options(model_options={"depth": 2, "width": 16, "heads": 2, "positions": "none"})
        cells.append(Cell(name, world, made, dict.fromkeys(READ[name], 2)))
    plan = Plan("tiny", tuple(WORLDS.values()), tuple(cells), episodes=64, survey_episodes=10, untrained=2, gpu=False)
    return reproduce(out=tmp_path_factory.mktemp("study"), plan=plan, device="cpu").evidence()


def test_claims_find_their_readings(evidence, monkeypatch):
    """All in one test: the study behind it is made once, however many workers share the tests."""
    monkeypatch.setattr(nulls, "LEARNED_SHARE", math.inf)  # six steps teach nothing
    found = {name: claim(name).judge(evidence) for name in CLAIMS}
    assert {name: verdict.reasons for name, verdict in found.items() if verdict.outcome == UNTESTED} == {}
