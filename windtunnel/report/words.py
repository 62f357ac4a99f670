"""Numbers and lists as a reader meets them in a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from windtunnel.fidelity import printing
from windtunnel.json_numbers import from_json

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: Any, digits: int = 3) -> str:
    """Three significant digits, no more zeros than needed; ∞ and – for what is no number.

    >>> short(0.41371), short(7.5e-05), short(None), short("inf"), short(2), short(123_456)
    ('0.414', '7.5 × 10⁻⁵', '–', '∞', '2', '1.23 × 10⁵')
    """
    found = from_json(value)
    if math.isnan(found):
        return "–"
    if math.isinf(found):
        return "∞" if found > 0 else "−∞"
    return _told(f"{found:.{digits}g}")


def _told(text: str) -> str:
    """A number as Python writes it, with a real minus and a power of ten as on paper."""
    figures, _, power = text.partition("e")
    figures = figures.replace("-", "−")
    return f"{figures} × {power_of_ten(int(power))}" if power else figures


def alike(*values: Any, digits: int = 3) -> list[str]:
    """Numbers that stand together, as `short` but all in one format: the first decides whether powers are used.

    Where it needs none, the others have none either, unless one of them is too small to be written out.

    >>> alike(8.75e-5, 7.23e-5, 0.000104)
    ['8.75 × 10⁻⁵', '7.23 × 10⁻⁵', '1.04 × 10⁻⁴']
    >>> alike(0.00012, 8.7e-5, 0.00015), alike(0.5, 1e-9, "inf"), alike(-0.12, 0, None)
    (['0.00012', '0.000087', '0.00015'], ['5 × 10⁻¹', '1 × 10⁻⁹', '∞'], ['−0.12', '0', '–'])
    """
    found = [from_json(value) for value in values]
    told = printing.alike(*found, digits=digits)
    return [_told(text) if math.isfinite(value) else short(value) for value, text in zip(found, told, strict=True)]


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
    found = from_json(value)
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
    mean, low, high = alike(record["mean"], *ends)
    return f"{mean} [{low}, {high}]"


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


def shareable(text: str, folder: Path) -> str:
    """The text with only the last part of each absolute path: a page is made to be sent on, and tells no home folder.

    What lies in the folder that the page is of keeps its place there, so that commands agree with each other.

    >>> shareable("report /home/me/sc --runs=/home/me/a '/home/my own/b' ../c results/paper", Path("results"))
    "report sc --runs=a 'b' ../c results/paper"
    >>> shareable("inspect /home/me/sc/runs/mine && report /home/me/sc", Path("/home/me/sc"))
    'inspect sc/runs/mine && report sc'
    >>> shareable("--plugin=/home/me/a.py,/home/me/b.py in [/home/me/x] <code>/home/me/x</code>", Path("results"))
    '--plugin=a.py,b.py in [x] <code>x</code>'
    """
    if folder.is_absolute():
        text = text.replace(f"{folder.parent}/", "")
    return re.sub(r"""(?<=')/[^']*/(?=[^'/])|(?<![^\s=(:,>\[`"])/(?:[^\s/'`":,<]+/)+(?=[^\s/'`":,<\])])""", "", text)
