"""How a study writes: the format version of its folder, digits and lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FORMAT = 1
DIGITS = 5  # significant ones of what is derived: more than any of these numbers is known to


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Plain data with its floats to so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: rounded(part, digits) for key, part in value.items()}
    return [rounded(part, digits) for part in value] if isinstance(value, list | tuple) else value


def in_lines(record: Mapping[str, Any]) -> str:
    """JSON with a line for each entry of each part: small, and a change of one reading is a change of one line."""

    def part(value: Any) -> str:
        if isinstance(value, Mapping) and value:
            return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(v)}" for key, v in value.items()) + "\n }"
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in value) + "\n ]"
        return json.dumps(value)

    return "{\n" + ",\n".join(f" {json.dumps(key)}: {part(value)}" for key, value in record.items()) + "\n}\n"
