"""`windtunnel claims STUDY`: the ledger of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from windtunnel.cli import show
from windtunnel.cli.flags import Switch, shown
from windtunnel.cli.ledger import print_claim, print_ledger, print_scorecard
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.place import require_study
from windtunnel.errors import InputError, require_choice
from windtunnel.study.results import StudyFolder

_FIELDS = ("id", "claim", "published", "measured", "cells", "value", "verdict", "outcome", "reasons")


@dataclass(frozen=True)
class Claims:
    """Every claim of a study with its verdict, and the table of primitives."""

    only: Annotated[str | None, shown("CLAIM")] = None
    """One claim in full, with the reasons for its verdict."""
    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Read, print."""
    folder, options = parse_folder(Claims, "claims", words, "STUDY")
    require_study(folder, "claims")
    study = StudyFolder(folder)
    entries = _entries(study)
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


def _entries(study: StudyFolder) -> list[dict[str, Any]]:
    """The ledger; one that is not there yet, or is damaged, is told in one line."""
    file, preset = study.path / "claims.json", study.head().get("preset")
    if not file.exists():
        again = f"windtunnel reproduce --preset {preset} --out {study.path}"
        raise InputError(f"{study.path}: the study has no verdicts yet; `{again}` goes on")
    try:
        entries = study.ledger()
        if all(entry.keys() >= {*_FIELDS} for entry in entries):
            return entries
    except (LookupError, AttributeError, TypeError):  # what is there is no list of records
        pass
    raise InputError(f"{file}: must list claims with {', '.join(_FIELDS)}, but is damaged")
