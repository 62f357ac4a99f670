"""What a survey is: every reading of a run with its instrument and its seed, and how the survey was made.

`Survey.entries` holds each measurement with its instrument and seed; `inspect` makes a survey, `save_survey` keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.errors import InputError, require_choice
from windtunnel.geometry.instruments import INSTRUMENTS as GEOMETRY
from windtunnel.geometry.instruments import LADDER, Instrument
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.instruments import INSTRUMENTS as MECHANISM

INSTRUMENTS: dict[str, Instrument] = {**GEOMETRY, **MECHANISM}
NAMES = (*INSTRUMENTS, LADDER)


@dataclass(frozen=True)
class Entry:
    """One line of a survey: which instrument, which seed (None: all of the run), and what it found."""

    instrument: str
    seed: int | None
    found: Measurement | Missing


@dataclass(frozen=True)
class Survey:
    """What a survey found, and how it was made.

    settings     episodes, seed, stream, untrained, instruments and their revision; recipe, folder name and step of
                 the run, and the SHA-256 of its weights where they lie in files
    seconds      {"instrument, seed 0": s, …}
    environment  versions, device, commit
    """

    settings: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """On one line: whose, and how much; `measurements()` has the numbers."""
        recipe = self.settings.get("recipe", {})
        unnamed = f"{recipe['model']} on {recipe['tunnel']['name']}" if recipe else "a network"
        of = self.settings.get("run") or self.settings.get("model") or recipe.get("name") or unnamed
        found, asked = sum(1 for _ in self.measurements()), len(set(self._timed().values()))
        return f"<Survey of {of}: {found} measurements by {asked} instruments, {len(self.missing)} missing>"

    @property
    def missing(self) -> list[tuple[str, str]]:
        """What could not be measured and why: (name, reason), each said once.  One name may have several reasons."""
        found = [entry.found for entry in self.entries if isinstance(entry.found, Missing)]
        return list(dict.fromkeys((one.name, one.reason) for one in found))

    @property
    def broken(self) -> list[str]:
        """The instruments of which something broke down, so that another try may succeed; see `Missing`."""
        found = [entry for entry in self.entries if isinstance(entry.found, Missing) and entry.found.broken]
        return list(dict.fromkeys(entry.instrument for entry in found))

    def _timed(self) -> dict[str, str]:
        """What its seconds are kept under -> the instrument that took them."""
        seeds = (None, *self.settings.get("recipe", {}).get("seeds", ()))
        names = {title(name, seed): name for name in NAMES for seed in seeds}
        return {job: names[job] for job in self.seconds if job in names}

    def of(self, instruments: Iterable[str]) -> Survey:
        """The part that some instruments have found."""
        wanted = set(instruments)
        entries = [entry for entry in self.entries if entry.instrument in wanted]
        settings = self.settings | {"instruments": [name for name in self.settings["instruments"] if name in wanted]}
        seconds = {job: self.seconds[job] for job, name in self._timed().items() if name in wanted}
        return Survey(settings, entries, seconds, self.environment)

    def differences(self, settings: Mapping[str, Any]) -> list[str]:
        """In which settings it was made otherwise; which instruments, and what its folder is called, does not count."""
        ours, theirs = (json.loads(json.dumps(dict(one))) for one in (self.settings, settings))
        counted = (ours | theirs).keys() - {"instruments", "run"}
        return sorted(name for name in counted if ours.get(name) != theirs.get(name))

    def measurements(self, instrument: str | None = None) -> Iterator[tuple[Entry, Measurement]]:
        """Every measurement with the entry it stands in (whose seed, which instrument); of one instrument, or all."""
        for entry in self.entries:
            if isinstance(entry.found, Measurement) and instrument in (None, entry.instrument):
                yield entry, entry.found

    def rows(self) -> list[dict[str, Any]]:
        """Every measurement as one flat record, e.g. for `pandas.DataFrame(survey.rows())`.

        Its place has a column for each part (`where_layer`); `null` is the mean of the strongest null.
        """
        return [
            {"instrument": entry.instrument, "seed": entry.seed, "name": found.name}
            | {f"where_{part}": value for part, value in found.where.items()}
            | {part: getattr(found, part) for part in ("value", "low", "high", "over", "unit", "strongest_null")}
            | {"null": None if (null := found.strongest_null) is None else float(np.mean(found.nulls[null]))}
            | {part: getattr(found, part) for part in ("effect", "p_value", "searched", "note")}
            for entry, found in self.measurements()
        ]


def title(instrument: str, seed: int | None) -> str:
    """How an instrument on one seed (None: on the whole run) is called where its seconds are kept."""
    return instrument if seed is None else f"{instrument}, seed {seed}"


def selected(only: Iterable[str] | None) -> list[str]:
    """The instruments asked for, in the order they run; a name that is none is refused, whatever stands beside it."""
    if only is None:
        return list(NAMES)
    asked = [only] if isinstance(only, str) else list(only)
    if not asked:
        raise InputError(f"only = '': must name at least one of {', '.join(NAMES)}")
    for name in asked:
        require_choice("only", name, NAMES)
    return [name for name in NAMES if name in asked]
