"""A result while it is measured: FILE.part, which takes no earlier FILE away and is gone when the whole is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel.training.files import write_json


def write_part(file: Path | None, result: dict[str, Any]) -> None:
    """Keep the rows so far; nothing if no file was asked for."""
    if file is not None:
        write_json(part_of(file), result)


def write_whole(file: Path | None, result: dict[str, Any]) -> None:
    """Keep the result, in the place of its part."""
    if file is not None:
        write_json(file, result)
        part_of(file).unlink(missing_ok=True)


def part_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")
