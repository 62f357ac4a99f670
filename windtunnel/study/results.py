"""One results folder, which everything else reads.

    study.json         format version, preset, environment of every sitting, seconds in all
    cells/NAME.json    one finished cell: recipe, seeds, parameters, seconds, scores per condition, survey
    cells/NAME.part    a cell that is not finished yet: what a kill would otherwise lose
    sweeps/NAME.json   the learning rates tried for a cell, and what each reached on the validation stream
    runs/NAME/         the run folder of a cell: weights of every seed that did not diverge
    table.csv          every score of every seed, one row each
    claims.json        every claim with its verdict

Each file is written whole or not at all, so a study may be killed at any moment; a finished cell is never made again.
Everything kept says what it was made with ("planned"); a plan that means something else is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import windtunnel
from windtunnel import __version__
from windtunnel.errors import InputError
from windtunnel.study.claim import Claim, judge
from windtunnel.study.evidence import Evidence
from windtunnel.study.verdict import Verdict
from windtunnel.training.files import read_json, read_versioned, write_bytes, write_json

FORMAT = 1
COLUMNS = ("cell", "world", "model", "parameters", "condition", "metric", "seed", "value")


class StudyFolder:
    """The folder of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        """Does it hold a study?"""
        return (self.path / "study.json").exists()

    def begin(self, preset: str) -> None:
        """Start a study here, or go on with the one that is here."""
        if self.exists():
            found = self.head()["preset"]
            if found != preset:
                raise InputError(
                    f"{self.path}: holds a study of preset {found!r}: must be {preset!r}, or another folder"
                )
            return
        self._write_head({"format": FORMAT, "windtunnel": __version__, "preset": preset, "environments": []})

    def head(self) -> dict[str, Any]:
        """The contents of study.json; a folder of another version is refused."""
        if not self.exists():
            raise InputError(f"{self.path}: must be a folder with a study in it (it has no study.json)")
        return read_versioned(self.path / "study.json", FORMAT)

    def add(self, **fields: Any) -> None:
        """Remember something about the study as a whole; an environment is kept once."""
        head = self.head()
        environment = fields.pop("environment", None)
        if environment is not None and environment not in head["environments"]:
            head["environments"].append(environment)
        self._write_head(head | fields)

    def _write_head(self, head: dict[str, Any]) -> None:
        write_json(self.path / "study.json", head)

    # --- cells
    def _cell(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.json"

    def _part(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.part"

    def finished(self, name: str) -> bool:
        """Is this cell done?"""
        return self._cell(name).exists()

    def cell(self, name: str) -> dict[str, Any]:
        """The record of a finished cell."""
        record = read_json(self._cell(name))
        if not isinstance(record, dict) or record.get("name") != name:
            raise InputError(f"{self._cell(name)}: must be the record of the cell {name}")
        return record

    def cells(self) -> dict[str, dict[str, Any]]:
        """Every finished cell: name -> record."""
        self.head()
        return {path.stem: self.cell(path.stem) for path in sorted((self.path / "cells").glob("*.json"))}

    def draft(self, name: str) -> dict[str, Any]:
        """What an unfinished cell has so far."""
        return read_json(self._part(name)) if self._part(name).exists() else {}

    def write_draft(self, name: str, record: Mapping[str, Any]) -> None:
        write_json(self._part(name), record)

    def write_cell(self, name: str, record: Mapping[str, Any]) -> None:
        """Finish a cell."""
        write_json(self._cell(name), {**record, "name": name})
        self._part(name).unlink(missing_ok=True)

    def sweep(self, name: str) -> dict[str, Any]:
        """The rates tried so far for a cell: {"planned": what was tried, "kl_bits": {exponent: KL}}; or empty."""
        path = self.path / "sweeps" / f"{name}.json"
        return read_json(path) if path.exists() else {}

    def write_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        write_json(self.path / "sweeps" / f"{name}.json", record)

    def require_same(self, kind: str, name: str, record: Mapping[str, Any], planned: Mapping[str, Any]) -> None:
        """What is kept here must be what the plan means: one line that names the first difference."""
        there = record.get("planned", {})
        for part, value in planned.items():
            if there.get(part) != value:
                raise InputError(
                    f"{self.path}/{kind}/{name}: was made with another {part}: "
                    "must be removed to make it anew, or give another folder"
                )

    # --- what is made of them
    def evidence(self) -> Evidence:
        """All finished cells, for the claims."""
        return Evidence(self.cells())

    def write_summaries(self, claims: list[Claim]) -> dict[str, Verdict]:
        """table.csv and claims.json anew from the cells; returns the verdicts."""
        evidence = self.evidence()
        write_bytes(self.path / "table.csv", table(evidence.cells))
        verdicts = judge(claims, evidence)
        told = [ledger_entry(claim, verdicts[claim.id]) for claim in claims]
        write_json(self.path / "claims.json", {"format": FORMAT, "claims": told})
        return verdicts

    def ledger(self) -> list[dict[str, Any]]:
        """The entries of claims.json."""
        self.head()
        record = read_json(self.path / "claims.json")
        found = record.get("format") if isinstance(record, dict) else None
        if found != FORMAT:
            raise InputError(f"{self.path / 'claims.json'}: format = {found!r}: must be format {FORMAT}")
        return record["claims"]


def committed() -> StudyFolder | None:
    """The full-size study that comes with the sources: `results/paper` here, or beside the package; None elsewhere."""
    places = (Path.cwd(), Path(windtunnel.__file__).resolve().parent.parent)
    found = [StudyFolder(place / "results" / "paper") for place in places]
    return next((study for study in found if study.exists() and (study.path / "claims.json").exists()), None)


def ledger_entry(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    """A claim and its verdict as plain data."""
    told = {"id": claim.id, "claim": claim.words, "verdict": verdict.words}
    names = ("source", "published", "measured")
    return told | {name: getattr(claim, name) for name in names} | {"cells": list(claim.cells)} | verdict.to_dict()


def table(cells: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Every number of every seed as CSV, one row each."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, cell in cells.items():
        shared = (name, cell["world"], cell.get("model", ""), cell.get("parameters", ""))
        writer.writerows((*shared, *row) for row in _rows(cell))
    return text.getvalue().encode()


def _rows(cell: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """(condition, metric, seed, value): networks by seed; baselines by name, in the place of the seed."""
    seeds = cell.get("seeds", [])
    for condition, scored in cell["conditions"].items():
        for metric, estimate in scored.get("metrics", {}).items():
            for seed, value in zip(seeds, estimate["per_seed"], strict=True):
                yield condition, metric, seed, value
        for baseline, metrics in scored.get("baselines", {}).items():
            for metric, value in metrics.items():
                yield condition, metric, baseline, value
    if share := cell.get("primitive"):
        for seed, value in zip(seeds, share["per_seed"], strict=True):
            yield "home", f"share of {share['primitive']}", seed, value
    for row, share in cell.get("rows", {}).items():
        yield "home", f"share of {share['primitive']}", row, share["per_seed"][0]
