"""Associative recall: who can look up by content, and how many pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.evidence import Evidence
from windtunnel.study.quantity import Quantity, difference
from windtunnel.study.verdict import Verdict, held
from windtunnel.study.worlds import PAIRS

FEW, MANY = min(PAIRS), max(PAIRS)


def accuracy(cell: str, side: Literal["below", "above"], line: float) -> Callable[[Evidence], Verdict]:
    """Share of right answers at 64 pairs."""

    def test(evidence: Evidence) -> Verdict:
        found = evidence.score(cell, "accuracy")
        kl = evidence.score(cell, "kl_bits")
        chance = "knowing which values were stored, but not where, gives 1/64 = 0.016"
        return held(found, side, line, f"{cell}, accuracy").because(f"KL in bits: {kl}", chance)

    return test


def capacity(evidence: Evidence) -> Verdict:
    """Does Mamba lose more accuracy from few to many pairs than the Transformer?"""

    def fall(cell: str) -> Quantity:
        few, many = (evidence.score(cell, "accuracy", f"pairs-{pairs}") for pairs in (FEW, MANY))
        return difference(few, many)

    falls = {cell: fall(cell) for cell in ("recall-mamba", "recall-transformer")}
    told = [f"{cell}, accuracy lost from {FEW} to {MANY} pairs: {lost}" for cell, lost in falls.items()]
    return held(difference(*falls.values()), "above", 0.1, "Mamba's loss less the Transformer's").because(*told)


def _claim(model: str, words: str, published: str, side: Literal["below", "above"], line: float) -> Claim:
    cell = f"recall-{model}"
    return Claim(
        f"{cell}-accuracy",
        words,
        PAPER,
        published,
        f"accuracy with 64 pairs; the line is {side} {line:g}",
        (cell,),
        accuracy(cell, side, line),
    )


CLAIMS = [
    _claim("transformer", "A Transformer recalls every stored value.", "100%", "above", 0.99),
    _claim("mamba", "Mamba recalls nearly every stored value.", "97.8%, learned slowly", "above", 0.95),
    _claim("lstm", "An LSTM does not recall.", "0.5%", "below", 0.05),
    Claim(
        "recall-capacity",
        "A state of fixed size holds only so many pairs; attention is not limited so.",
        f"{PAPER}, made a test by us",
        "none",
        f"accuracy lost from {FEW} to {MANY} pairs, Mamba's less the Transformer's; the line is 0.1",
        ("recall-mamba", "recall-transformer"),
        capacity,
    ),
]
