"""An exhibit: all that the page shows of one subject beyond its scores, as plain data in one file.

    DIR/exhibits/NAME.json      curves, training history, pictures, episodes

Networks are needed to make an exhibit, but not to show it: a results folder whose runs were left behind on another
machine still gives the whole page.  `python -m windtunnel.report DIR` makes them where only torch is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windtunnel import __version__, models, tunnels
from windtunnel.errors import InputError
from windtunnel.report.curves import curves, history
from windtunnel.report.episodes import stepped
from windtunnel.report.pictures import pictures
from windtunnel.report.subjects import Subject
from windtunnel.training.files import read_json, write_bytes

FORMAT = 1
FOLDER = "exhibits"


def exhibit(subject: Subject, device: str = "cpu") -> dict[str, Any]:
    """Look into a subject's networks; minutes for large ones on a CPU."""
    return {
        "format": FORMAT,
        "windtunnel": __version__,
        "name": subject.name,
        "origin": subject.origin(),
        "model": subject.recipe.model,
        "tunnel": tunnels.to_dict(subject.tunnel),
        "parameters": models.describe(subject.networks[0]).params,
        "seeds": list(subject.seeds),
        "curves": curves(subject, device),
        "history": history(subject),
        "pictures": pictures(subject),
        "episodes": stepped(subject.networks[0], subject.tunnel),
    }


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """The exhibits of a results folder: name -> record.  One of another version is an error in one line."""
    found = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        record = read_json(path)
        form = record.get("format") if isinstance(record, dict) else None
        if form != FORMAT:
            raise InputError(f"{path}: format = {form!r}: must be format {FORMAT}; remove it to have it made anew")
        found[path.stem] = record
    return found


def _good(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Is an exhibit what its subject would give?  One of a whole run is never replaced by one network of the zoo."""
    return there == here or (there["source"], here["source"]) == ("run", "zoo")


def gather(
    folder: Path,
    subjects: dict[str, Subject],
    device: str = "cpu",
    say: Callable[[str], None] = lambda line: None,
    must_keep: bool = False,
) -> tuple[dict[str, dict[str, Any]], dict[str, InputError]]:
    """All exhibits, and the subjects that cannot be shown: name -> why.

    Exhibits that are there and not stale are taken as they are; new ones are kept for the next time.  Where the folder
    cannot be written to, that is said and they are shown all the same, unless they `must_keep`.
    """
    tell = None if must_keep else say
    found, refused = stored(folder), dict[str, InputError]()
    for name, subject in subjects.items():
        if name in found and _good(found[name]["origin"], subject.origin()):
            lost = "missing" in (found[name]["history"] or {})
            if lost and subject.run is not None:  # it may have been mended since
                mended = json.loads(json.dumps(history(subject)))
                if mended != found[name]["history"]:
                    found[name]["history"] = mended
                    keep(folder, name, found[name], tell)
            continue
        say(f"{name}: looking into {len(subject.seeds)} network{'s' * (len(subject.seeds) != 1)}")
        try:
            found[name] = json.loads(json.dumps(exhibit(subject, device)))  # as it will be read back
        except InputError as error:  # one network that does not load, or does not fit its tunnel, costs only itself
            found.pop(name, None)
            refused[name] = error
            continue
        keep(folder, name, found[name], tell)
    return found, refused


def tell_left_out(refused: Mapping[str, InputError], say: Callable[[str], None]) -> None:
    """A line for each subject that cannot be shown."""
    for name, why in refused.items():
        say(f"{name}: left out: {why}")


def keep(folder: Path, name: str, record: dict[str, Any], tell: Callable[[str], None] | None = None) -> None:
    """Write an exhibit into its folder.  Where that fails `tell` is told; without it, it is an error."""
    try:
        write_bytes(folder / FOLDER / f"{name}.json", json.dumps(record).encode())
    except InputError as error:
        if tell is None:
            raise
        tell(f"{name}: not kept for the next time: {error}")
