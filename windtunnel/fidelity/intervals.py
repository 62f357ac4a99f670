"""A number with its uncertainty, and where that uncertainty comes from.

With several networks the unit is the training seed: all are scored on the same episodes and the interval is a
t-interval across seeds, which says where another training run would fall.  With a single network there is no
such spread to see; a bootstrap over sequences then says how well *this* network is known, and no more.  Every
`Estimate` says which of the two it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from windtunnel.errors import require, require_choice
from windtunnel.fidelity.printing import beside_the_mean, resolved

CONFIDENCE = 0.95
Scale = Literal["log", "linear"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A mean with its 95% interval.

    mean          arithmetic mean of per_seed
    low, high     the interval; on the log scale it is for the *typical* network (the geometric mean), which lies
                  below the arithmetic mean when seeds differ widely
    per_position  (K,) mean over networks at each readout; NaN where nothing was selected
    per_seed      (R,) one value per network
    over          what the interval runs over: "seeds" (t-interval) or "sequences" (bootstrap of a single network)
    scale         "log" or "linear": where the t-interval is symmetric
    episodes      number of episodes scored
    floor         curve error only: the value to expect from sampling alone if the true curves were equal
    """

    mean: float
    low: float
    high: float
    per_position: np.ndarray
    per_seed: np.ndarray
    over: Literal["seeds", "sequences"]
    scale: Scale
    episodes: int
    floor: float | None = None

    @property
    def typical(self) -> float:
        """Geometric mean of per_seed: what a log-scale interval is about.  0 if some value is 0."""
        return geometric_mean(self.per_seed)

    def __repr__(self) -> str:
        return f"<Estimate {self}, over {self.over}, {self.episodes:,} episodes>"

    def __format__(self, spec: str) -> str:
        """`0.0470 [0.0461, 0.0480]`; the spec applies to each number.  Where seeds differ so much that the mean lies
        outside the interval, which is for the typical network, that one is told too.  One sequence has no interval."""
        told = _with_interval(self.mean, self.low, self.high, spec)
        return told + beside_the_mean(self.mean, self.high, self.typical, spec or "#.3g")

    def __str__(self) -> str:
        return format(self)


def t_interval(values: np.ndarray, scale: Scale = "linear") -> tuple[float, float, Scale]:
    """95% t-interval for the centre of (R,) values, one per seed, R at least 2; and the scale that was used.

    On the log scale the centre is the geometric mean.  A value of 0 or less has no log: the linear scale is used
    instead.  An infinite value has no spread: the interval then runs from the smallest value to infinity.
    """
    values = np.asarray(values, dtype=np.float64)
    require_choice("scale", scale, ("log", "linear"))
    require(values.ndim == 1 and len(values) >= 2, "values", values.tolist(), "at least two, one per seed")
    if np.isinf(values).any():
        return float(values.min()), float(values.max()), scale
    if scale == "log" and values.min() <= 0:
        scale = "linear"
    x = np.log(values) if scale == "log" else values
    half = stdtrit(len(x) - 1, 0.5 + CONFIDENCE / 2) * x.std(ddof=1) / math.sqrt(len(x))
    low, high = float(x.mean() - half), float(x.mean() + half)
    return (exp_or_inf(low), exp_or_inf(high), scale) if scale == "log" else (low, high, scale)


def geometric_mean(values: np.ndarray) -> float:
    """Of values of at least 0; NaN if some value is below."""
    if (values <= 0).any():
        return 0.0 if (values >= 0).all() else math.nan
    return float(np.exp(np.log(values).mean()))


def exp_or_inf(x: float) -> float:
    """e^x; infinity where that is more than a float can hold."""
    return math.exp(x) if x < 709 else math.inf


def _with_interval(mean: float, low: float, high: float, spec: str) -> str:
    spec = spec or "#.3g"
    if math.isnan(low):
        return f"{resolved(mean):{spec}} (no interval)"
    return f"{resolved(mean):{spec}} [{resolved(low):{spec}}, {resolved(high):{spec}}]"
