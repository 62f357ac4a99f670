"""A measurement never comes alone: its value with an interval, the same instrument's value on every null, and how far
the two are apart.

A *null* is the same instrument on something that carries no signal: the untrained network, random vectors of equal
dimension, shuffled labels, another episode's activations.  A null is kept as a sample of values, one per draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from windtunnel.errors import InputError


@dataclass(frozen=True)
class Measurement:
    """One number about a network, with its controls.

    name      what was measured, e.g. "key cosine, centred"
    where     {"layer": 0, "head": 3, "positions": "observations", …}; empty for the whole network
    value     the number; low, high its 95% interval (over what, `over` says: "sequences", "seeds", …)
    unit      "bits", "" for a pure number, …
    nulls     name of the null -> its sampled values
    side      where a real effect would lie: "above" or "below" the null, or "both"
    effect    distance to the strongest null in units of that null's standard deviation; None without a spread
    p_value   share of the strongest null's draws at least as extreme (with the usual + 1); None without nulls
    searched  over how many places (layers × heads) the best was taken; each null draw then is its best as well
    arrays    what is needed to draw it
    note      a caveat in words, e.g. why it is not identifiable
    """

    name: str
    value: float
    low: float
    high: float
    over: str
    where: Mapping[str, Any] = field(default_factory=dict)
    unit: str = ""
    nulls: Mapping[str, np.ndarray] = field(default_factory=dict)
    side: Literal["above", "below", "both"] = "above"
    searched: int = 1
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        if not self.nulls and not self.note:
            raise InputError(f"measurement {self.name!r}: must have a null, or a note that says why there is none")
        for name, sample in self.nulls.items():
            if np.size(sample) == 0:
                raise InputError(f"measurement {self.name!r}: null {name!r} must have at least one value")

    @property
    def strongest_null(self) -> str | None:
        """The null that comes closest to the value."""
        if not self.nulls:
            return None
        return max(self.nulls, key=lambda name: (self._p(name), -abs(self._z(name) or 0.0)))

    @property
    def p_value(self) -> float | None:
        strongest = self.strongest_null
        return None if strongest is None else self._p(strongest)

    @property
    def effect(self) -> float | None:
        strongest = self.strongest_null
        return None if strongest is None else self._z(strongest)

    def _p(self, name: str) -> float:
        sample = np.asarray(self.nulls[name], dtype=float)
        above, below = (1 + np.sum(sample >= self.value)), (1 + np.sum(sample <= self.value))
        share = {"above": above, "below": below, "both": 2 * min(above, below)}[self.side] / (1 + len(sample))
        return float(min(1.0, share))

    def _z(self, name: str) -> float | None:
        sample = np.asarray(self.nulls[name], dtype=float)
        if len(sample) < 2 or (spread := float(sample.std(ddof=1))) == 0.0:
            return None
        return (self.value - float(sample.mean())) / spread

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; arrays are saved apart."""
        return {
            "name": self.name,
            "where": dict(self.where),
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "over": self.over,
            "unit": self.unit,
            "nulls": {name: np.asarray(sample, dtype=float).tolist() for name, sample in self.nulls.items()},
            "side": self.side,
            "strongest_null": self.strongest_null,
            "effect": self.effect,
            "p_value": self.p_value,
            "searched": self.searched,
            "note": self.note,
        }


@dataclass(frozen=True)
class Missing:
    """An instrument that does not apply, and why: told, never silently left out."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "missing": self.reason}


Result = Sequence[Measurement | Missing]
