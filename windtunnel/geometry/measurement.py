"""A measurement never comes alone: its value with an interval, the same instrument's value on every null, and how far
the two are apart.

A *null* is the same instrument on something that carries no signal: the untrained network, random vectors of equal
dimension, shuffled labels, another episode's activations.  A null is kept as a sample of values, one per draw.

The p-value of a value v against a sample of B draws is one-sided ("both": doubled):

    B ≥ 19      (1 + draws at least as extreme as v) / (B + 1): no assumption, and never below `least_p`
    2 ≤ B < 19  Student's t of (v − mean) / (sd · √(1 + 1/B)): would one more draw lie so far out?  Five untrained
                networks could never reach 0.05 by counting.  With two degrees of freedom (below five draws (B − 1)/2),
                not the B − 1 of normal scatter: the best of many heads has a long tail, and so the rate is kept for
                Gumbel's law, the limit of a maximum of light tails, as well.  Of five draws with an exponential tail
                0.05 means 0.07, and where scatter is normal 0.02 (of more draws less)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr

from windtunnel.errors import InputError
from windtunnel.json_numbers import from_json, to_json

COUNTED = 19  # from this many draws on, a p-value is counted and, one-sided, can reach 0.05
FREEDOM = 2  # degrees of freedom, at most, of the t that judges fewer

_NAMED = ("layer", "layers", "head", "lag", "rank", "step", "length")  # parts of a place that need their name


def least_p(draws: int, side: str) -> float:
    """The smallest p-value that counting so many draws can give; an effect on both sides is counted twice.

    >>> least_p(19, "above"), least_p(19, "both")
    (0.05, 0.1)
    """
    return (2 if side == "both" else 1) / (draws + 1)


def part_in_words(name: str, told: str) -> str:
    """One part of the place of a reading, most of them without their name.

    >>> part_in_words("layer", "0"), part_in_words("part", "mixer"), part_in_words("tensor", "blocks.2.residual")
    ('layer 0', 'mixer', 'after layer 2')
    """
    if (name, told) == ("layer", "all"):
        return "all layers"
    told = re.sub(r"^blocks\.(\d+)\.residual$", r"after layer \1", told)
    return f"{name} {told}" if name in _NAMED else told


@dataclass(frozen=True)
class Measurement:
    """One number about a network, with its controls.

    name      what was measured, e.g. "key cosine, centred"
    where     {"layer": 0, "head": 3, "positions": "observations", …}; empty for the whole network
    value     the number; low, high its 95% interval (over what, `over` says: "sequences", "seeds", …); NaN where the
              question has no answer, and the note says why
    unit      "bits", "" for a pure number, …
    nulls     name of the null -> its sampled values
    side      where a real effect would lie: "above" or "below" the null, or "both"
    effect    distance to the strongest null in units of that null's standard deviation; None without a spread
    p_value   against the strongest null, see above: the largest over all nulls; None without nulls
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
            if np.isnan(sample).any():  # NaN compares as "not extreme", which would make anything significant
                raise InputError(f"measurement {self.name!r}: null {name!r} must be numbers, not NaN")

    def __repr__(self) -> str:
        """On one line: the number, its place, and what it is held against."""
        place = ", ".join(f"{key} {value}" for key, value in self.where.items())
        told = f"{self.name}{f' ({place})' * bool(place)}: {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"
        null = self.strongest_null
        held = f"; {null} {np.mean(self.nulls[null]):.4g}, p {self._p(null):.2g}" if null is not None else ""
        return f"<{told}{f' {self.unit}' * bool(self.unit)}{held}{f'; {self.note}' * bool(self.note)}>"

    @property
    def strongest_null(self) -> str | None:
        """The null that comes closest to the value."""
        if not self.nulls or math.isnan(self.value):
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
        sample = np.asarray(self.nulls[name], dtype=float).ravel()
        if 2 <= len(sample) < COUNTED and (z := self._z(name)) is not None and math.isfinite(z):
            t, freedom = z / math.sqrt(1 + 1 / len(sample)), min(FREEDOM, (len(sample) - 1) / 2)
            above, below = float(stdtr(freedom, -t)), float(stdtr(freedom, t))
        else:
            above = float(1 + np.sum(sample >= self.value - self._rounding(sample))) / (1 + len(sample))
            below = float(1 + np.sum(sample <= self.value + self._rounding(sample))) / (1 + len(sample))
        return min(1.0, {"above": above, "below": below, "both": 2 * min(above, below)}[self.side])

    @staticmethod
    def _rounding(sample: np.ndarray) -> float:
        """What differs by less is equal: a p-value must not be made of the last digit."""
        finite = np.abs(sample[np.isfinite(sample)])
        return 1e-12 * max(1.0, float(finite.max(initial=0.0)))

    def _z(self, name: str) -> float | None:
        sample = np.asarray(self.nulls[name], dtype=float).ravel()
        if len(sample) < 2 or not np.isfinite(sample).all():
            return None
        spread = float(sample.std(ddof=1))
        if spread <= self._rounding(sample):  # draws that are equal: no scale to measure by
            return None
        return (self.value - float(sample.mean())) / spread

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; arrays are saved apart."""
        return {
            "name": self.name,
            "where": dict(self.where),
            "value": to_json(self.value),
            "low": to_json(self.low),
            "high": to_json(self.high),
            "over": self.over,
            "unit": self.unit,
            "nulls": {name: [to_json(v) for v in np.ravel(sample)] for name, sample in self.nulls.items()},
            "side": self.side,
            "strongest_null": self.strongest_null,
            "effect": None if self.effect is None else to_json(self.effect),
            "p_value": self.p_value,
            "searched": self.searched,
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> Measurement:
        """The measurement that `to_dict` described; what can be computed from the rest is computed anew."""
        fields: dict[str, Any] = {name: from_json(kept[name]) for name in ("value", "low", "high")}
        fields |= {name: kept[name] for name in ("name", "where", "over", "unit", "side", "searched", "note")}
        nulls = {name: np.array([from_json(v) for v in sample]) for name, sample in kept["nulls"].items()}
        return cls(**fields, nulls=nulls, arrays=arrays or {})


@dataclass(frozen=True)
class Missing:
    """What was not measured, and why: told, never silently left out.

    broken  by an accident (an exception, no memory), so that another try may succeed; not because it does not apply
    """

    name: str
    reason: str
    broken: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "missing": self.reason} | ({"broken": True} if self.broken else {})


Result = Sequence[Measurement | Missing]
