"""One results folder, which everything else reads.

    study.json         format version, preset, environment of every sitting, how long each was, seconds in all
    cells/NAME.json    one finished cell: recipe, seeds, parameters, seconds, scores per condition, survey
    cells/NAME.part    a cell that is not finished yet: what a kill would otherwise lose
    sweeps/NAME.json   the learning rates tried for a cell, and what each reached on the validation stream
    runs/NAME/         the run folder of a cell: weights of every seed that did not diverge
    table.csv          every score of every seed, one row each
    claims.json        every claim with its verdict
    to-forget.json     cells that are being thrown away, should a kill come in between

Each file is written whole or not at all, so a study may be killed at any moment; a finished cell is never made again.
Everything kept says what it was made with ("planned"); a plan that means something else is refused.

All but the weights is small and stands alone: `take` copies it from one folder into another, so that a study may go on
on a machine that has never seen the networks of its finished cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

import windtunnel
from windtunnel import __version__
from windtunnel.errors import InputError
from windtunnel.study.claim import Claim, judge
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.discard import discard
from windtunnel.study.folder.fields import HEAD, LEDGER, SUMMED, require_cell
from windtunnel.study.folder.files import FORMAT, in_lines
from windtunnel.study.folder.kinds import require_shape
from windtunnel.study.folder.ledger import summaries
from windtunnel.study.verdict import Verdict
from windtunnel.training.files import read_json, read_versioned, write_bytes, write_json
from windtunnel.training.folder import STUDY, RunFolder
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipe_differences import differences


class StudyFolder:
    """The folder of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        """Does it hold a study?"""
        return (self.path / STUDY).exists()

    def begin(self, preset: str) -> None:
        """Start a study here, or go on with the one that is here."""
        self.require_no_run()
        if self.exists():
            found = self.head()["preset"]
            if found != preset:
                raise InputError(
                    f"{self.path}: holds a study of preset {found!r}: must be {preset!r}, or another folder"
                )
            return
        self._write_head({"format": FORMAT, "windtunnel": __version__, "preset": preset, "environments": []})

    def require_no_run(self) -> None:
        """Raise where a run is kept and no study: their files must not be mixed."""
        if RunFolder(self.path).exists() and not self.exists():
            raise InputError(f"{self.path}: holds a run, not a study: must be another folder")

    def head(self) -> dict[str, Any]:
        """The contents of study.json; a folder of another version is refused."""
        if not self.exists():
            raise InputError(f"{self.path}: must be a folder with a study in it (it has no study.json)")
        head = read_versioned(self.path / STUDY, FORMAT)
        require_shape(self.path / STUDY, head, HEAD)
        return head

    def add_environment(self, environment: Mapping[str, Any]) -> None:
        """Remember where a sitting took place, once."""
        head = self.head()
        if environment not in head["environments"]:
            head["environments"].append(environment)
            self._write_head(head)

    def add_sitting(self, sitting: Mapping[str, Any]) -> None:
        """Remember how long a sitting has lasted so far: {began, seconds, lanes, device}."""
        head = self.head()
        others = [one for one in head.get("sittings", []) if one["began"] != sitting["began"]]
        self._write_head(head | {"sittings": [*others, dict(sitting)]})

    def _write_head(self, head: dict[str, Any]) -> None:
        write_json(self.path / "study.json", head)

    # --- cells
    def _cell(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.json"

    def _part(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.part"

    def run(self, name: str) -> Path:
        """Where the networks of a cell are, if they are here."""
        return self.path / "runs" / name

    def finished(self, name: str) -> bool:
        """Is this cell done?"""
        return self._cell(name).exists()

    def cell(self, name: str) -> dict[str, Any]:
        """The record of a finished cell."""
        record = read_json(self._cell(name))
        if not isinstance(record, dict) or record.get("name") != name:
            raise InputError(f"{self._cell(name)}: must be the record of the cell {name}")
        require_cell(self._cell(name), record)
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
        """Finish a cell, or replace its record."""
        write_bytes(self._cell(name), in_lines({**record, "name": name}).encode())
        self._part(name).unlink(missing_ok=True)

    def holds(self, name: str) -> bool:
        """Is there anything of this cell: its record, a part of it, or its networks?"""
        return self.finished(name) or self._part(name).exists() or self.run(name).exists()

    def mark_to_forget(self, names: Iterable[str]) -> None:
        """From here on these cells count as thrown away: of all of them, even if a kill comes before the end of
        `finish_forgetting`, which does it."""
        write_json(self._to_forget, sorted(names))

    def finish_forgetting(self) -> None:
        """Throw away what is marked, if anything is.  Of a cell its networks go first: what is left of it then has none
        that could be trained further."""
        if not self._to_forget.exists():
            return
        names = read_json(self._to_forget)
        if not isinstance(names, list) or not all(map(_names_a_file, names)):
            raise InputError(f"{self._to_forget}: must be a list of names of cells")
        for name in names:
            discard(self.run(name))
            self._part(name).unlink(missing_ok=True)
            self._cell(name).unlink(missing_ok=True)
        self._to_forget.unlink()

    @property
    def _to_forget(self) -> Path:
        return self.path / "to-forget.json"

    def sweep(self, name: str) -> dict[str, Any]:
        """The rates tried so far for a cell: {"planned": what was tried, "kl_bits": {exponent: KL}, "seconds", and
        "broke": {exponent: final seeds that diverged}}; or empty."""
        path = self.path / "sweeps" / f"{name}.json"
        return read_json(path) if path.exists() else {}

    def write_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        write_json(self.path / "sweeps" / f"{name}.json", record)

    def require_same(
        self,
        kind: str,
        name: str,
        record: Mapping[str, Any],
        planned: Mapping[str, Any],
        way_out: str = "must be removed to be rerun, or give another folder",
    ) -> None:
        """What is kept here must be what the plan means: one line that names the first difference."""
        there = record.get("planned", {})
        for part, value in planned.items():
            if there.get(part) != value:
                told = _recipes_apart(there.get(part), value) if part == "recipe" else ""
                made = f"was made with {told or f'another {part}'}"
                raise InputError(f"{self.path}/{kind}/{name}: {made}: {way_out}")

    # --- from another folder
    def take(self, other: StudyFolder) -> list[str]:
        """Finished cells and sweeps of another folder of the same study that are not here, or go further; their names.

        Two folders that have trained the same cell are refused: which of two results counts is not for us to choose.
        """
        head = other.head()
        self.begin(head["preset"])
        for environment in head["environments"]:
            self.add_environment(environment)
        ours = {one["began"]: one["seconds"] for one in self.head().get("sittings", [])}
        for sitting in head.get("sittings", []):
            if sitting["seconds"] > ours.get(sitting["began"], 0.0):
                self.add_sitting(sitting)
        taken = []
        for name, theirs in other.cells().items():
            ours = self.cell(name) if self.finished(name) else None
            if ours is not None and not self._goes_further(other, name, ours, theirs):
                continue
            self.write_cell(name, theirs)
            taken.append(name)
        for path in sorted((other.path / "sweeps").glob("*.json")):
            ours, theirs = self.sweep(path.stem), other.sweep(path.stem)
            self.require_same("sweeps", path.name, ours or theirs, theirs["planned"])
            if _tried(theirs) > _tried(ours):
                self.write_sweep(path.stem, theirs)
        return taken

    def _goes_further(self, other: StudyFolder, name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
        """Has the same cell more readings there?"""
        self.require_same("cells", f"{name}.json", ours, theirs["planned"])
        if theirs.get("kind") != "networks":
            return False  # baselines are the same wherever they were scored
        if ours["conditions"] != theirs["conditions"]:
            raise InputError(f"{other.path}/cells/{name}.json: was trained apart from {self._cell(name)}: remove one")
        return len(theirs["surveyed"]) > len(ours["surveyed"])

    # --- what is made of them
    def evidence(self) -> Evidence:
        """All finished cells, for the claims."""
        return Evidence(self.cells())

    def sum_up(self, claims: list[Claim]) -> dict[str, Verdict]:
        """What is finished and what it cost into study.json, and the summaries anew; returns the verdicts.

        Seconds: `total` and `gpu` add up over cells; `held` is how long a GPU was held, less where lanes shared it.
        """
        evidence = self.evidence()
        spent = {k: sum(c["seconds"].get(k, 0.0) for c in evidence.cells.values()) for k in ("total", "gpu")}
        head = self.head()
        spent["held"] = sum(one["seconds"] for one in head.get("sittings", []) if one["device"] != "cpu")
        done = sorted(name for name, cell in evidence.cells.items() if cell.get("kind") == "networks")
        self._write_head(head | {"seconds": spent, "finished": done})
        verdicts = judge(claims, evidence)
        for name, text in summaries(claims, evidence, verdicts).items():
            write_bytes(self.path / name, text.encode())
        return verdicts

    def summary(self) -> str:
        """How much is finished and what it took, on one line."""
        head = self.head()
        spent, told = head["seconds"], f"{len(head['finished'])} cells finished; "
        if spent.get("held"):
            return told + f"a GPU held for {spent['held']:.0f} s, in which cells spent {spent['gpu']:.0f} s"
        return told + f"{spent['gpu']:.0f} GPU seconds in all"

    def ledger(self) -> list[dict[str, Any]]:
        """The entries of claims.json; what was summed up with them must be there as well."""
        require_shape(self.path / "study.json", self.head(), SUMMED)
        content = read_versioned(self.path / "claims.json", FORMAT)
        require_shape(self.path / "claims.json", content, LEDGER)
        return content["claims"]


def _recipes_apart(there: Any, here: Any) -> str:
    """`steps = 12, not 13`; nothing where one of them is no whole recipe, or of a tunnel that is not registered."""
    try:
        return differences(Recipe.from_dict(there), Recipe.from_dict(here))
    except InputError:
        return ""


def _names_a_file(name: object) -> bool:
    """And no other folder, which would be thrown away instead of a cell."""
    return isinstance(name, str) and name not in ("", "..") and PurePath(name).name == name


def _tried(sweep: Mapping[str, Any]) -> tuple[int, int]:
    """How far a sweep has come: rates tried, and rates at which the final seeds broke."""
    return len(sweep.get("kl_bits", ())), len(sweep.get("broke", ()))


def committed() -> StudyFolder | None:
    """The full-size study that comes with the sources: `results/paper` here, or beside the package; None elsewhere."""
    places = (Path(), Path(windtunnel.__file__).resolve().parent.parent)
    found = [StudyFolder(place / "results" / "paper") for place in places]
    return next((study for study in found if study.exists() and (study.path / "claims.json").exists()), None)
