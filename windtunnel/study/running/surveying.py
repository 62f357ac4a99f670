"""The instruments on the networks of a cell: one job per seed and instrument, and its readings as a study keeps them.

A reading is kept without its arrays, to five digits, with at most nine values of each null: what a claim and a reader
need of it, so that the survey of a cell stays well below 2 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.instruments import LADDER
from windtunnel.geometry.ladder_survey import dynamics
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.json_numbers import from_json
from windtunnel.mechanism.inspect import REVISION
from windtunnel.mechanism.survey import INSTRUMENTS, title
from windtunnel.study.folder.files import rounded
from windtunnel.training import Run
from windtunnel.tunnels import Episodes, Tunnel

DRAWN = 9  # values that are kept of a null with more draws


class Job(NamedTuple):
    """One instrument on one seed (or on the run), and how to get its readings."""

    instrument: str
    read: Callable[[], list[dict[str, Any]]]


def job_names(instruments: Mapping[str, int], seeds: Sequence[int]) -> dict[str, tuple[str, int | None]]:
    """Name -> instrument and seed (None: all at once), seed by seed; under it the readings are kept."""
    found: dict[str, tuple[str, int | None]] = {
        title(name, seed): (name, seed)
        for index, seed in enumerate(seeds)
        for name, count in instruments.items()
        if name != LADDER and index < count
    }
    return found | ({title(LADDER, None): (LADDER, None)} if LADDER in instruments else {})


def jobs(instruments: Mapping[str, int], run: Run, tunnel: Tunnel, episodes: int, untrained: int) -> dict[str, Job]:
    """Every instrument to apply, one job per seed and instrument."""
    bench = _Bench(run, tunnel, episodes, untrained)
    return {
        job: Job(name, partial(bench.read, name, seed))
        for job, (name, seed) in job_names(instruments, run.recipe.seeds).items()
    }


class _Bench:
    """What the instruments look at: the episodes, and one seed's network with its untrained twins at a time."""

    def __init__(self, run: Run, tunnel: Tunnel, episodes: int, untrained: int) -> None:
        self.run, self.tunnel, self.untrained = run, tunnel, untrained
        self.count, self.held = episodes, {}

    @cached_property
    def episodes(self) -> Episodes:
        return self.tunnel.sample(self.count, seed=0, stream="test")

    def read(self, name: str, seed: int | None) -> list[dict[str, Any]]:
        if seed is None:
            return to_records(guarded(LADDER, dynamics, self.run, self.episodes))
        if seed not in self.held:
            network = self.run.model(seed)
            self.held = {seed: (network, untrained_twins(network, self.untrained))}
        network, twins = self.held[seed]
        return to_records(guarded(name, INSTRUMENTS[name], network, self.tunnel, self.episodes, twins), seed)


def to_records(readings: Iterable[Measurement | Missing], seed: int | None = None) -> list[dict[str, Any]]:
    """Readings as they are kept: without arrays, rounded, long null samples thinned (`draws`: their true numbers), and
    with the revision of the instruments, as a cell may be read in several sittings."""
    kept = []
    for reading in readings:
        if isinstance(reading, Missing):
            kept.append(reading.to_dict())
            continue
        marked = reading if seed is None else replace(reading, where={"seed": seed, **reading.where})
        record = marked.to_dict() | _per_seed(reading)
        record["revision"] = REVISION
        record["draws"] = {null: len(sample) for null, sample in record["nulls"].items()}
        record["nulls"] = {null: thinned(sample) for null, sample in record["nulls"].items()}
        kept.append(rounded(record))
    return kept


def thinned(sample: Sequence[Any]) -> list[Any]:
    """At most DRAWN values of a null: its quantiles, moved together so that the mean stays what it was."""
    values = np.array([from_json(v) for v in sample])
    if len(values) <= DRAWN or not np.isfinite(values).all():
        return list(sample[:DRAWN])
    few = np.quantile(values, (np.arange(DRAWN) + 0.5) / DRAWN)
    return (few + values.mean() - few.mean()).tolist()


def _per_seed(reading: Measurement) -> dict[str, Any]:
    """An instrument that sums up over seeds keeps a row for each of them: their means, for a test over seeds."""
    rows = reading.arrays.get("differences")
    if reading.over != "seeds" or rows is None:
        return {}
    means = [float(np.mean(row[np.isfinite(row)])) for row in np.atleast_2d(rows) if np.isfinite(row).any()]
    return {"per_seed": means}


def failures(readings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why an instrument broke down, one line each; one that says that it does not apply has not failed."""
    return [reading["missing"] for reading in readings if reading.get("broken")]
