"""The record: p-values by counting and by t, what is refused, and what JSON gets."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from windtunnel.errors import InputError
from windtunnel.geometry import Measurement


def record(value: float, nulls: dict, side="above", **more) -> Measurement:
    return Measurement("x", value, value, value, "sequences", nulls=nulls, side=side, **more)


def test_many_draws_are_counted():
    sample = np.arange(99.0)
    assert record(98.5, {"a": sample}).p_value == pytest.approx(1 / 100)
    assert record(49.0, {"a": sample}).p_value == pytest.approx(51 / 100)
    assert record(0.5, {"a": sample}, "below").p_value == pytest.approx(2 / 100)
    assert record(97.5, {"a": sample}, "both").p_value == pytest.approx(2 * 2 / 100)


def test_few_draws_use_student_t_with_two_degrees_of_freedom():
    sample = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    t = 8.0 / math.sqrt(2.5 * 1.2)
    p = (1 - t / math.sqrt(2 + t * t)) / 2  # that t's tail in closed form
    assert record(10.0, {"a": sample}).p_value == pytest.approx(p, rel=1e-9)
    assert record(10.0, {"a": sample}, "below").p_value == pytest.approx(1 - p)
    assert record(2.0, {"a": sample}, "both").p_value == pytest.approx(1.0)
    three = record(10.0, {"a": sample[1:4]})  # one degree of freedom: Cauchy's law
    assert three.p_value == pytest.approx(0.5 - math.atan(8.0 / math.sqrt(4 / 3)) / math.pi)


def test_what_differs_by_rounding_alone_is_equal():
    sample = np.full(39, 0.3) + 1e-16 * np.arange(39)
    assert record(0.3 + 1e-15, {"a": sample}).p_value == 1.0
    assert record(0.3 - 1e-15, {"a": sample}, "below").p_value == 1.0


@pytest.mark.parametrize("draws", [2, 3, 4, 5, 12, 18])
@pytest.mark.parametrize("law", ["normal", "gumbel", "laplace", "uniform"])
def test_one_more_of_few_draws_is_told_from_them_no_more_often_than_stated(law, draws):
    """Also where the draws have the law of a maximum; 4,000 trials, within the central 99.9% of the binomial."""
    sampled = getattr(np.random.default_rng(draws), law)(size=(4000, 1 + draws))
    p = np.array([record(first, {"a": rest}).p_value for first, *rest in sampled])
    for rate in (0.05, 0.01):
        assert np.sum(p <= rate) <= binom.ppf(0.9995, len(p), rate)


def test_what_the_few_draw_rule_is_said_to_cost():
    """Of five draws 0.05 means 0.02 where they scatter normally, and 0.07 with an exponential tail."""
    for law, rate in (("normal", 0.02), ("exponential", 0.07)):
        sampled = getattr(np.random.default_rng(1), law)(size=(8000, 6))
        alarms = np.mean([record(first, {"a": np.array(rest)}).p_value <= 0.05 for first, *rest in sampled])
        assert alarms == pytest.approx(rate, abs=0.008)


def test_the_closest_null_is_the_strongest():
    far, near = np.zeros(199) + 0.01 * np.arange(199), np.linspace(4.0, 6.0, 199)
    found = record(5.0, {"far": far, "near": near})
    assert found.strongest_null == "near" and found.p_value == pytest.approx(101 / 200, abs=0.01)
    assert found.effect is not None and abs(found.effect) < 0.1


def test_refusals():
    with pytest.raises(InputError, match="must have a null"):
        record(1.0, {})
    with pytest.raises(InputError, match="at least one value"):
        record(1.0, {"a": np.array([])})
    with pytest.raises(InputError, match="not NaN"):
        record(1.0, {"a": np.array([0.0, math.nan])})


def test_a_question_without_answer_has_no_p_value_and_goes_into_json():
    found = record(math.nan, {"a": np.arange(30.0)}, note="not identifiable")
    assert found.p_value is None and found.effect is None and found.strongest_null is None
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["value"] is None and plain["note"] == "not identifiable"


def test_a_record_comes_back_from_json():
    arrays = {"curve": np.arange(3.0)}
    found = record(2.0, {"a": np.array([0.0, 1.0, math.inf])}, "both", unit="bits", where={"layer": 1}, searched=4)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["nulls"]["a"] == [0.0, 1.0, "inf"]
    again = Measurement.from_dict(plain, arrays)
    assert again.to_dict() == found.to_dict() and again.arrays is arrays
    unknown = record(math.nan, {}, note="not identifiable")
    assert math.isnan(Measurement.from_dict(unknown.to_dict()).value)


def test_it_is_shown_on_one_line():
    found = Measurement(
        "bits lost", 0.5, 0.4, 0.6, "sequences", {"layer": 0}, "bits", {"untrained": np.array([0.1, 0.3])}
    )
    assert repr(found) == f"<bits lost (layer 0): 0.5 [0.4, 0.6] bits; untrained 0.2, p {found.p_value:.2g}>"
    assert repr(replace(found, nulls={}, note="no null")) == "<bits lost (layer 0): 0.5 [0.4, 0.6] bits; no null>"
