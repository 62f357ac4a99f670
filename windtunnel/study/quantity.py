"""A measured number against a line (a threshold): on which side does it lie, and how sure is that?

The interval decides the side; the p-value is that of the same test, so the two never disagree: the 95% interval
excludes the line exactly where p < 0.05.  Holm's correction over all claims then works on the p-values.

No number of seeds makes a number certain.  Seeds that agree to the last digit (a count, an accuracy of 1) have a spread
of 0, which no t-test can use: there the sign test speaks, whose p-value is 2 · 0.5^n at best.  Where the noise of the
measurement itself is known, it is added to the spread over seeds, and such seeds are judged by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from windtunnel.fidelity.intervals import (
    CONFIDENCE,
    Estimate,
    Scale,
    exp_or_inf,
    geometric_mean,
    t_interval,
)
from windtunnel.fidelity.printing import alike, beside_the_mean, resolved
from windtunnel.json_numbers import from_json, to_json

Side = Literal["below", "above", "straddles"]
Over = Literal["seeds", "sequences", "resampled seeds", "exact"]
_HALF = 1.959963984540054  # standard errors from the middle to the end of a 95% interval
LEAST_P = 2e-3  # of a bootstrap without spread: a thousand replicates say no more


@dataclass(frozen=True)
class Quantity:
    """A number with its 95% interval.

    values  one per seed; empty where the interval is over sequences, or the number is exact
    over    "seeds" (t-interval), "sequences" or "resampled seeds" (bootstrap), or "exact" (a count: no uncertainty)
    scale   "log": the t-interval is that of the logarithms, about the geometric mean
    noise   standard error of the measurement, which all seeds share (equal test episodes), in units of the mean
    df      degrees of freedom of an interval over seeds whose values are not known one by one
    seeds   which seeds the values are of, where that is known
    counts  of a comparison of seeds with other seeds: how many on either side
    """

    mean: float
    low: float
    high: float
    over: Over
    values: tuple[float, ...] = ()
    scale: Scale = "linear"
    noise: float = 0.0
    df: float = 1
    seeds: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def exact(cls, value: float) -> Quantity:
        """A count, known exactly."""
        return cls(value, value, value, "exact")

    @classmethod
    def of_seeds(cls, values: Sequence[float], scale: Scale = "linear", noise: float = 0.0) -> Quantity:
        """One value per seed, `noise` as above.  A single seed tells nothing about others: it straddles every line."""
        array = np.asarray(values, dtype=float)
        if len(array) == 1:
            return cls(float(array[0]), -math.inf, math.inf, "seeds", (float(array[0]),), scale)
        low, high, scale = t_interval(array, scale)
        found = cls(float(array.mean()), low, high, "seeds", tuple(map(float, array)), scale, noise)
        return found if noise == 0 or not np.isfinite(array).all() else found._widened()

    def _widened(self) -> Quantity:
        x, error = self.on_scale()
        middle, half = float(x.mean()), float(stdtrit(len(x) - 1, 0.5 + CONFIDENCE / 2)) * error
        ends = (middle - half, middle + half)
        low, high = map(exp_or_inf, ends) if self.scale == "log" else ends
        return replace(self, low=low, high=high)

    def on_scale(self) -> tuple[np.ndarray, float]:
        """Values on the scale of the test, and the standard error of their mean."""
        x, noise = np.asarray(self.values), self.noise
        if self.scale == "log":
            x, noise = np.log(x), noise / abs(self.mean)
        return x, math.hypot(float(x.std(ddof=1)) / math.sqrt(len(x)), noise)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Quantity:
        """From a stored estimate: mean, low, high, per_seed, over, scale."""
        mean, low, high = (from_json(record[name]) for name in ("mean", "low", "high"))
        if record["over"] == "seeds":
            noise, df = float(record.get("noise", 0.0)), float(record.get("df", 1))
            values, counts = tuple(map(from_json, record["per_seed"])), tuple(record.get("counts", ()))
            return cls(mean, low, high, "seeds", values, record["scale"], noise, df, counts=counts)
        return cls(mean, low, high, record["over"])

    def side(self, line: float) -> Side:
        """Where the whole interval lies; a NaN anywhere straddles, and so does what its p-value does not bear out."""
        if self.over != "exact" and self.p_against(line) > 1 - CONFIDENCE:
            return "straddles"
        if self.high < line:
            return "below"
        return "above" if self.low > line else "straddles"

    def p_against(self, line: float) -> float:
        """Two-sided p-value of "the true value is the line"; 1 where there is no telling."""
        if self.over == "exact":
            return 1.0 if self.mean == line else 0.0
        if self.over == "seeds" and self.values:
            return self._t_test(line)
        mean, low, high = self.mean, self.low, self.high
        if self.scale == "log" and low > 0:
            if line <= 0:
                return 0.0  # positive values lie above it, whatever they are
            mean, low, high, line = (math.log(value) for value in (mean, low, high, line))
        half = mean - low if line < mean else high - mean
        if not math.isfinite(half) or not math.isfinite(mean):
            return 1.0
        if half <= 0:
            return 1.0 if mean == line else LEAST_P
        away = abs(mean - line) / half  # in half widths of the interval: 1 at p = 0.05
        if self.over == "seeds":
            return float(2 * stdtr(self.df, -away * stdtrit(self.df, 0.5 + CONFIDENCE / 2)))
        return float(2 * ndtr(-away * _HALF))

    def _t_test(self, line: float) -> float:
        if not np.isfinite(self.values).all() or len(self.values) < 2:
            return 1.0
        if self.scale == "log" and line <= 0:
            return 0.0  # positive values lie above it, whatever they are
        x, error = self.on_scale()
        line = math.log(line) if self.scale == "log" else line
        if error <= 1e-12 * max(1.0, abs(float(x.mean()))):
            return 1.0 if float(x[0]) == line else 2 * 0.5 ** len(x)  # the sign test
        return float(2 * stdtr(len(x) - 1, -abs(float(x.mean()) - line) / error))

    def __str__(self) -> str:
        return self.brief(4) if self.over == "exact" else self.full()

    def full(self, digits: int = 3) -> str:
        """With what the interval is over: `0.0033 [0.0031, 0.0036] over 3 seeds`; alone where there is none."""
        if self._bounds_nothing and not self.values:
            return self.brief(digits)
        who = f"{len(self.values)} seed{'s' * (len(self.values) != 1)}" if self.values else self.over
        if self.counts:
            who = " and ".join(map(str, self.counts)) + " seeds"
        return f"{self.brief(digits)} over {who}"

    def brief(self, digits: int = 3) -> str:
        """For a table: `0.0033 [0.0031, 0.0036]`, or the number alone if it is exact or one seed's, which bounds
        nothing; 0 for what is only rounding."""
        if self._bounds_nothing:
            return alike(resolved(self.mean), digits=digits)[0]
        mean, low, high = alike(*map(resolved, (self.mean, self.low, self.high)), digits=digits)
        told = f"{mean} [{low}, {high}]"
        if self.scale != "log" or not self.values:
            return told
        return told + beside_the_mean(self.mean, self.high, geometric_mean(np.array(self.values)), f".{digits}g")

    @property
    def _bounds_nothing(self) -> bool:
        """Is there no interval to show?"""
        ends = (self.low, self.high)
        return self.over == "exact" or ends == (-math.inf, math.inf) or all(map(math.isnan, ends))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        told = {name: to_json(getattr(self, name)) for name in ("mean", "low", "high")}
        told |= {"over": self.over, "scale": self.scale, "per_seed": [to_json(v) for v in self.values]}
        told |= {"noise": self.noise} if self.noise else {}
        return told | ({"df": self.df, "counts": list(self.counts)} if self.counts else {})


def estimate_record(estimate: Estimate) -> dict[str, Any]:
    """A score as plain data for JSON; `Quantity.of_record` reads it back."""
    record = {part: to_json(getattr(estimate, part)) for part in ("mean", "low", "high")}
    record |= {
        "per_seed": [to_json(float(v)) for v in estimate.per_seed],
        "over": estimate.over,
        "scale": estimate.scale,
    }
    return record | ({"floor": to_json(estimate.floor)} if estimate.floor is not None else {})
