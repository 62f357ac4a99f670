"""Numbers and lists as a reader meets them in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from windtunnel.study.quantity import number


def short(value: Any) -> str:
    """Three significant digits, no more zeros than needed; ∞ and – for what is no number.

    >>> short(0.41371), short(7.5e-05), short(None), short("inf"), short(2)
    ('0.414', '7.5e-05', '–', '∞', '2')
    """
    found = number(value)
    if math.isnan(found):
        return "–"
    return ("∞" if found > 0 else "−∞") if math.isinf(found) else f"{found:.3g}"


def bits(value: Any, unit: str = " bits") -> str:
    """A number of bits."""
    return f"{short(value)}{unit}"


def interval(record: Mapping[str, Any] | None) -> str:
    """`0.0471 [0.046, 0.048]`; only the number where it is exact or has no interval."""
    if record is None or record.get("mean") is None:
        return ""
    ends = [record.get(part) for part in ("low", "high")]
    if record.get("over") == "exact" or None in ends:
        return short(record["mean"])
    return f"{short(record['mean'])} [{short(ends[0])}, {short(ends[1])}]"


def listed(parts: Iterable[str], most: int = 8) -> str:
    """Parts in one sentence; of many, the first few and how many more there are."""
    parts = list(parts)
    rest = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {rest} more" if rest > 0 else "")
