"""Intervals against hand-computed ones, and whether a nominal 95% really covers about 95%."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from windtunnel.errors import InputError
from windtunnel.fidelity.intervals import Estimate, t_interval

T_TWO = 4.302652729911275  # 97.5% point of Student's t with two degrees of freedom


def over_seeds(*values: float) -> Estimate:
    per_seed = np.array(values)
    low, high, scale = t_interval(per_seed, "log")
    return Estimate(per_seed.mean(), low, high, np.full(2, per_seed.mean()), per_seed, "seeds", scale, 100)


# --- t-intervals


def test_t_interval_by_hand():
    low, high, scale = t_interval(np.array([1.0, 2.0, 3.0]))
    half = T_TWO / math.sqrt(3)
    assert (low, high, scale) == (pytest.approx(2 - half), pytest.approx(2 + half), "linear")


def test_log_interval_is_the_linear_one_of_the_logs():
    low, high, scale = t_interval(np.array([0.01, 0.1, 1.0]), "log")
    half = T_TWO * math.log(10) / math.sqrt(3)
    assert scale == "log"
    assert (low, high) == (pytest.approx(0.1 * math.exp(-half)), pytest.approx(0.1 * math.exp(half)))


def test_log_scale_gives_way_to_linear_at_zero():
    assert t_interval(np.array([0.0, 1.0, 2.0]), "log") == t_interval(np.array([0.0, 1.0, 2.0]), "linear")


def test_infinite_values_leave_an_open_interval():
    assert t_interval(np.array([0.5, math.inf, 2.0]), "log")[:2] == (0.5, math.inf)
    assert t_interval(np.array([math.inf, math.inf]), "log")[:2] == (math.inf, math.inf)


def test_one_seed_has_no_interval():
    with pytest.raises(InputError, match="at least two"):
        t_interval(np.array([1.0]))


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_t_interval_covers(seeds, scale):
    """Seeds spread lognormally, as KLs do; the target is the centre on the scale of the interval.

    A normal quantile in place of Student's would cover only 80% with three seeds.
    """
    generator = np.random.default_rng(seeds)
    draws = generator.normal(2.0, 0.4, size=(4000, seeds))
    values, centre = (np.exp(draws), math.exp(2.0)) if scale == "log" else (draws, 2.0)
    hits = sum(low <= centre <= high for low, high, _ in (t_interval(x, scale) for x in values))
    assert 0.90 <= hits / 4000 <= 0.98


# --- printing


def test_an_estimate_prints_its_interval():
    estimate = replace(over_seeds(1.0, 2.0), mean=0.047, low=0.0461, high=0.048)
    assert str(estimate) == "0.0470 [0.0461, 0.0480]"
    assert f"{estimate:.1e}" == "4.7e-02 [4.6e-02, 4.8e-02]"


def test_a_mean_outside_its_interval_is_told_beside_what_the_interval_is_about():
    told = str(over_seeds(*[1e-5] * 9, 1e-2))
    assert told == "0.00101 [4.18e-06, 9.52e-05] (typical 2.00e-05)"
    assert "typical" not in str(over_seeds(1.0, 2.0, 4.0)) and "typical" not in str(over_seeds(1.0, math.inf))


def test_typical_is_the_geometric_mean():
    assert over_seeds(1.0, 4.0).typical == pytest.approx(2.0)
    assert over_seeds(0.0, 4.0).typical == 0.0
