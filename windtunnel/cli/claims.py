"""`windtunnel claims STUDY`: the ledger of a study."""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass
from typing import Annotated, Any

from windtunnel.cli import show
from windtunnel.cli.flags import Switch, shown
from windtunnel.cli.folders import require_study
from windtunnel.cli.ledger import print_claim, print_costs, print_ledger, print_primitives
from windtunnel.cli.parse import parse_folder
from windtunnel.errors import InputError
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.presets import commands
from windtunnel.study.verdict import DECIDED


@dataclass(frozen=True)
class Claims:
    """The claims of a study with their verdicts, and the table of primitives.

    Claims that the study tests are listed; the others are counted by the reason why they were not tested.
    """

    only: Annotated[str | None, shown("CLAIM,CLAIM")] = None
    """These claims in full, with the reasons for their verdicts."""
    all: Switch = False
    """List every claim, including untested ones, and the cost of each cell."""
    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Read, print."""
    folder, options = parse_folder(Claims, "claims", words, "STUDY")
    require_study(folder, "claims")
    study = StudyFolder(folder)
    entries = _entries(study)
    if options.only is not None:
        entries = [_chosen(name, entries, study) for name in dict.fromkeys(options.only.split(","))]
    if options.json:
        show.print_json({"study": study.head(), "claims": entries})
    elif options.only is not None:
        for entry in entries:
            print_claim(entry)
    else:
        print_primitives(study.cells())
        print_ledger(entries, options.all)
        if options.all:
            print_costs(study.cells())
            show.print_text(study.summary())
        if not any(entry["outcome"] in DECIDED for entry in entries):
            show.print_text(
                f"Nothing is decided at this size (preset {study.head()['preset']}): the full-size study is"
            )
            show.print_text("windtunnel reproduce --preset paper")


def _entries(study: StudyFolder) -> list[dict[str, Any]]:
    """The ledger; one that is not there yet is told, and how to make it."""
    if not (study.path / "claims.json").exists():
        made = commands(study.head()["preset"], study.path, study.cells())
        again = " && ".join(shlex.join(["windtunnel", *words]) for words in made)
        raise InputError(f"{study.path}: the study has no verdicts yet; `{again}` resumes it")
    return study.ledger()


def _chosen(name: str, entries: list[dict[str, Any]], study: StudyFolder) -> dict[str, Any]:
    """The claim of that id.  There are too many to name them all in a line."""
    known = {entry["id"]: entry for entry in entries}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        every = f"`windtunnel claims {shlex.quote(str(study.path))} --all` lists them"
        raise InputError(f"--only = {name!r}{hint}: must be the id of one of the {len(known)} claims; {every}")
    return known[name]
