"""From numbers per sequence to a measurement with its interval.

Intervals are 95% percentile bootstraps over sequences: they say how well *this* network is known.

Nulls are drawn many times and so on fewer sequences.  Those few may happen to be easy ones, and then any null would
look small; so every null value is moved by what the real value itself changes from the few to all.  The value of the
few has to be made as the nulls are: an ablation that puts a mean or a partner there takes it from the episodes of its
run, so that the few are run once more by themselves.  The value's rank among the null draws is then that of the few
alone: like is compared with like, and the p-value stays exact.  A moved null means something only beside the value it
was moved with: read value − null, never the null alone, and pool no nulls of different values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from windtunnel.fidelity.bootstrap import percentile_interval
from windtunnel.geometry.measurement import Measurement

REPLICATES = 400
MOVED = "nulls were drawn on fewer sequences and moved along: read the distance, not where they lie"


def resampled_means(values: np.ndarray, *, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """(B, …): means of (n, …) over sequences drawn with replacement; the same draws for equal n and seed."""
    count = len(values)
    weights = np.random.Generator(np.random.Philox(seed)).multinomial(count, np.full(count, 1 / count), replicates)
    return np.tensordot(weights / count, values, axes=1)


def measured(
    name: str,
    parts: Sequence[np.ndarray],
    statistic: Callable[..., np.ndarray] = lambda mean: mean,
    *,
    nulls: Mapping[str, Sequence[float] | np.ndarray],
    few: int | Sequence[np.ndarray] | None = None,
    **fields: Any,
) -> Measurement:
    """A Measurement whose value is a statistic of means over sequences.

    parts      arrays (n, …), one row per sequence
    statistic  from their means (…, …) to a number; it is called with a leading replicate axis as well
    nulls      name -> values of the same statistic; empty ones are left out
    few        the parts of the few sequences that nulls were drawn on, from a run on them alone; their number, where
               no sequence's row depends on the others in its run; None: nulls were drawn on all
    """
    whole = [np.asarray(part, dtype=np.float64) for part in parts]
    if isinstance(few, int):
        few = [part[:few] for part in whole]

    def of(some: Sequence[np.ndarray]) -> float:
        return float(np.asarray(statistic(*[part.mean(0)[None] for part in some]))[0])

    value = of(whole)
    shift = 0.0 if few is None or len(few[0]) == len(whole[0]) else value - of(few)
    low, high = percentile_interval(np.asarray(statistic(*map(resampled_means, whole))))
    samples = {null: np.asarray(sample, dtype=np.float64) + shift for null, sample in nulls.items() if len(sample)}
    if shift:
        fields["note"] = "; ".join(filter(None, [fields.get("note", ""), MOVED]))
    return Measurement(name, value, low, high, "sequences", nulls=samples, **fields)


def per_sequence(values: Float64[Tensor, "n K"]) -> np.ndarray:
    """(n,) mean over readouts."""
    return values.mean(1).cpu().numpy()
