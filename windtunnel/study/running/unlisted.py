"""A run of a study that has lost a list of checkpoints: it is put aside, and trained anew.

To go on from states that nothing vouches for would put the claims on them (`training.lost_list`).  Nothing is deleted:
whoever has the list may put it back, and the folder too.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_list import Unlisted


def put_aside(run: Path) -> str:
    """Move such a run into a hidden folder beside it, where nobody looks for runs; returns a line that tells so, and
    nothing for any other run."""
    folder = RunFolder(run)
    try:
        if folder.exists():
            folder.recipe()
    except Unlisted:
        aside = unused(run.with_name(f".{run.name}.unlisted"))
        run.rename(aside)
        return f"{run.name}: a list of its checkpoints is lost; the run is kept as {aside}, and trained anew"
    return ""


def unused(place: Path) -> Path:
    """This place, or with -2, -3, … behind its name: the first at which there is nothing."""
    places = (place.with_name(f"{place.name}{'' if n == 1 else f'-{n}'}") for n in count(1))
    return next(place for place in places if not place.exists())
