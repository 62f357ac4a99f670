"""Histories as JSON lines: appended to, forced to disk, and read back although a kill cut the last line short."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError
from windtunnel.training.files import unwritable

Needed = Mapping[str, Callable[[Any], bool]]


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON line and force it to disk.  After a line that a kill cut short it starts a new one."""
    line = json.dumps(record) + "\n"
    try:
        with open(path, "ab+") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unwritable(path, len(line), error) from None


def read_lines(path: Path, needed: Needed | None = None, *, cut_anywhere: bool = False) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; the last line is left out where a kill cut it short, before its end of line.

    needed        fields that every record must have, and whether a value can be one of that field
    cut_anywhere  the file is appended to after a kill: leave out every line that is no such record, wherever it is.
                  Otherwise such a line is damage, and told
    """
    if not path.exists():
        return []
    needed = needed or {}
    lines = path.read_bytes().split(b"\n")  # after the last end of line there is nothing, or what a kill left
    records = []
    for at, line in enumerate(lines, 1):
        if not line.strip():  # as an editor may leave it
            continue
        record = _record(line, needed)
        if record is not None:
            records.append(record)
        elif at < len(lines) and not cut_anywhere:
            fields = f" with {', '.join(needed)}" if needed else ""
            must = f"must be a JSON record{fields}, but is damaged"
            raise InputError(f"{path}: line {at} {must}; remove the line to continue without it")
    return records


def _record(line: bytes, needed: Needed) -> dict[str, Any] | None:
    """The record in a line; None where there is none with these fields."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(record, dict) and all(name in record and fits(record[name]) for name, fits in needed.items())
    return record if whole else None
