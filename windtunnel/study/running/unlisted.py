"""A run of a study that has lost a list of checkpoints: it is put aside, and retrained.

To go on from states that nothing vouches for would put the claims on them (`training.lost_checkpoints`).  Nothing is
deleted: whoever has the list may put it back, and the folder too.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import Unlisted


def put_aside(run: Path) -> str:
    """Move such a run into a hidden folder beside it, where nobody looks for runs; returns a line that tells so, and
    nothing for any other run."""
    folder = RunFolder(run)
    try:
        if folder.exists():
            folder.recipe()
    except Unlisted:
        names = (f".{run.name}.unlisted{'' if n == 1 else f'-{n}'}" for n in count(1))
        aside = next(place for name in names if not (place := run.with_name(name)).exists())
        run.rename(aside)
        return f"{run.name}: a list of its checkpoints is lost; the run is kept as {aside}, and retrained"
    return ""
