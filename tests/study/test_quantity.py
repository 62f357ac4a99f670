"""The interval and the p-value are two sides of one test."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from windtunnel.json_numbers import from_json, to_json
from windtunnel.study.compare import difference, ratio
from windtunnel.study.quantity import Quantity

NUMBERS = st.floats(0.01, 100.0)


@given(st.lists(NUMBERS, min_size=2, max_size=6, unique=True), NUMBERS, st.sampled_from(["log", "linear"]))
def test_the_interval_excludes_the_line_exactly_where_p_is_small(values, line, scale):
    quantity = Quantity.of_seeds(values, scale)
    p = quantity.p_against(line)
    if abs(p - 0.05) > 1e-9:
        assert (quantity.side(line) != "straddles") == (p < 0.05)


@given(st.lists(NUMBERS, min_size=3, max_size=6, unique=True), NUMBERS)
def test_p_is_that_of_a_t_test(values, line):
    assert Quantity.of_seeds(values).p_against(line) == pytest.approx(stats.ttest_1samp(values, line).pvalue, abs=1e-9)
    logs = stats.ttest_1samp(np.log(values), math.log(line)).pvalue
    assert Quantity.of_seeds(values, "log").p_against(line) == pytest.approx(logs, abs=1e-9)


@given(NUMBERS, st.floats(0.01, 1.0), st.floats(0.01, 1.0), NUMBERS)
def test_a_bootstrap_interval_agrees_with_its_p(mean, below, above, line):
    quantity = Quantity(mean, mean - below, mean + above, "sequences")
    p = quantity.p_against(line)
    if abs(p - 0.05) > 1e-6:
        assert (quantity.side(line) != "straddles") == (p < 0.05)


def test_what_cannot_be_told_straddles():
    assert Quantity(math.nan, math.nan, math.nan, "sequences").side(1.0) == "straddles"
    assert Quantity(math.nan, math.nan, math.nan, "sequences").p_against(1.0) == 1.0
    assert Quantity.of_seeds([1.0, math.inf]).p_against(0.5) == 1.0


def test_a_single_seed_tells_nothing_about_others():
    alone = Quantity.of_seeds([1.0], "log")
    assert alone.side(0.001) == alone.side(1000.0) == "straddles" and alone.p_against(0.001) == 1.0
    assert Quantity.of_record(alone.to_dict()) == alone and alone.brief() == "1"


def test_what_is_only_rounding_is_told_as_0():
    """As everywhere else: nobody should read −2e-16 as a finding."""
    noisy = Quantity(-2.2e-16, -3.3e-13, 0.25, "sequences")
    assert str(noisy) == "0 [0, 0.25] over sequences" and noisy.brief() == "0 [0, 0.25]"
    assert str(Quantity.exact(2.2e-16)) == "0" and str(Quantity.exact(12345.0)) == "1.234e4"
    assert str(Quantity(3e-9, math.nan, math.inf, "sequences")) == "3e-9 [nan, inf] over sequences"
    assert str(Quantity.of_seeds([0.1, 0.2])).endswith(" over 2 seeds")


def test_exact_numbers_have_no_doubt_but_on_the_line():
    assert Quantity.exact(3).side(2) == "above" and Quantity.exact(3).p_against(2) == 0.0
    assert Quantity.exact(2).side(2) == "straddles" and Quantity.exact(2).p_against(2) == 1.0


@pytest.mark.parametrize(("seeds", "p"), [(3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_seeds_without_spread_are_judged_by_the_sign_test(seeds, p):
    same = Quantity.of_seeds([1.0] * seeds)
    assert same.p_against(0.5) == p and same.side(0.5) == ("above" if p < 0.05 else "straddles")
    assert same.side(1.0) == "straddles" and same.p_against(1.0) == 1.0


def test_a_known_noise_decides_where_seeds_agree_to_the_last_digit():
    same = Quantity.of_seeds([1.0] * 5, noise=0.001)
    assert same.low < 1.0 < same.high and same.side(0.99) == "above" and 0 < same.p_against(0.99) < 1e-3
    assert same.side(0.999) == "straddles" and same.p_against(0.999) > 0.05
    assert difference(same, same).noise == pytest.approx(0.001 * math.sqrt(2))
    assert ratio(same, same).low < 1.0 < ratio(same, same).high
    assert Quantity.of_record(same.to_dict()) == same


def test_a_bootstrap_without_spread_is_not_certain():
    assert Quantity(1.0, 1.0, 1.0, "sequences").p_against(0.5) > 0


def test_an_interval_over_seeds_without_their_values_is_no_normal():
    """An instrument's own t-interval: its p-value must not be that of a normal, which would be 1e-15 here."""
    found = Quantity(4.0, 3.0, 5.0, "seeds")
    assert 0.005 < found.p_against(0.0) < 0.05 and found.side(0.0) == "above"
    assert Quantity(4.0, 3.0, 5.0, "seeds", df=8).p_against(0.0) < 1e-4
    assert found.p_against(3.0) == pytest.approx(0.05)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=5), st.sampled_from([0.0, 0.1]))
def test_a_ratio_turned_round_is_one_over_it(pairs, noise):
    """So it is the geometric mean that stands for several seeds."""
    a, b = (replace(Quantity.of_seeds(x, "log"), noise=noise * float(np.mean(x))) for x in zip(*pairs, strict=True))
    there, back = ratio(a, b), ratio(b, a)
    for end, other in (("mean", "mean"), ("low", "high"), ("high", "low")):
        assert getattr(there, end) * getattr(back, other) == pytest.approx(1.0)
    assert there.noise / there.mean == pytest.approx(noise * math.sqrt(2))
    assert there.p_against(1.0) == pytest.approx(back.p_against(1.0))


def test_ratios_and_differences_are_paired_by_seed():
    a, b = Quantity.of_seeds([2.0, 4.0, 8.0]), Quantity.of_seeds([1.0, 2.0, 4.0])
    assert ratio(a, b).values == (2.0, 2.0, 2.0)
    assert difference(a, b).values == (1.0, 2.0, 4.0)
    more = Quantity.of_seeds([2.0, 4.0, 8.0, 9.0])  # whose partner is whose, nobody knows: Welch
    assert difference(more, b).counts == ratio(more, b).counts == (4, 3) and not difference(more, b).values
    one = Quantity(2.0, 1.9, 2.1, "sequences")
    assert ratio(one, Quantity.exact(1.0)).low == pytest.approx(2.0 / math.sqrt(2.1 / 1.9))
    gap = difference(one, Quantity(1.0, 0.9, 1.1, "sequences"))
    assert (gap.low, gap.high) == (pytest.approx(1 - math.hypot(0.1, 0.1)), pytest.approx(1 + math.hypot(0.1, 0.1)))


def test_a_comparison_knows_its_seeds_so_that_it_can_be_compared_again():
    def of(values, *seeds):
        return replace(Quantity.of_seeds(values), seeds=seeds)

    first = difference(of([1.0, 2.0, 4.0], 0, 1, 2), of([0.5, 0.25, 0.125], 2, 1, 0))
    assert first.seeds == (0, 1, 2) and first.values == (0.875, 1.75, 3.5)
    again = ratio(of([2.0, 8.0, 3.0], 2, 0, 9), first)
    assert again.seeds == (2, 0) and again.values == pytest.approx((2.0 / 3.5, 8.0 / 0.875))
    elsewhere = difference(of([1.0, 2.0, 4.0], 10, 11, 12), of([0.5, 0.25, 0.1], 10, 11, 12))
    assert difference(first, elsewhere).counts == (3, 3)  # Welch: nothing is paired


def test_a_mean_outside_its_interval_is_told_beside_what_the_interval_is_about():
    assert Quantity.of_seeds([*[1e-5] * 9, 1e-2], "log").brief() == "0.00101 [0.00000418, 0.0000952] (typical 2e-05)"
    assert "typical" not in Quantity.of_seeds([*[1e-5] * 9, 1e-2]).brief()


def test_equal_seeds_are_paired_wherever_they_stand():
    a = replace(Quantity.of_seeds([2.0, 4.0, 8.0, 9.0]), seeds=(0, 1, 2, 3))
    b = replace(Quantity.of_seeds([3.0, 4.0, 2.0]), seeds=(3, 2, 1))
    assert difference(a, b).values == (2.0, 4.0, 6.0)
    assert ratio(a, b).values == (2.0, 2.0, 3.0)


def test_cells_without_a_common_seed_are_compared_by_all_of_them():
    """Welch's test, as scipy has it: for the difference of the values, and for the ratio that of their logarithms."""
    rng = np.random.default_rng(0)
    x, y = np.exp(rng.normal(1.0, 0.3, 6)), np.exp(rng.normal(0.0, 0.1, 3))
    a = replace(Quantity.of_seeds(x), seeds=(10, 11, 12, 13, 14, 15))
    b = replace(Quantity.of_seeds(y), seeds=(0, 1, 2))
    for found, wanted, line in (
        (difference(a, b), stats.ttest_ind(x - 1.5, y, equal_var=False), 1.5),
        (ratio(a, b), stats.ttest_ind(np.log(x / 1.5), np.log(y), equal_var=False), 1.5),
    ):
        assert found.p_against(line) == pytest.approx(wanted.pvalue) and found.df == pytest.approx(wanted.df)
        assert (found.side(line) == "straddles") == (wanted.pvalue > 0.05)
        for end in (found.low, found.high):
            assert found.p_against(end) == pytest.approx(0.05)
        assert "over 6 and 3 seeds" in str(found) and found.to_dict()["counts"] == [6, 3]
    ends = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert (difference(a, b).low, difference(a, b).high) == pytest.approx((ends.low, ends.high))
    assert ratio(a, b).p_against(0.0) == 0.0


def apart(values, first):
    """Over seeds that start at `first`."""
    return replace(Quantity.of_seeds(values), seeds=tuple(range(first, first + len(values))))


def test_without_a_logarithm_or_any_spread_there_is_no_telling():
    for found in (
        ratio(apart([0.0, 1e-3, 2e-3], 0), apart([0.1, 0.2, 0.3], 10)),
        ratio(apart([1.0, 1.0], 0), apart([2.0, 2.0], 10)),
        difference(apart([1.0, 1.0, 1.0], 0), apart([2.0, 2.0, 2.0], 10)),
    ):
        assert found.side(1.0) == "straddles" and found.p_against(1.0) == 1.0
    noisy = [replace(Quantity.of_seeds([v] * 3, noise=0.01), seeds=(s, s + 1, s + 2)) for v, s in ((1.0, 0), (2.0, 10))]
    assert difference(*noisy).side(0.0) == "below"


def test_an_end_beyond_all_floats_is_infinite():
    far = Quantity.of_seeds([1e-150, 1e150], "log", noise=1e149)
    assert (far.low, far.high) == (0.0, math.inf) and far.side(1.0) == "straddles"
    assert ratio(far, Quantity.of_seeds([1.0, 2.0, 3.0], "log")).high == math.inf  # unequally many: Welch's
    wide = ratio(Quantity(1e200, 1e-200, 1e300, "sequences"), Quantity(1.0, 1e-200, 1e300, "sequences"))
    assert wide.high == math.inf and wide.side(1.0) == "straddles"


@pytest.mark.parametrize("zero", [Quantity(1.0, 0.0, 2.0, "sequences"), Quantity.exact(0.0)])
def test_a_ratio_with_what_reaches_0_cannot_be_told(zero):
    other = Quantity(1.0, 0.9, 1.1, "sequences")
    for found in (ratio(zero, other), ratio(other, zero)):
        assert [found.side(line) for line in (-1.0, 0.0, 1e-9, 10.0)] == ["straddles"] * 4


def test_a_comparison_of_seeds_with_others_comes_back_as_it_was():
    found = ratio(apart([1.0, 1.2, 0.9], 0), apart([0.1, 0.2, 0.3, 0.15], 10))
    assert Quantity.of_record(found.to_dict()) == found


def test_records_round_trip():
    for quantity in (Quantity.of_seeds([0.1, 0.2], "log"), Quantity(1.0, 0.5, 2.0, "sequences"), Quantity.exact(3.0)):
        again = Quantity.of_record(quantity.to_dict())
        assert (again.mean, again.low, again.high, again.over) == (
            quantity.mean,
            quantity.low,
            quantity.high,
            quantity.over,
        )
    assert to_json(math.inf) == "inf" and from_json("inf") == math.inf and to_json(math.nan) is None
