"""What the page is made from: a results folder, and whatever networks are at hand.

Anything may be missing; then the part that needs it says so, and which command makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.errors import InputError, Unregistered
from windtunnel.json_numbers import from_json
from windtunnel.mechanism.survey_file import to_dict
from windtunnel.report import subjects as find
from windtunnel.report.command_line import Asked
from windtunnel.report.curves import references
from windtunnel.report.exhibit import gather, tell_left_out
from windtunnel.report.own_shares import add_shares
from windtunnel.report.palette import KEYS
from windtunnel.report.subjects import Subject
from windtunnel.report.told_apart import told_apart
from windtunnel.study.folder.results import StudyFolder, committed
from windtunnel.study.verdict import UNTESTED

TUNNELS = ("hmm", "bijection", "recall", "urn")
"""In the order in which a reader meets them: the one with the simplex first."""
MODULE = "MODULE"
"""Stands for the plugin that nobody named, in what is to be typed."""


@dataclass(frozen=True)
class Source:
    """All that the page and the figures read.

    path      the results folder
    head      study.json, or None for a folder of runs without a study
    cells     finished cells: name -> record, those of networks and those of references
    ledger    claims with their verdicts
    exhibits  name -> record, see `exhibit`
    readings  name -> records of instruments, from the cell or from the run's own survey
    refused   networks that could not be looked into: name -> why
    judge     the full-size study that the ledger was taken from, where this study judges no claim itself
    asked     the command by which all this was asked for
    surveyed  name -> the settings of the run's own survey
    """

    path: Path
    head: Mapping[str, Any] | None = None
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ledger: Sequence[Mapping[str, Any]] = ()
    exhibits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    readings: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    refused: Mapping[str, InputError] = field(default_factory=dict)
    judge: Path | None = None
    asked: Asked = field(default_factory=Asked)
    surveyed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def networks(self) -> dict[str, Mapping[str, Any]]:
        """Cells of trained networks."""
        return {name: cell for name, cell in self.cells.items() if cell.get("kind") == "networks"}

    def world(self, name: str) -> str:
        """The world of a cell or an exhibit: the study's word for it, else the tunnel's name."""
        if name in self.cells:
            return self.cells[name]["world"]
        tunnel = self.exhibits.get(name, {}).get("tunnel")
        for cell in self.networks.values():
            if cell["recipe"]["tunnel"] == tunnel:
                return cell["world"]
        return "other" if tunnel is None else self._told_apart(tunnel)

    def _told_apart(self, tunnel: Mapping[str, Any]) -> str:
        """A tunnel's name; with its sizes where another of that name is at hand, as their scores do not compare."""
        name = tunnel["name"]
        rivals = [record["tunnel"] for record in self.exhibits.values() if record["tunnel"]["name"] == name]
        rivals += [cell["recipe"]["tunnel"] for cell in self.networks.values() if cell["world"] == name]
        apart = told_apart(tunnel, rivals)
        return f"{name} ({apart})" if apart else name

    def model(self, name: str) -> str:
        """The architecture of a cell or an exhibit."""
        return self._record(name).get("model", "")

    def _record(self, name: str) -> Mapping[str, Any]:
        return self.cells.get(name) or self.exhibits.get(name) or {}

    def short(self, name: str) -> str:
        """The name without its world, as in a legend."""
        return name.removeprefix(f"{self.world(name).partition(' (')[0]}-") or name

    def worlds(self, names: Iterable[str]) -> dict[str, list[str]]:
        """World -> those of the names that belong to it: plain recipes first, in the order of the architectures."""
        found: dict[str, list[str]] = {}
        for name in sorted(names, key=self._place):
            found.setdefault(self.world(name), []).append(name)
        return found

    def ordered(self, names: Iterable[str]) -> list[str]:
        """The names, world by world."""
        return [name for mine in self.worlds(names).values() for name in mine]

    def _place(self, name: str) -> tuple[Any, ...]:
        record, world = self._record(name), self.world(name)
        tunnel = (record.get("tunnel") or record.get("recipe", {}).get("tunnel") or {}).get("name")
        kind = TUNNELS.index(tunnel) if tunnel in TUNNELS else len(TUNNELS)
        return kind, len(world), world, self.variant(name), KEYS.get(self.model(name), len(KEYS)), name

    def run(self, name: str) -> Path | None:
        """The run folder of a network, if it is at hand."""
        places = [self.path / "runs" / name, self.path / name, *([self.path] if self.path.name == name else [])]
        return next((place for place in places if (place / "recipe.json").exists()), None)

    def variant(self, name: str) -> bool:
        """Is it something else than the plain recipe of its architecture?"""
        return self.short(name) != self.model(name)

    def references(self, world: str, condition: str = "home") -> Mapping[str, Mapping[str, Any]]:
        """Baselines of a world as the study scored them: name -> metric -> number; empty where it did not."""
        record = self.cells.get(f"{world}-references", {})
        return record.get("conditions", {}).get(condition, {}).get("baselines", {})

    def scale(self, world: str) -> dict[str, float]:
        """KL of simple predictors at home, in bits: the study's, else those scored beside a network of the world."""
        if known := self.references(world):
            return {base: from_json(known[base]["kl_bits"]) for base in references(known)}
        beside = next((r for name, r in self.exhibits.items() if self.world(name) == world), None)
        found = beside["curves"]["baselines"] if beside else {}
        return {base: float(np.mean(list(map(from_json, kl)))) for base, kl in found.items()}


def read(
    folder: str | Path,
    *,
    runs: Sequence[str | Path] = (),
    with_zoo: bool = True,
    device: str = "cpu",
    say: Callable[[str], None] = lambda line: None,
    asked: Asked | None = None,
) -> Source:
    """Read a results folder (or a folder of runs), and look into the networks that are there.

    runs      more run folders, or folders of them
    with_zoo  look into the shipped networks too; else none is shown, also where an earlier page kept what it saw
    asked     the command by which this was asked for: what a page that lacks something tells to type again
    """
    path, asked = Path(folder), asked or Asked()
    if not path.is_dir():
        raise InputError(f"{path}: must be a folder that exists")
    study = StudyFolder(path)
    here = path / "runs" if study.exists() else path
    places = [place for place in (here, *map(Path, runs)) if place != here or here.is_dir()]
    own, damaged = find.of_runs(places, device)
    if not study.exists() and not own:  # before anything is looked into: that takes minutes
        if damaged:
            raise _none_shown(path, damaged, asked, say)
        raise InputError(f"{path}: must be a results folder (it has no study.json), or hold finished runs")
    zoo = {name: subject for name, subject in find.of_zoo().items() if name not in own} if with_zoo else {}
    head = study.head() if study.exists() else None
    cells = study.cells() if head is not None else {}
    ledger, judge = _judged(study) if head is not None else ([], None)
    readings, surveyed = _readings(cells, {**zoo, **own})  # a damaged survey is told before minutes are spent
    exhibits, refused = gather(path, own, device, say)
    refused = damaged | refused
    if head is None and own.keys() <= refused.keys():  # a page of shipped networks is not what was asked for
        raise _none_shown(path, refused, asked, say)
    tell_left_out(refused, say)
    add_shares(path, exhibits, [mine for name, mine in own.items() if name not in {*cells, *refused}], device, say)
    if with_zoo:
        more, unread = gather(path, zoo, device, say)
        tell_left_out(unread, say)
        exhibits, refused = {**exhibits, **more}, {**refused, **unread}
    kept = {
        name: record
        for name, record in exhibits.items()
        if name not in refused and (with_zoo or record["origin"]["source"] != "zoo")
    }
    return Source(path, head, cells, ledger, kept, readings, refused, judge, asked, surveyed)


def _none_shown(path: Path, refused: Mapping[str, InputError], asked: Asked, say: Callable[[str], None]) -> InputError:
    """Why none of the runs in a folder can be shown, in one line; with what to type where that can be said.

    The line has the reason of the first run; `say` is told those of the others.
    """
    (name, why), *rest = refused.items()
    tell_left_out(dict(rest), say)
    others = f" (and {len(rest)} more)" if rest else ""
    again = f": `{asked.again(path, plugins=(MODULE,))}`" if isinstance(why, Unregistered) else ""
    return InputError(f"{name}{others} cannot be shown: {why}{again}")


def _judged(study: StudyFolder) -> tuple[list[dict[str, Any]], Path | None]:
    """The ledger; of a study that judges nothing (a demonstration), that of the committed full-size one."""
    own = study.ledger() if (study.path / "claims.json").exists() else []
    full = committed()
    if full is None or full.path.resolve() == study.path.resolve():
        return own, None
    if own and all(entry["outcome"] == UNTESTED for entry in own):
        return full.ledger(), full.path
    return own, None


def _readings(
    cells: Mapping[str, Mapping[str, Any]], subjects: Mapping[str, Subject]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[str, Any]]]:
    """What the study's instruments found, and what `windtunnel inspect` found later that they had not looked at; and
    with which settings it did."""
    settings: dict[str, dict[str, Any]] = {}
    found = {name: list(cell["survey"]) for name, cell in cells.items() if cell.get("survey")}
    for name, subject in subjects.items():
        if (survey := subject.survey()) is not None:
            mine, settings[name] = found.setdefault(name, []), survey.settings
            known = {record["name"] for record in mine if record.get("value") is not None}
            records = [record for record in to_dict(survey)["records"] if record["name"] not in known]
            made = {"revision": survey.settings.get("revision", 0)}
            mine += [r | made | {"where": {"seed": r["seed"], **r.get("where", {})}} for r in records]
    return found, settings
