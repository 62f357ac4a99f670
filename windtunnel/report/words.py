"""Numbers and lists as a reader meets them in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from windtunnel.study.quantity import number

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: Any, digits: int = 3) -> str:
    """Three significant digits, no more zeros than needed; ∞ and – for what is no number.

    >>> short(0.41371), short(7.5e-05), short(None), short("inf"), short(2), short(123_456)
    ('0.414', '7.5 × 10⁻⁵', '–', '∞', '2', '1.23 × 10⁵')
    """
    found = number(value)
    if math.isnan(found):
        return "–"
    if math.isinf(found):
        return "∞" if found > 0 else "−∞"
    figures, _, power = f"{found:.{digits}g}".replace("-", "−").replace("e−", "e-").partition("e")
    return f"{figures} × {power_of_ten(int(power))}" if power else figures


def power_of_ten(exponent: int) -> str:
    """As it stands on an axis.

    >>> power_of_ten(-5)
    '10⁻⁵'
    """
    return "10" + str(exponent).translate(_RAISED)


def share(value: Any, decimals: int = 3) -> str:
    """A share of 1, to three decimals: rounding errors about 0 and 1 are no news.

    >>> share(-2.2e-16), share(0.99997), share(-0.4314, 2), share(None)
    ('0.000', '1.000', '−0.43', '–')
    """
    found = number(value)
    told = f"{round(found, decimals) + 0.0:.{decimals}f}"  # + 0.0: no negative zero
    return told.replace("-", "−") if math.isfinite(found) else short(value)


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


def enumerated(parts: Iterable[str]) -> str:
    """A list with its "and".

    >>> enumerated(["a"]), enumerated("ab"), enumerated("abc")
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def listed(parts: Iterable[str], most: int = 8) -> str:
    """Parts in one sentence; of many, the first few and how many more there are."""
    parts = list(parts)
    rest = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {rest} more" if rest > 0 else "")
