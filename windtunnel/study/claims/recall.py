"""Associative recall: who can look up by content, and how many pairs."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import median

from windtunnel.json_numbers import from_json
from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER, of_each
from windtunnel.study.claims.primitives import not_found
from windtunnel.study.compare import difference, ratio
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import INCONCLUSIVE, NOT, REPRODUCED, Side, Verdict, held, otherwise
from windtunnel.study.worlds import MORE_PAIRS, PAIRS

FEW, MANY = min(PAIRS), max(PAIRS)
KEPT = 0.9  # an accuracy below this counts as a drop
LESS = 0.1  # of accuracy: a loss
LOST = f"accuracy lost from {FEW} to {MANY} pairs"
LEARNT = 0.1  # of the KL at the start: less than the stored values without their keys can give
MAMBA, LONGER = "recall-mamba", "recall-mamba-long"
"""At the budget that is compared, and with more: failing at one budget does not show that it cannot."""


def accuracy(evidence: Evidence, cell: str, side: Side, line: float) -> Verdict:
    """Share of right answers at 64 pairs."""
    right, kl = (evidence.score(cell, metric).values for metric in ("accuracy", "kl_bits"))
    seeds = f"{cell}, seed by seed: accuracy {_listed(right)}; KL {_listed(kl)} bits"
    there = sum(v > line for v in right)
    told = f"{seeds}; {there} of {len(right)} seeds are above {line:g}, the median is {median(right):.4g}"
    chance = "knowing which values were stored, but not where, gives 1/64 = 0.016"
    return held(evidence.score(cell, "accuracy"), side, line, f"{cell}, accuracy").because(told, chance)


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{v:.3g}" for v in values)


def recalls_in_time(evidence: Evidence) -> Verdict:
    """At the compared budget, or else with more; as long as more was not tried, a failure says nothing."""
    primary = accuracy(evidence, MAMBA, "above", 0.95)
    if evidence.has(LONGER):
        times = from_json(evidence.cell(LONGER)["sequences"]) / from_json(evidence.cell(MAMBA)["sequences"])
        more = accuracy(evidence, LONGER, "above", 0.95)
        return otherwise(primary, {f"with {times:.3g} times the training that is compared": more})
    if primary.outcome == NOT:
        return replace(primary, outcome=INCONCLUSIVE).because(f"more training ({LONGER}) was not tried")
    return primary


def does_not_recall(evidence: Evidence) -> Verdict:
    """As for any "cannot": not found within this budget, and that only if something that needs no binding was."""
    found = accuracy(evidence, "recall-lstm", "below", 0.05)
    return found if found.outcome != REPRODUCED else not_found(found, evidence, "recall", "lstm")


def capacity(evidence: Evidence) -> Verdict:
    """Does Mamba lose more accuracy from few to many pairs than the Transformer?  All numbers were trained on.

    A network that does not recall few pairs either has nothing to lose.
    """
    cells = (_longest(evidence), "recall-transformer")
    falls = {cell: _lost(evidence, cell) for cell in cells}
    told = [f"{cell}, {LOST}: {lost}" for cell, lost in falls.items()] + [_drops(evidence, cell) for cell in falls]
    found = held(difference(*falls.values()), "above", LESS, "Mamba's loss minus the Transformer's").because(*told)
    return _if_few_are_held(evidence, cells[0], found)


def loses(evidence: Evidence, cell: str) -> Verdict:
    """The same of any other network, by itself."""
    found = held(_lost(evidence, cell), "above", LESS, f"{cell}, {LOST}").because(_drops(evidence, cell))
    return _if_few_are_held(evidence, cell, found)


def _lost(evidence: Evidence, cell: str) -> Quantity:
    return difference(*(evidence.score(cell, "accuracy", f"pairs-{pairs}") for pairs in (FEW, MANY)))


def _if_few_are_held(evidence: Evidence, cell: str, found: Verdict) -> Verdict:
    if evidence.score(cell, "accuracy", f"pairs-{FEW}").mean >= KEPT:
        return found
    return replace(found, outcome=INCONCLUSIVE).because(f"{cell} has not learnt to recall {FEW} pairs")


def _longest(evidence: Evidence) -> str:
    """The Mamba that was trained longest."""
    return LONGER if evidence.has(LONGER) else MAMBA


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
    """Steps until a tenth of the validation KL is left, Mamba's over the Transformer's.

    With seeds that never get there the ratio is only known to be larger, and whether Mamba learns it at all is open.
    """
    cells = (_longest(evidence), "recall-transformer")
    steps = {cell: _learnt(evidence, cell) for cell in cells}
    told = [f"{cell}: {_told(found)}" for cell, found in steps.items()]
    apart = max(_between_validations(evidence, cell) for cell in cells)
    of_seeds = []
    for cell, found in steps.items():
        end = float(max(records[-1][0] for records in _history(evidence, cell).values()))
        noise = apart / math.sqrt(12 * len(found))
        took = Quantity.of_seeds([end if at is None else at for at in found], "log", noise)
        of_seeds.append(replace(took, seeds=tuple(map(int, _history(evidence, cell)))))
    what = "steps to a tenth of the KL, Mamba's over the Transformer's"
    found = held(ratio(*of_seeds), "above", 2.0, what).because(*told)
    if any(at is None for seeds in steps.values() for at in seeds):
        return replace(found, outcome=INCONCLUSIVE, p_value=None).because(
            "a seed that never got there is counted as if it had at the end of training, so the ratio is a lower bound,"
            " and whether Mamba learns it at all is open"
        )
    return found


def _learnt(evidence: Evidence, cell: str) -> list[float | None]:
    """The first validation with no more than a tenth of the KL at the start, of each seed; None: never.

    Validation mixes numbers of pairs: a seed whose network does not recall the most of them in the end never got there.
    """
    found = []
    for seed, records in _history(evidence, cell).items():
        line = LEARNT * from_json(records[0][1])
        first = next((float(step) for step, kl in records if from_json(kl) <= line), None)
        found.append(first if _recalls(evidence, cell, seed) else None)
    return found


def _recalls(evidence: Evidence, cell: str, seed: str) -> bool:
    right = dict(zip(evidence.cell(cell)["seeds"], evidence.score(cell, "accuracy").values, strict=True))
    return right[int(seed)] >= KEPT


def _told(found: list[float | None]) -> str:
    there = sorted(at for at in found if at is not None)
    steps = f", after {there[0]:g} to {there[-1]:g} steps" if there else ""
    return f"a tenth of the KL is left in {len(there)} of {len(found)} seeds{steps}"


def _between_validations(evidence: Evidence, cell: str) -> float:
    """Steps between two validations, at most: no step is known better."""
    return max(
        after[0] - before[0] for records in _history(evidence, cell).values() for before, after in pairwise(records)
    )


def _history(evidence: Evidence, cell: str) -> dict[str, list[list[float]]]:
    """Seed -> [step, KL] of every validation."""
    history = evidence.cell(cell).get("history") or {}
    if len(history) < 2:
        raise NotMeasured(f"{cell}: no training history of two or more seeds")
    return history


CLAIMS = [
    Claim(
        "recall-transformer-accuracy",
        "A Transformer recalls every stored value.",
        PAPER,
        "100%",
        "accuracy with 64 pairs; the line is above 0.99",
        ("recall-transformer",),
        lambda evidence: accuracy(evidence, "recall-transformer", "above", 0.99),
    ),
    Claim(
        "recall-mamba-accuracy",
        "Mamba recalls nearly every stored value.",
        PAPER,
        "97.8%",
        "accuracy with 64 pairs; the line is above 0.95, at the compared budget or else with more",
        (MAMBA, LONGER),
        recalls_in_time,
    ),
    Claim(
        "recall-lstm-accuracy",
        "An LSTM does not recall.",
        PAPER,
        "0.5%",
        "accuracy with 64 pairs; the line is below 0.05, and what needs no binding must have been learnt",
        ("recall-lstm",),
        does_not_recall,
    ),
    Claim(
        "recall-capacity",
        "A state of fixed size holds only so many pairs; attention is not limited so.",
        f"{PAPER}, made a test by us",
        "none",
        f"accuracy lost from {FEW} to {MANY} pairs, all trained on, Mamba's minus the Transformer's; the line is 0.1",
        (LONGER, "recall-transformer"),
        capacity,
        elsewhere=of_each(loses, "recall-linear-attention"),
    ),
    Claim(
        "recall-mamba-slowly",
        "Mamba learns recall slowly.",
        PAPER,
        "no number",
        "training steps until a tenth of the validation KL is left, over the Transformer's; the line is 2",
        (LONGER, "recall-transformer"),
        slowly,
    ),
]
