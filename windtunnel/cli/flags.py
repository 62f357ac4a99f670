"""Kinds of options that several commands have.  Where nothing given means nothing, the help shows no default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro


def shown(metavar: str | None = None, **more: Any) -> Any:
    """How an option appears in the help: what stands for its value, and no "(default: None)"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", **more)


Switch = Annotated[bool, shown()]
Int = Annotated[int | None, shown("INT")]
Float = Annotated[float | None, shown("FLOAT")]
File = Annotated[Path | None, shown("FILE")]
Folder = Annotated[Path | None, shown("DIR")]
Runs = Annotated[tuple[Path, ...], shown("RUN…")]
Device = Annotated[str | None, shown("{cpu,cuda}")]
