"""Throwing a folder away so that a kill on the way leaves nothing of it in its place."""

from __future__ import annotations

import shutil
from pathlib import Path


def discard(folder: Path) -> None:
    """Delete a run's folder, in one step for whoever looks: what is half gone could not go on."""
    delete_discarded(folder.parent)  # nothing may lie where it is moved to
    if folder.exists():
        folder.rename(folder.with_name(f".{folder.name}.discarded"))
        delete_discarded(folder.parent)


def delete_discarded(runs: Path) -> None:
    """Delete what is thrown away: by a sitting that was killed before it came to that, or by another lane, which will
    find nothing left to delete."""
    for aside in runs.glob(".*.discarded"):
        shutil.rmtree(aside, ignore_errors=True)
