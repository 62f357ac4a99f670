"""A published statement as one small object with one primary test; and the judgement of many of them at once.

    Claim("recall-lstm", "An LSTM cannot recall: 0.5% of answers are right.", …, cells=("recall-lstm",), test=…)

A test is a pure function from evidence to a verdict.  Many tests find something by luck, so the p-values of all primary
tests go through Holm's correction: a verdict that does not survive it becomes "inconclusive".  A claim that only sums
up others (a table) makes no test of its own: it is judged last, from the corrected verdicts of its parts.

Where a reader will ask whether the same holds for networks that the paper does not speak of, the claim puts the same
question to them (`elsewhere`).  Those answers stand beside the verdict and are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from windtunnel.errors import require
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import ALPHA, DECIDED, INCONCLUSIVE, UNTESTED, Verdict


@dataclass(frozen=True)
class Claim:
    """A published statement and how it is tested.

    id         short and stable, e.g. "hmm-lstm-fails"
    words      the statement, in our words
    source     where it is published
    published  the number given there, with its unit
    measured   what we measure, and where the line is
    cells      cells of the study that the test reads
    test       evidence -> verdict, pure; None for a claim that only sums up others
    sums_up    verdicts on all other claims, by id -> verdict, for a claim that makes no test of its own
    elsewhere  cell -> the same test of that network, which the paper does not speak of
    """

    id: str
    words: str
    source: str
    published: str
    measured: str
    cells: tuple[str, ...]
    test: Callable[[Evidence], Verdict] | None = None
    sums_up: Callable[[Mapping[str, Verdict]], Verdict] | None = None
    elsewhere: Mapping[str, Callable[[Evidence], Verdict]] = field(default_factory=dict)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict before any correction; what was not measured is said, never guessed."""
        test = self.test
        assert test is not None, f"{self.id} sums up others: only `judge` of them together can tell"
        return _said(lambda: test(evidence))

    def judge_elsewhere(self, evidence: Evidence) -> dict[str, Verdict]:
        """Cell -> verdict of the same test, each on its own: without a correction, as none of them is the claim."""
        return {cell: _said(lambda t=test: t(evidence)) for cell, test in self.elsewhere.items()}


def judge(claims: Iterable[Claim], evidence: Evidence) -> dict[str, Verdict]:
    """The verdict on every claim, after Holm's correction over all tests that have a p-value."""
    claims = list(claims)
    names = [claim.id for claim in claims]
    require(len(set(names)) == len(names), "claims", names, "claims with different ids")
    found = {claim.id: claim.judge(evidence) for claim in claims if claim.sums_up is None}
    adjusted = holm({name: v.p_value for name, v in found.items() if v.p_value is not None})
    tested = {name: _corrected(verdict, adjusted.get(name), len(adjusted)) for name, verdict in found.items()}
    summed = {claim.id: _said(lambda s=claim.sums_up: s(tested)) for claim in claims if claim.sums_up is not None}
    return {name: (tested | summed)[name] for name in names}


def _said(test: Callable[[], Verdict]) -> Verdict:
    try:
        return test()
    except NotMeasured as missing:
        return Verdict(UNTESTED, (str(missing),), lacks=missing.cell)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment: the i-th smallest of m p-values times m − i + 1, never decreasing, at most 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    adjusted, largest = {}, 0.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for rank, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = largest
    return adjusted


def _corrected(verdict: Verdict, adjusted: float | None, tests: int) -> Verdict:
    if adjusted is None:
        return verdict
    verdict = replace(verdict, adjusted=adjusted)
    if verdict.outcome not in DECIDED or adjusted <= ALPHA:
        return verdict
    told = f"the interval decides ({verdict.words}), but p = {verdict.p_value:.2g} does not survive Holm's correction"
    held_back = f"p = {verdict.p_value:.2g}, not enough among {tests} tests"
    back = replace(verdict, outcome=INCONCLUSIVE, only_as="", held_back=held_back)
    return back.because(f"{told} over {tests} tests")
