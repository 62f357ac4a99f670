"""`windtunnel claims DIR`: the ledger of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from windtunnel.cli import show
from windtunnel.cli.ledger import print_claim, print_ledger, print_scorecard
from windtunnel.cli.parse import parse_folder
from windtunnel.errors import require_choice
from windtunnel.study.results import StudyFolder


@dataclass(frozen=True)
class Claims:
    """Every claim of a study with its verdict, and the table of primitives."""

    only: Annotated[str | None, tyro.conf.arg(metavar="CLAIM", help_behavior_hint="")] = None
    """One claim in full, with the reasons for its verdict."""
    json: bool = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Read, print."""
    folder, options = parse_folder(Claims, "claims", words, "DIR")
    study = StudyFolder(folder)
    entries = study.ledger()
    if options.only is not None:
        require_choice("--only", options.only, [entry["id"] for entry in entries])
        entries = [entry for entry in entries if entry["id"] == options.only]
    if options.json:
        show.print_json({"study": study.head(), "claims": entries})
    elif options.only is not None:
        print_claim(entries[0])
    else:
        print_scorecard(study.cells())
        print_ledger(entries)
