"""From numbers per sequence to a measurement with its interval.

Intervals are 95% percentile bootstraps over sequences: they say how well *this* network is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from windtunnel.fidelity.intervals import percentile_interval
from windtunnel.geometry.measurement import Measurement

REPLICATES = 400


def resampled_means(values: np.ndarray, *, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """(B, …): means of (n, …) over sequences drawn with replacement; the same draws for equal n and seed."""
    count = len(values)
    weights = np.random.Generator(np.random.Philox(seed)).multinomial(count, np.full(count, 1 / count), replicates)
    return np.tensordot(weights / count, values, axes=1)


def measured(
    name: str,
    parts: Sequence[np.ndarray],
    statistic: Callable[..., np.ndarray] = lambda mean: mean,
    **fields: Any,
) -> Measurement:
    """A Measurement whose value is a statistic of means over sequences.

    parts      arrays (n, …), one row per sequence
    statistic  from their means (…, …) to a number; it is called with a leading replicate axis as well
    """
    means = [np.asarray(part, dtype=np.float64).mean(0) for part in parts]
    value = float(np.asarray(statistic(*[mean[None] for mean in means]))[0])
    spread = np.asarray(statistic(*[resampled_means(np.asarray(part, dtype=np.float64)) for part in parts]))
    low, high = percentile_interval(spread)
    return Measurement(name, value, low, high, "sequences", **fields)


def per_sequence(values: Float64[Tensor, "n K"], mask: Tensor | None = None) -> np.ndarray:
    """(n,) mean over readouts, or over those a mask (n, K) selects."""
    if mask is None:
        return values.mean(1).cpu().numpy()
    return ((values * mask).sum(1) / mask.sum(1).clamp_min(1)).cpu().numpy()
