"""What every benchmark shares: results are written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path


def save(path: str | None, result: dict) -> None:
    """Write a JSON result atomically; nothing if no path was asked for."""
    if path is None:
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=2) + "\n")
    os.replace(temporary, target)
