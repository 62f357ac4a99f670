"""Intervals against hand-computed ones, and whether a nominal 95% really covers about 95%."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from windtunnel.errors import InputError
from windtunnel.fidelity.intervals import Estimate, PoissonBootstrap, percentile_interval, t_interval

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


# --- the bootstrap


def one_metric(values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """(n,) values as one metric at one readout, all selected."""
    x = torch.from_numpy(values)[None, :, None]
    return x, torch.ones(x.shape[1:], dtype=torch.bool)


def test_bootstrap_covers():
    """Exponential values, as skewed as KLs across sequences; the target is their true mean.

    Forty independent samples at a time, as forty readouts of one bootstrap.
    """
    generator = np.random.default_rng(5)
    hits = []
    for trial in range(50):
        bootstrap = PoissonBootstrap(1, 40, seed=trial)
        bootstrap.add(torch.from_numpy(generator.exponential(size=(1, 200, 40))), torch.ones(200, 40, dtype=torch.bool))
        for replicates in bootstrap.sums.per_position()[:, 0].T:
            low, high = percentile_interval(replicates)
            hits.append(low <= 1.0 <= high)
    assert len(hits) == 2000
    assert 0.90 <= np.mean(hits) <= 0.98


def test_bootstrap_spread_is_the_standard_error():
    values = np.random.default_rng(0).normal(10.0, 3.0, size=5000)
    bootstrap = PoissonBootstrap(1, 1, replicates=2000)
    bootstrap.add(*one_metric(values))
    replicates = bootstrap.sums.pooled()[:, 0]
    assert replicates.mean() == pytest.approx(values.mean(), abs=0.01)
    assert replicates.std() == pytest.approx(values.std() / math.sqrt(5000), rel=0.1)


def test_bootstrap_does_not_see_chunks():
    generator = np.random.default_rng(1)
    values = torch.from_numpy(generator.standard_normal((2, 101, 3)))
    mask = torch.from_numpy(generator.random((101, 3)) < 0.7)
    whole, cut = PoissonBootstrap(2, 3, seed=4), PoissonBootstrap(2, 3, seed=4)
    whole.add(values, mask)
    for part in torch.arange(101).split(7):
        cut.add(values[:, part], mask[part])
    torch.testing.assert_close(whole.sums.mass, cut.sums.mass, rtol=0, atol=0)  # sums of small integers: exact
    np.testing.assert_allclose(whole.sums.per_position(), cut.sums.per_position(), rtol=1e-12, atol=1e-14)


def test_bootstrap_weights_are_poisson():
    bootstrap = PoissonBootstrap(1, 1, replicates=100_000)
    bootstrap.add(*one_metric(np.ones(1)))
    weights = bootstrap.sums.mass.numpy()[:, 0]
    for k in range(5):
        assert np.mean(weights == k) == pytest.approx(math.exp(-1) / math.factorial(k), abs=0.006)


def test_an_infinite_value_only_touches_replicates_that_drew_it():
    values = np.ones(50)
    values[7] = math.inf
    bootstrap = PoissonBootstrap(1, 1, replicates=2000)
    bootstrap.add(*one_metric(values))
    replicates = bootstrap.sums.pooled()[:, 0]
    assert not np.isnan(replicates).any()
    assert np.isinf(replicates).mean() == pytest.approx(1 - math.exp(-1), abs=0.04)
    assert replicates[np.isfinite(replicates)] == pytest.approx(1.0)


def test_percentile_interval_takes_the_middle():
    low, high = percentile_interval(np.append(np.arange(1001.0), math.nan))
    assert (low, high) == (25.0, 975.0)


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
