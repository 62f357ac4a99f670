"""A measured number held against a line: on which side does it lie, and how sure is that?

The interval decides the side; the p-value is that of the same test, so the two never disagree: the 95% interval
excludes the line exactly where p < 0.05.  Holm's correction over all claims then works on the p-values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, stdtr

from windtunnel.fidelity.intervals import Scale, t_interval

Side = Literal["below", "above", "straddles"]
Over = Literal["seeds", "sequences", "resampled seeds", "exact"]
_HALF = 1.959963984540054  # standard errors from the middle to the end of a 95% interval


@dataclass(frozen=True)
class Quantity:
    """A number with its 95% interval.

    values  one per seed; empty where the interval is over sequences, or the number is exact
    over    "seeds" (t-interval), "sequences" or "resampled seeds" (bootstrap), or "exact" (a count: no uncertainty)
    scale   "log": the t-interval is that of the logarithms, about the geometric mean
    """

    mean: float
    low: float
    high: float
    over: Over
    values: tuple[float, ...] = ()
    scale: Scale = "linear"

    @classmethod
    def exact(cls, value: float) -> Quantity:
        """A count, known exactly."""
        return cls(value, value, value, "exact")

    @classmethod
    def of_seeds(cls, values: Sequence[float], scale: Scale = "linear") -> Quantity:
        """Two or more values, one per seed."""
        array = np.asarray(values, dtype=float)
        low, high, scale = t_interval(array, scale)
        return cls(float(array.mean()), low, high, "seeds", tuple(map(float, array)), scale)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Quantity:
        """From a stored estimate: mean, low, high, per_seed, over, scale."""
        mean, low, high = (number(record[name]) for name in ("mean", "low", "high"))
        if record["over"] == "seeds":
            return cls(mean, low, high, "seeds", tuple(map(number, record["per_seed"])), record["scale"])
        return cls(mean, low, high, record["over"])

    def side(self, line: float) -> Side:
        """Where the whole interval lies; a NaN anywhere straddles."""
        if self.high < line:
            return "below"
        return "above" if self.low > line else "straddles"

    def p_against(self, line: float) -> float:
        """Two-sided p-value of "the true value is the line"; 1 where there is no telling."""
        if self.over == "exact":
            return 1.0 if self.mean == line else 0.0
        if self.over == "seeds":
            return self._t_test(line)
        spread = (self.mean - self.low if line < self.mean else self.high - self.mean) / _HALF
        if not math.isfinite(spread) or not math.isfinite(self.mean):
            return 1.0
        if spread <= 0:
            return 1.0 if self.mean == line else 0.0
        return float(2 * ndtr(-abs(self.mean - line) / spread))

    def _t_test(self, line: float) -> float:
        x = np.asarray(self.values)
        if self.scale == "log":
            if line <= 0:
                return 0.0  # positive values lie above it, whatever they are
            x, line = np.log(x), math.log(line)
        if not np.isfinite(x).all() or len(x) < 2:
            return 1.0
        error = float(x.std(ddof=1)) / math.sqrt(len(x))
        if error == 0:
            return 1.0 if float(x[0]) == line else 0.0
        return float(2 * stdtr(len(x) - 1, -abs(float(x.mean()) - line) / error))

    def __str__(self) -> str:
        if self.over == "exact":
            return f"{self.mean:.4g}"
        who = f"{len(self.values)} seeds" if self.over == "seeds" else self.over
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}] over {who}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        told = {name: plain(getattr(self, name)) for name in ("mean", "low", "high")}
        return told | {"over": self.over, "scale": self.scale, "per_seed": [plain(v) for v in self.values]}


def ratio(a: Quantity, b: Quantity) -> Quantity:
    """a / b, both positive: paired by seed where both have seeds (equal seeds share data), else by intervals."""
    pairs = min(len(a.values), len(b.values))
    if pairs >= 2:
        return Quantity.of_seeds([x / y for x, y in zip(a.values[:pairs], b.values[:pairs], strict=True)], "log")
    middle = math.log(a.mean / b.mean)
    halves = [math.log(q.high / q.low) / 2 if q.over != "exact" else 0.0 for q in (a, b)]
    half = math.hypot(*halves)
    return Quantity(math.exp(middle), math.exp(middle - half), math.exp(middle + half), "sequences")


def difference(a: Quantity, b: Quantity) -> Quantity:
    """a − b, paired by seed where both have seeds, else by intervals."""
    pairs = min(len(a.values), len(b.values))
    if pairs >= 2:
        return Quantity.of_seeds([x - y for x, y in zip(a.values[:pairs], b.values[:pairs], strict=True)])
    below = math.hypot(a.mean - a.low, b.high - b.mean)
    above = math.hypot(a.high - a.mean, b.mean - b.low)
    middle = a.mean - b.mean
    return Quantity(middle, middle - below, middle + above, "exact" if a.over == b.over == "exact" else "sequences")


def number(value: Any) -> float:
    """A float from JSON, where None stands for NaN and the string "inf" for infinity."""
    return math.nan if value is None else float(value)


def plain(value: float) -> float | str | None:
    """A float as JSON can hold it."""
    if math.isfinite(value):
        return float(value)
    return None if math.isnan(value) else str(value)
