"""What a test says about a claim, in five words; and the small rules by which tests are put together.

    reproduced                 the whole interval lies on the claimed side of the line
    reproduced only as         …, under a weaker reading that the verdict names
    not reproduced             the whole interval lies on the other side
    inconclusive               the interval straddles the line
    not tested at this scale   with a reason

A statement of several parts, be they places where it must hold or controls it must pass, has one rule.  It holds where
all of them hold.  One part that is refuted refutes it, whatever the others do; as any of m parts could have been the
one, its p-value is multiplied by m.  Only where all the others are decided, and something weaker holds for
certain, is that said instead ("reproduced only …").  Else it is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from windtunnel.fidelity.printing import alike
from windtunnel.json_numbers import to_json
from windtunnel.study.quantity import Quantity

REPRODUCED, ONLY_AS, NOT, INCONCLUSIVE, UNTESTED = (
    "reproduced",
    "reproduced only as",
    "not reproduced",
    "inconclusive",
    "not tested at this scale",
)
OUTCOMES = (REPRODUCED, ONLY_AS, NOT, INCONCLUSIVE, UNTESTED)
DECIDED = (REPRODUCED, ONLY_AS, NOT)
ALPHA = 0.05
Side = Literal["below", "above"]
"""Of a line: where a claim says that a number lies."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one primary test.

    outcome   one of OUTCOMES
    only_as   the weaker reading, to follow "reproduced only": "for the averaged curve", "as …", "without …"
    reasons   sentences with numbers, intervals and baselines
    value     the number that was held against `line`, where it is one number;  of: what it is the number of
    p_value   of the primary test; None where nothing is uncertain (a count) or nothing was tested
    adjusted  the same after Holm's correction over all claims
    held_back why it is inconclusive although the interval lies clear of the line: "p = 0.02, not enough among 30 tests"
    lacks     the cell for want of which nothing was tested
    but       the tests of the controls that failed, one sentence each: why it is reproduced "only"
    """

    outcome: str
    reasons: tuple[str, ...] = ()
    value: Quantity | None = None
    line: float | None = None
    p_value: float | None = None
    only_as: str = ""
    adjusted: float | None = None
    of: str = ""
    held_back: str = ""
    lacks: str | None = None
    but: tuple[str, ...] = ()

    def because(self, *reasons: str) -> Verdict:
        """The same with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))

    @property
    def words(self) -> str:
        """The outcome as a reader meets it."""
        if self.outcome == ONLY_AS:
            return f"{REPRODUCED} only {self.only_as}"
        return f"{self.outcome} ({self.held_back})" if self.held_back else self.outcome

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `lacks` and `but` only where there is something to say."""
        told = {
            "outcome": self.outcome,
            "only_as": self.only_as,
            "held_back": self.held_back,
            "reasons": list(self.reasons),
            "value": None if self.value is None else self.value.to_dict(),
            "of": self.of,
            "line": None if self.line is None else to_json(self.line),
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted,
        }
        told |= {"lacks": self.lacks} if self.lacks else {}
        return told | ({"but": list(self.but)} if self.but and self.outcome == ONLY_AS else {})


def held(quantity: Quantity, side: Side, line: float, what: str) -> Verdict:
    """Is the quantity on the claimed side of the line?"""
    found = quantity.side(line)
    outcome = INCONCLUSIVE if found == "straddles" else REPRODUCED if found == side else NOT
    p = None if quantity.over == "exact" else quantity.p_against(line)
    return Verdict(
        outcome, (f"{what}: {quantity}; the claim needs it {side} {alike(line)[0]}",), quantity, line, p, of=what
    )


def otherwise(primary: Verdict, weaker: Mapping[str, Verdict]) -> Verdict:
    """The primary test; where it fails outright, the first weaker reading that passes.

    An undecided primary test stays undecided: a weaker reading is no way round an interval that straddles.  A weaker
    reading that holds brings its own number and line; the statement is as sure as the less sure of the two tests.
    Where none holds but one is undecided, so is the statement: in that reading it may yet be true.
    """
    reasons = _reasons([primary, *weaker.values()])
    if primary.outcome == NOT:
        for words, verdict in weaker.items():
            if verdict.outcome == REPRODUCED:
                p = _largest([primary, verdict])
                return replace(verdict, outcome=ONLY_AS, only_as=words, reasons=reasons, p_value=p)
        if open_ := [verdict for verdict in weaker.values() if verdict.outcome not in DECIDED]:
            return replace(least_sure(open_), outcome=INCONCLUSIVE, only_as="", reasons=reasons)
    return replace(primary, reasons=reasons)


def qualified(primary: Verdict, controls: Mapping[str, Verdict]) -> Verdict:
    """The primary test; where it passes but a control fails, it holds only in the words of that control.

    A control that is undecided leaves this open: neither the statement nor its qualified form is shown.  A control that
    is refuted next to one that is undecided, or to an undecided primary test, refutes the statement.  Where the primary
    test fails too, the surer of the two refutations counts: the p-values are two-sided and only one side refutes, so
    that each may have half of the error.
    """
    reasons = _reasons([primary, *controls.values()])
    refutation = refuting(list(controls.values()), len(controls))
    if primary.outcome == NOT:
        return replace(surest([primary, refutation] if refutation else [primary]), reasons=reasons)
    if primary.outcome == ONLY_AS:
        return replace(primary, reasons=reasons)
    undecided = [v for v in controls.values() if v.outcome not in DECIDED]
    if primary.outcome != REPRODUCED:
        undecided = [primary]
    if undecided:
        return replace(refutation or replace(least_sure(undecided), outcome=INCONCLUSIVE, only_as=""), reasons=reasons)
    failed = {words: verdict for words, verdict in controls.items() if verdict.outcome != REPRODUCED}
    p = _largest([primary, *(failed or controls).values()])
    if not failed:
        return replace(primary, reasons=reasons, p_value=p)
    but = tuple(reason for verdict in failed.values() for reason in verdict.reasons[:1])
    return replace(primary, outcome=ONLY_AS, only_as="; ".join(failed), reasons=reasons, p_value=p, but=but)


def jointly(parts: Mapping[str, Verdict]) -> Verdict:
    """A statement that must hold in several places: all, none, or only in those named.

    One refuted while another straddles: refuted.  One straddling and none refuted: undecided.  Number, line and p-value
    are those of the part that decides: the refuted one, the straddling one, else the least sure.
    """
    verdicts = list(parts.values())
    reasons = _reasons(verdicts)
    refutation = refuting(verdicts, len(verdicts))
    undecided = [verdict for verdict in verdicts if verdict.outcome not in DECIDED]
    if undecided:
        return replace(refutation or replace(least_sure(undecided), outcome=INCONCLUSIVE, only_as=""), reasons=reasons)
    decider = replace(least_sure(verdicts), reasons=reasons, only_as="")
    outcomes = {verdict.outcome for verdict in verdicts}
    if outcomes == {NOT}:  # all of them, so that none was picked; or the surest one, picked out of all
        return replace(surest([decider, refutation] if refutation else [decider]), reasons=reasons)
    if outcomes == {REPRODUCED}:
        return decider
    if outcomes == {ONLY_AS} and len({verdict.only_as for verdict in verdicts}) == 1:  # everywhere in the same words
        return replace(decider, outcome=ONLY_AS, only_as=verdicts[0].only_as)
    kept = {name: verdict for name, verdict in parts.items() if verdict.outcome != NOT}
    where = [f"{name} ({v.only_as})" if v.only_as else name for name, v in kept.items()]
    return replace(decider, outcome=ONLY_AS, only_as=" and ".join(where))


def refuting(verdicts: Sequence[Verdict], tests: int) -> Verdict | None:
    """The surest refuted one, its p-value times the number of tests it was picked from; None where that is too large.

    A count, which has no p-value, only where there is nothing else.
    """
    refuted = [verdict for verdict in verdicts if verdict.outcome == NOT]
    if not refuted:
        return None
    one = surest(refuted)
    if one.p_value is not None and tests * one.p_value <= ALPHA:
        return replace(one, p_value=tests * one.p_value)
    return next((verdict for verdict in refuted if verdict.p_value is None), None)


def _reasons(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Each said once: a control of one test may be a weaker reading of another."""
    return tuple(dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons))


def _largest(verdicts: Sequence[Verdict]) -> float | None:
    """A statement of several parts is as sure as its weakest part."""
    return max((v.p_value for v in verdicts if v.p_value is not None), default=None)


def least_sure(verdicts: Sequence[Verdict]) -> Verdict:
    """The one with the largest p-value; a count, which has none, only where there is nothing else."""
    return max(verdicts, key=lambda v: -1.0 if v.p_value is None else v.p_value)


def surest(verdicts: Sequence[Verdict]) -> Verdict:
    """The one with the smallest p-value; a count only where there is nothing else."""
    return min(verdicts, key=lambda v: 2.0 if v.p_value is None else v.p_value)
