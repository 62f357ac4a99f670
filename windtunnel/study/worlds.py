"""The worlds of the full-size study: the paper's three tunnels, and those that test one primitive each."""

from __future__ import annotations

from windtunnel.study.plan import HOME, Condition, World
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

LENGTHS = (30, 50, 200)
PAIRS = (8, 16, 32, 64)
"""Numbers of different pairs that recall is scored with, all of them trained on, in sequences of the trained length."""
MORE_PAIRS = (128, 256)
"""Numbers beyond those trained on: more pairs and longer sequences at once, so never evidence for a capacity alone."""

_BEYOND = tuple(
    condition
    for length in LENGTHS
    for condition in (
        Condition(f"length-{length}", {"length": length}),
        Condition(f"length-{length}-beyond", {"length": length}, beyond=HMM.length),
    )
)

_PAIRS = tuple(
    Condition(f"pairs-{n}", {"pairs": n, "repeats": max(1, Recall.pairs // n), "queries": Recall.queries})
    for n in (*PAIRS, *MORE_PAIRS)
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
    World("recall", Recall(queries=Recall.pairs), (HOME, *_PAIRS)),
)
"""Sticky chains need no transport: a control, never evidence.  Recall asks for every stored key: 64 answers to learn
from in each sequence, where the published 3 leave a thin signal; what was learnt is also scored with those 3, and with
fewer pairs, each shown several times so that the sequence keeps its length."""
