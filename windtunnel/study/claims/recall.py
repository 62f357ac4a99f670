"""Associative recall: who can look up by content, and how many pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity, difference, number, ratio
from windtunnel.study.verdict import Side, Verdict, held
from windtunnel.study.worlds import MORE_PAIRS, PAIRS

FEW, MANY = min(PAIRS), max(PAIRS)
KEPT = 0.9  # an accuracy below this counts as a drop


def accuracy(cell: str, side: Side, line: float) -> Callable[[Evidence], Verdict]:
    """Share of right answers at 64 pairs."""

    def test(evidence: Evidence) -> Verdict:
        found = evidence.score(cell, "accuracy")
        kl = evidence.score(cell, "kl_bits")
        chance = "knowing which values were stored, but not where, gives 1/64 = 0.016"
        return held(found, side, line, f"{cell}, accuracy").because(f"KL in bits: {kl}", chance)

    return test


def capacity(evidence: Evidence) -> Verdict:
    """Does Mamba lose more accuracy from few to many pairs than the Transformer?  All numbers were trained on."""

    def fall(cell: str) -> Quantity:
        few, many = (evidence.score(cell, "accuracy", f"pairs-{pairs}") for pairs in (FEW, MANY))
        return difference(few, many)

    falls = {cell: fall(cell) for cell in ("recall-mamba", "recall-transformer")}
    told = [f"{cell}, accuracy lost from {FEW} to {MANY} pairs: {lost}" for cell, lost in falls.items()]
    told += [_drops(evidence, cell) for cell in falls]
    return held(difference(*falls.values()), "above", 0.1, "Mamba's loss less the Transformer's").because(*told)


def _drops(evidence: Evidence, cell: str) -> str:
    """Where the accuracy goes, in a sentence; beyond the trained number of pairs the sequence grows as well."""
    found = {}
    for pairs in (*PAIRS, *MORE_PAIRS):
        with suppress(NotMeasured):
            found[pairs] = evidence.score(cell, "accuracy", f"pairs-{pairs}").mean
    first = next((pairs for pairs in found if found[pairs] < KEPT), None)
    where = f"below {KEPT:g} from {first} pairs on" if first is not None else f"never below {KEPT:g}"
    told = ", ".join(f"{pairs} {value:.3f}" for pairs, value in found.items())
    return f"{cell}, accuracy {where} ({told}; more than {MANY} were never trained on)"


def slowly(evidence: Evidence) -> Verdict:
    """Steps until the validation KL is halved, Mamba's over the Transformer's.  Seeds that never get there count as
    if they did at the end, which makes the ratio smaller than it is where Mamba is the slower."""
    steps = {cell: _halved(evidence, cell) for cell in ("recall-mamba", "recall-transformer")}
    told = [f"{cell}: KL halved after {found} steps" for cell, found in steps.items()]
    return held(ratio(*steps.values()), "above", 2.0, "steps to half the KL, Mamba's over the Transformer's").because(
        *told
    )


def _halved(evidence: Evidence, cell: str) -> Quantity:
    """Steps, one value per seed, known to the distance of two validations."""
    history = evidence.cell(cell).get("history") or {}
    if len(history) < 2:
        raise NotMeasured(f"{cell}: no training history of two or more seeds")
    found = []
    for records in history.values():
        first = number(records[0][1])
        found.append(float(next((step for step, kl in records if number(kl) <= first / 2), records[-1][0])))
    apart = max(after[0] - before[0] for records in history.values() for before, after in pairwise(records))
    return Quantity.of_seeds(found, "log", noise=apart / math.sqrt(12 * len(found)))


def _claim(model: str, words: str, published: str, side: Side, line: float) -> Claim:
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
    _claim("mamba", "Mamba recalls nearly every stored value.", "97.8%", "above", 0.95),
    _claim("lstm", "An LSTM does not recall.", "0.5%", "below", 0.05),
    Claim(
        "recall-capacity",
        "A state of fixed size holds only so many pairs; attention is not limited so.",
        f"{PAPER}, made a test by us",
        "none",
        f"accuracy lost from {FEW} to {MANY} pairs, all trained on, Mamba's less the Transformer's; the line is 0.1",
        ("recall-mamba", "recall-transformer"),
        capacity,
    ),
    Claim(
        "recall-mamba-slowly",
        "Mamba learns recall slowly.",
        PAPER,
        "no number",
        "training steps until the validation KL is halved, over the Transformer's; the line is 2",
        ("recall-mamba", "recall-transformer"),
        slowly,
    ),
]
