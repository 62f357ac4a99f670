"""Recovers a seed whose list of checkpoints is lost while the checkpoints are still there.

The list is on disk before the first file that it names, so no kill leaves weights without it: somebody removed it, or a
copy left it out.  To train on would begin at step 0 and write over all that is there, so it is refused.  With `earlier`
(`--earlier`) the list is made again from the files that can be read.  Whether they are still as they were written can
no longer be checked, as their checksums were lost with the list; that is why it must be asked for.  Files that say that
they are of another seed or recipe are left out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import InputError
from windtunnel.training.files import stored_metadata, stored_step
from windtunnel.training.recipe import Recipe
from windtunnel.training.schedule import ladder_steps

if TYPE_CHECKING:
    from windtunnel.training.seed_folder import SeedFolder

LIST = "checkpoints.json"
PATTERNS = {"ladder": "step-*.safetensors", "resume": "resume-*.safetensors"}  # the files of each kind that it lists
EARLIER = "`windtunnel train … --earlier` (in Python train(…, earlier=True))"  # whoever reads this may not be training


class Unlisted(InputError):
    """A run holds what no list tells of."""


def lost_list(place: SeedFolder, recipe: Recipe) -> str:
    """What is wrong with a seed that has no list though it was trained; nothing for any other.

    The list is looked for last: a training that began meanwhile has it on disk before the files that are found.
    """
    lost = "" if (place.path / LIST).exists() else _lost(place, recipe)
    return "" if (place.path / LIST).exists() else lost


def _lost(place: SeedFolder, recipe: Recipe) -> str:
    """The same, whether or not there is a list by now.

    Metrics alone may be older than the first list: a kill before the first save leaves no weights and nothing to lose.
    Those of later steps tell that there was more.
    """
    found, strange = _files(place.path), strangers(place.path, recipe)
    if found:
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        held = f"{found[-1].name}{others}{f' ({len(strange)} of another recipe or seed)' if strange else ''}"
    else:
        records = place.metrics()
        if not records or records[-1]["step"] <= _first_save(recipe):
            return ""
        held = f"the metrics of step {records[-1]['step']}"
    states = [path for path in found if path.match(PATTERNS["resume"]) and _is_whole(path) and path not in strange]
    if states:
        way_out = f"resumes from {states[-1].name} as it is, without any checksum to verify it"
    else:
        way_out = "starts over, as there is no state to resume from: all weights and metrics here would be overwritten"
    lost = f"no {LIST}, which lists what is saved, with checksums"
    return f"{place.path}: holds {held} but {lost}: restore that file, or {EARLIER} {way_out}"


def identity(folder: Path, recipe: Recipe) -> dict[str, str]:
    """Whose a file in a seed's folder is, as its metadata tell."""
    return {"seed": folder.name.removeprefix("seed-"), "recipe": recipe.digest()}


def strangers(folder: Path, recipe: Recipe) -> dict[Path, str]:
    """Files that say that they are of another seed or recipe, and by which name each may be put aside.  Those that an
    earlier version saved do not say."""
    own, found = identity(folder, recipe), {}
    for path in _files(folder):
        told = own | {key: str(value) for key, value in stored_metadata(path).items() if key in own}
        if told != own:
            found[path] = f"{path.name}.other-{hashlib.sha256(str(told).encode()).hexdigest()[:8]}"
    return found


def listing(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The list made from the files themselves, with their checksums as they are now; one that is no whole safetensors
    file of the step in its name is left out."""
    return {
        kind: [_entry(path) for path in sorted(folder.glob(pattern)) if _is_whole(path)]
        for kind, pattern in PATTERNS.items()
    }


def _files(folder: Path) -> list[Path]:
    return [path for pattern in PATTERNS.values() for path in sorted(folder.glob(pattern))]


def _is_whole(path: Path) -> bool:
    step = stored_step(path)
    return step is not None and path.stem.rpartition("-")[2] == f"{step:08d}"


def _entry(path: Path) -> dict[str, Any]:
    return {"step": stored_step(path), "file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _first_save(recipe: Recipe) -> int:
    """The first step at which a training that nobody stops saves anything."""
    return min(recipe.checkpoint_every, *ladder_steps(recipe.steps, recipe.ladder))
