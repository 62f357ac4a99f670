"""The run folders below a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from windtunnel.training.seed_folder import TRAINED


def run_folders(folder: Path) -> Iterator[Path]:
    """Every run folder at or below a folder, in the order of their names; also one that has lost its recipe.

    What lies in a hidden folder is nobody's run: a study that throws one away moves it into such a folder first.
    """
    without = {file.parents[1] / "recipe.json" for name in TRAINED for file in folder.rglob(f"seed-*/{name}")}
    for file in sorted({*folder.rglob("recipe.json"), *without}):
        if not any(part.startswith(".") for part in file.parent.relative_to(folder).parts):
            yield file.parent
