"""Numbers in JSON, which has no word for NaN and infinity: NaN is kept as null, infinity as the string "inf"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def to_json(value: float) -> float | str | None:
    """What JSON can hold: NaN becomes None, infinity the string "inf"."""
    return None if math.isnan(value) else float(value) if math.isfinite(value) else str(float(value))


def from_json(kept: float | str | None) -> float:
    """The number that `to_json` kept."""
    return math.nan if kept is None else float(kept)


def record_to_json(record: Mapping[str, Any]) -> dict[str, Any]:
    """A flat record as JSON can hold it."""
    return {name: to_json(value) if isinstance(value, float) else value for name, value in record.items()}


def is_json_number(value: object) -> bool:
    """Is it a number as JSON gives it, be it infinite?  True is none."""
    return type(value) in (int, float)
