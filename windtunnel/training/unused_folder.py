"""A folder in which a training was begun and no step was taken: another recipe may have it.

A start fails for want of memory, or somebody sees at once that an option was wrong.  All that there is then (a recipe,
the score of step 0, at most a state of step 0) any training writes again in a moment.
"""

from __future__ import annotations

import contextlib

from windtunnel.errors import InputError
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import PATTERNS
from windtunnel.training.seed_folder import TRAINED, SeedFolder

_FIRST = f"resume-{0:08d}.safetensors"  # where a training was stopped before its first step
_FOUND = ("survey.json", "exhibits")  # made from trained weights, and left behind where these were moved away


def untrained(folder: RunFolder) -> bool:
    """Has no step been trained here, by any seed, as far as anything in the folder tells: files, lists and metrics of
    the seeds, timings, what was found in the weights?"""
    if any((folder.path / name).exists() for name in _FOUND) or any(line.get("to") != 0 for line in folder.timings()):
        return False
    places = _places(folder)
    weights = [path for place in places for pattern in PATTERNS.values() for path in place.path.glob(pattern)]
    return all(path.name == _FIRST for path in weights) and not any(place.begun() for place in places)


def clear(folder: RunFolder) -> None:
    """Forget such a run, all but its recipe, which `RunFolder.create` replaces as a whole.

    Lists are emptied first and removed last: a kill in between leaves a folder that can go on, or be cleared again.
    """
    if not untrained(folder):
        raise InputError(f"{folder.path}: must hold no trained step to be started over")
    for place in _places(folder):
        place.forget_after(-1)
        for name in reversed(TRAINED):
            for path in place.path.glob(name):
                path.unlink()
        with contextlib.suppress(OSError):  # somebody keeps something else in it
            place.path.rmdir()
    for name in ("timings.jsonl", "environment.json"):
        (folder.path / name).unlink(missing_ok=True)


def _places(folder: RunFolder) -> list[SeedFolder]:
    """Of all seeds that were begun, whatever the recipe says."""
    return [SeedFolder(path) for path in sorted(folder.path.glob("seed-*")) if path.is_dir()]
