"""A seed whose list of checkpoints is lost, while what it listed is still there.

The list is on disk before the first file that it names, so no kill leaves weights without it: somebody removed it, or a
copy left it out.  To train on would begin at step 0 and write over all that is there, so it is refused.  With `earlier`
(`--earlier`) the list is made again from the files that can be read.  What they were when they were written nobody can
check any more, as their checksums went with the list; that is why it must be asked for.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.training.files import stored_step
from windtunnel.training.recipe import Recipe
from windtunnel.training.schedule import ladder_steps

if TYPE_CHECKING:
    from windtunnel.training.folder import SeedFolder

LIST = "checkpoints.json"
PATTERNS = {"ladder": "step-*.safetensors", "resume": "resume-*.safetensors"}  # the files of each kind that it lists


def lost_list(place: SeedFolder, recipe: Recipe) -> str:
    """What is wrong with a seed that has no list though it was trained; nothing for any other.

    Metrics alone may be older than the first list: a kill before the first save leaves no weights and nothing to lose.
    Those of later steps tell that there was more.
    """
    if (place.path / LIST).exists():
        return ""
    found = [path for pattern in PATTERNS.values() for path in sorted(place.path.glob(pattern))]
    if found:
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        held = f"{found[-1].name}{others}"
    else:
        records = place.metrics()
        if not records or records[-1]["step"] <= _first_save(recipe):
            return ""
        held = f"the metrics of step {records[-1]['step']}"
    states = listing(place.path)["resume"]
    if states:
        way_out = f"go on from {states[-1]['file']} as it is, which nothing can check any more"
    else:
        way_out = "start over"
    lost = f"no {LIST}, which tells what is saved and by which checksum"
    return f"{place.path}: holds {held} but {lost}: put that file back, or add --earlier to {way_out}"


def listing(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The list made from the files themselves, with their checksums as they are now; one that is no whole safetensors
    file of the step in its name is left out."""
    return {
        kind: [entry for path in sorted(folder.glob(PATTERNS[kind])) if (entry := _entry(path))] for kind in PATTERNS
    }


def _entry(path: Path) -> dict[str, Any] | None:
    step = stored_step(path)
    if step is None or path.stem.rpartition("-")[2] != f"{step:08d}":
        return None
    return {"step": step, "file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _first_save(recipe: Recipe) -> int:
    """The first step at which a training that nobody stops saves anything."""
    return min(recipe.checkpoint_every, *ladder_steps(recipe.steps, recipe.ladder))
