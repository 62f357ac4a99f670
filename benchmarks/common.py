"""What every benchmark shares: results are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from windtunnel.training.files import write_json


def save(path: str | None, result: dict) -> None:
    """Write a JSON result atomically; nothing if no path was asked for."""
    if path is not None:
        write_json(Path(path), result)
