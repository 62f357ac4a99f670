"""How tests are put together, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windtunnel.errors import InputError
from windtunnel.study.claim import Claim, holm, judge
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.folder.ledger import ledger_entry
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import (
    INCONCLUSIVE,
    NOT,
    ONLY_AS,
    REPRODUCED,
    UNTESTED,
    Verdict,
    held,
    jointly,
    otherwise,
    qualified,
)

YES, NO, OPEN = (
    Verdict(outcome, (outcome,), p_value=p) for outcome, p in ((REPRODUCED, 0.01), (NOT, 0.02), (INCONCLUSIVE, 0.4))
)


def test_held_on_either_side():
    low = Quantity.of_seeds([0.1, 0.11, 0.12])
    assert held(low, "below", 0.5, "x").outcome == REPRODUCED
    assert held(low, "above", 0.5, "x").outcome == NOT
    assert held(low, "below", 0.11, "x").outcome == held(low, "above", 0.11, "x").outcome == INCONCLUSIVE
    assert (
        "0.11" in held(low, "below", 0.5, "x").reasons[0] and held(Quantity.exact(1), "above", 0, "x").p_value is None
    )


def test_a_weaker_reading_only_where_the_first_fails_outright():
    assert otherwise(NO, {"as a curve": YES}).words == "reproduced only as a curve"
    found = otherwise(NO, {"for one": NO, "for two": YES, "for three": YES})
    assert (found.outcome, found.only_as, found.p_value) == (ONLY_AS, "for two", 0.02)
    assert otherwise(OPEN, {"x": YES}).outcome == INCONCLUSIVE
    assert otherwise(YES, {"x": NO}).outcome == REPRODUCED
    assert otherwise(NO, {"x": NO}).outcome == NOT
    assert otherwise(NO, {"x": OPEN, "y": NO}).outcome == INCONCLUSIVE  # in that reading it may yet be true


def test_a_control_qualifies_what_passed():
    assert qualified(YES, {"without control": NO}).only_as == "without control"
    assert qualified(YES, {"without control": OPEN}).outcome == INCONCLUSIVE  # a straddling control asserts nothing
    assert qualified(YES, {"x": replace(YES, p_value=0.03)}).p_value == 0.03  # as sure as the least sure of its tests
    assert qualified(YES, {"x": YES}).outcome == REPRODUCED
    assert qualified(NO, {"x": NO}).outcome == NOT and qualified(OPEN, {"x": YES}).outcome == INCONCLUSIVE


def test_what_holds_only_in_part_brings_the_numbers_of_what_failed():
    passed, failed = replace(YES, reasons=("first: 1",)), replace(NO, reasons=("second: 2", "more of it"))
    found = qualified(passed, {"for the first, not the second": failed, "for the third": YES})
    assert found.but == ("second: 2",) and found.to_dict()["but"] == ["second: 2"]
    assert found.reasons[:3] == ("first: 1", "second: 2", "more of it")
    for other in (qualified(passed, {"x": YES}), qualified(failed, {"x": failed})):
        assert "but" not in other.to_dict()
    assert "but" not in replace(found, outcome=INCONCLUSIVE).to_dict()  # as Holm's correction may make of it


SURE_NO, UNSURE_NO, COUNTED_NO = replace(NO, p_value=0.001, of="sure"), replace(NO, p_value=0.03), Verdict(NOT, of="n")


def test_one_refuted_part_refutes_whatever_the_others_do():
    found = jointly({"a": YES, "b": SURE_NO, "c": OPEN})
    assert (found.outcome, found.of, found.p_value) == (NOT, "sure", pytest.approx(0.003))  # the surest of three
    assert found.reasons == (REPRODUCED, NOT, INCONCLUSIVE)
    for primary, controls, p in (
        (OPEN, {"x": SURE_NO}, 0.001),
        (OPEN, {"x": SURE_NO, "y": YES}, 0.002),
        (YES, {"x": SURE_NO, "y": OPEN}, 0.002),
        (NO, {"x": SURE_NO, "y": YES}, 0.002),  # 0.02 by the primary test: the surer of the two
        (SURE_NO, {"x": UNSURE_NO, "y": OPEN}, 0.001),
    ):
        found = qualified(primary, controls)
        assert (found.outcome, found.of, found.only_as) == (NOT, "sure", "") and found.p_value == pytest.approx(p)


def test_a_part_that_is_refuted_too_unsurely_for_one_of_several_refutes_nothing():
    found = jointly({"a": UNSURE_NO, "b": OPEN})
    assert (found.outcome, found.p_value) == (INCONCLUSIVE, OPEN.p_value)
    assert qualified(OPEN, {"x": UNSURE_NO, "y": YES}).outcome == INCONCLUSIVE
    assert qualified(OPEN, {"x": UNSURE_NO}).outcome == NOT  # one of one
    assert jointly({"a": YES, "b": YES, "c": OPEN}).outcome == INCONCLUSIVE


def test_a_count_refutes_for_certain_but_a_measured_refutation_is_told_first():
    found = jointly({"a": COUNTED_NO, "b": OPEN})
    assert (found.outcome, found.p_value, found.of) == (NOT, None, "n")
    assert jointly({"a": COUNTED_NO, "b": SURE_NO, "c": OPEN}).of == "sure"
    assert jointly({"a": COUNTED_NO, "b": UNSURE_NO, "c": OPEN}).of == "n"


def test_all_refuted_is_as_sure_as_the_least_sure_or_the_surest_out_of_all():
    assert jointly({"a": SURE_NO, "b": UNSURE_NO}).p_value == pytest.approx(0.002)
    assert jointly({"a": UNSURE_NO, "b": UNSURE_NO}).p_value == 0.03


def test_how_often_a_true_statement_of_several_parts_is_refuted():
    """All parts on their lines, the worst case that is still true: one in twenty at most is called refuted."""
    rng = np.random.default_rng(0)
    refuted = 0
    for _ in range(600):
        parts = [held(Quantity.of_seeds(rng.normal(size=5).tolist()), "above", 0.0, str(i)) for i in range(4)]
        refuted += jointly({v.of: v for v in parts}).outcome == NOT
        refuted += qualified(parts[0], {v.of: v for v in parts[1:]}).outcome == NOT
    assert refuted <= 1200 * 0.07


def test_jointly():
    assert jointly({"a": YES, "b": YES}).outcome == REPRODUCED
    assert jointly({"a": NO, "b": NO}).outcome == NOT
    assert jointly({"a": YES, "b": OPEN}).outcome == INCONCLUSIVE
    found = jointly({"in a": NO, "in b": YES})
    assert (found.outcome, found.only_as, found.p_value) == (ONLY_AS, "in b", 0.02)
    nested = jointly({"in a": qualified(YES, {"raw": NO}), "in b": YES})
    assert nested.words == "reproduced only in a (raw) and in b"


def test_number_line_and_p_are_those_of_the_part_that_decides():
    def part(mean: float, line: float, side="below") -> Verdict:
        return held(Quantity.of_seeds([0.98 * mean, mean, 1.01 * mean]), side, line, f"{mean}")

    sure, unsure, other = part(1.0, 9.0), part(2.0, 2.2), part(5.0, 3.0)
    assert (sure.outcome, unsure.outcome, other.outcome) == (REPRODUCED, REPRODUCED, NOT)
    both = jointly({"a": sure, "b": unsure})
    assert (both.value, both.line, both.p_value) == (unsure.value, 2.2, unsure.p_value)
    straddling = part(2.0, 2.0)
    found = jointly({"a": sure, "b": straddling})
    assert (found.outcome, found.value, found.line) == (INCONCLUSIVE, straddling.value, 2.0)
    assert found.p_value == straddling.p_value
    weaker = otherwise(other, {"as a curve": sure})
    assert (weaker.outcome, weaker.value, weaker.line) == (ONLY_AS, sure.value, 9.0)
    assert weaker.p_value == max(other.p_value or 0, sure.p_value or 0)
    controlled = qualified(sure, {"x": straddling})
    assert (controlled.outcome, controlled.value, controlled.line) == (INCONCLUSIVE, straddling.value, 2.0)


@given(st.dictionaries(st.integers(), st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_between_the_raw_p_and_bonferroni_and_keeps_the_order(p_values):
    named = {str(key): p for key, p in p_values.items()}
    adjusted = holm(named)
    for name, p in named.items():
        assert p <= adjusted[name] <= min(1.0, len(named) * p) + 1e-15
    ordered = sorted(named, key=lambda name: named[name])
    assert [adjusted[name] for name in ordered] == sorted(adjusted.values())


def test_holm_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def _claim(name: str, verdict: Verdict) -> Claim:
    return Claim(name, "", "", "", "", (), lambda evidence: verdict)


def test_a_verdict_that_does_not_survive_the_correction_becomes_inconclusive():
    claims = [_claim(str(index), Verdict(REPRODUCED, p_value=0.02)) for index in range(5)]
    alone, together = judge(claims[:1], Evidence({})), judge(claims, Evidence({}))
    assert alone["0"].outcome == REPRODUCED and alone["0"].adjusted == pytest.approx(0.02)
    assert {verdict.outcome for verdict in together.values()} == {INCONCLUSIVE}
    assert "Holm" in together["0"].reasons[-1] and together["0"].adjusted == pytest.approx(0.1)
    assert together["0"].words == "inconclusive (p = 0.02, not enough among 5 tests)"
    assert alone["0"].words == "reproduced" and judge([_claim("a", OPEN)], Evidence({}))["a"].words == "inconclusive"


def test_counts_need_no_correction():
    claims = [_claim("count", Verdict(NOT)), *[_claim(str(i), Verdict(REPRODUCED, p_value=0.04)) for i in range(3)]]
    assert judge(claims, Evidence({}))["count"].outcome == NOT


def test_what_was_not_measured_is_said():
    def test(evidence):
        raise NotMeasured("needs the cell x")

    verdict = judge([Claim("a", "", "", "", "", (), test)], Evidence({}))["a"]
    assert (verdict.outcome, verdict.reasons) == (UNTESTED, ("needs the cell x",))
    with pytest.raises(InputError, match="different ids"):
        judge([_claim("a", YES), _claim("a", NO)], Evidence({}))


def test_the_cell_that_a_test_lacks_is_a_field_of_the_ledger():
    def test(evidence):
        raise NotMeasured("in whatever words", cell="x")

    lacking = Claim("a", "", "", "", "", (), test)
    verdict = judge([lacking], Evidence({}))["a"]
    assert verdict.lacks == "x" and ledger_entry(lacking, verdict, {})["lacks"] == "x"
    assert "lacks" not in ledger_entry(lacking, YES, {})


def test_what_holds_everywhere_in_the_same_words_is_said_once():
    part = Verdict(ONLY_AS, ("a",), only_as="as in untrained networks", p_value=0.01)
    assert jointly({"in a": part, "in b": part}).words == "reproduced only as in untrained networks"
    other = replace(part, only_as="by chance")
    assert jointly({"in a": part, "in b": other}).only_as == "in a (as in untrained networks) and in b (by chance)"
