"""The worlds of the full-size study: the paper's three tunnels, and those that test one primitive each."""

from __future__ import annotations

from windtunnel.study.plan import HOME, Condition, World
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

LENGTHS = (30, 50, 200)
PAIRS = (8, 16, 32, 64, 128, 256)

_BEYOND = tuple(
    condition
    for length in LENGTHS
    for condition in (
        Condition(f"length-{length}", {"length": length}),
        Condition(f"length-{length}-beyond", {"length": length}, beyond=HMM.length),
    )
)

WORLDS = (
    World("bijection", Bijection()),
    World(
        "bijection-replacement",
        Bijection(replacement=True),
        (HOME, Condition("seen", where="seen"), Condition("unseen", where="unseen")),
    ),
    World("urn", Urn()),
    World("hmm", HMM(), (HOME, Condition("released", {"prior": "released"}), *_BEYOND)),
    World("hmm-rotating", HMM(dynamics="rotating", mixing=(0.90, 0.97), length=64)),
    World("hmm-sticky", HMM(dynamics="sticky", mixing=(0.90, 0.97), length=64)),
    World("recall", Recall(), (HOME, *(Condition(f"pairs-{pairs}", {"pairs": pairs}) for pairs in PAIRS))),
)
"""Sticky chains need no transport: a control, never evidence."""
