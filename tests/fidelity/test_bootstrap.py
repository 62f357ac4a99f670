"""The bootstrap over sequences: it covers, it does not see chunks, and its weights are Poisson."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from windtunnel.fidelity.bootstrap import PoissonBootstrap, percentile_interval


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
