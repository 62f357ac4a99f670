"""What the study has measured, by name: the only thing a claim's test may read.

    evidence.score("hmm-transformer", "kl_bits")                     over all seeds, at home
    evidence.score("hmm-transformer", "entropy_mae_bits", "length-50-beyond")
    evidence.baseline("hmm", "uniform", "kl_bits")
    evidence.record("hmm-mamba", "PC1 share", stream="residual")     an instrument's reading, over the surveyed seeds

What is not there raises `NotMeasured`, which names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import stdev
from typing import Any

from windtunnel.json_numbers import from_json
from windtunnel.mechanism.inspect import UNTRAINED
from windtunnel.study.plan import references_name
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share

Record = Mapping[str, Any]
BOOTSTRAPPED = ("before the first block", "exact belief")
"""Nulls whose draws are bootstrap replicates of one number; those of all others are drawn independently."""


LONE = "lone"
"""Marks the only reading of a cell that has several seeds."""


class NotMeasured(Exception):
    """Something a test needs was not measured, and why; `cell`: the one that was not run, where that is the reason."""

    def __init__(self, reason: str, cell: str | None = None) -> None:
        super().__init__(reason)
        self.cell = cell


class Evidence:
    """The finished cells of a study, as they stand in its folder: name -> record."""

    def __init__(self, cells: Mapping[str, Record]) -> None:
        self.cells = cells

    def cell(self, name: str) -> Record:
        """The record of one cell."""
        if name not in self.cells:
            raise NotMeasured(f"needs the cell {name}, which is not among the results of this study", cell=name)
        return self.cells[name]

    def has(self, *names: str) -> bool:
        """Were all of these cells run?"""
        return all(name in self.cells for name in names)

    def condition(self, cell: str, condition: str) -> Record:
        """Everything scored under one condition."""
        found = self.cell(cell)["conditions"].get(condition)
        if found is None:
            raise NotMeasured(f"{cell} was not scored under {condition}")
        if "missing" in found:
            raise NotMeasured(f"{cell}, {condition}: {found['missing']}")
        return found

    def score(self, cell: str, metric: str, condition: str = "home") -> Quantity:
        """A fidelity metric of a cell; an accuracy over seeds also carries the noise of its test episodes."""
        scored = self.condition(cell, condition)
        if metric not in scored["metrics"]:
            raise NotMeasured(f"{cell} has no {metric} under {condition}")
        found = Quantity.of_record(scored["metrics"][metric])
        if metric == "accuracy" and found.values:
            noise = accuracy_noise(found.mean, scored["episodes"]) if "episodes" in scored else 0.0
            found = Quantity.of_seeds(found.values, found.scale, noise)
            found = replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))
        seeds = tuple(self.cell(cell).get("seeds", ()))
        return replace(found, seeds=seeds) if len(seeds) == len(found.values) else found

    def baseline(self, world: str, name: str, metric: str, condition: str = "home") -> float:
        """A baseline of a world, on the same episodes."""
        found = self.condition(references_name(world), condition)["baselines"]
        if metric not in found.get(name, {}):
            raise NotMeasured(f"{world} has no {metric} of the baseline {name}")
        return from_json(found[name][metric])

    def share(self, cell: str) -> Share:
        """The primitive that a cell's world tests, and the share of it the networks realise."""
        found = self.cell(cell).get("primitive")
        if found is None:
            raise NotMeasured(f"{cell} tests no primitive")
        return Share.of_record(found)

    # --- instruments
    def readings(self, cell: str, name: str, **where: Any) -> list[Record]:
        """All readings of an instrument that agree with `where`, one or more per surveyed seed."""
        survey = self.cell(cell).get("survey") or []
        found = [
            r for r in survey if r["name"] == name and all(r.get("where", {}).get(k) == v for k, v in where.items())
        ]
        kept = [r for r in found if r.get("value") is not None]
        if not kept:
            notes = [r["note"] for r in found if r.get("note")]
            notes += [str(r["missing"]) for r in survey if "missing" in r and r["name"] == name]
            place = ", ".join(f"{k} {v}" for k, v in where.items())
            raise NotMeasured(f"{cell}: no reading of {name!r} {place}".rstrip() + (f" ({notes[0]})" if notes else ""))
        if len(kept) == 1 and kept[0]["over"] == "sequences" and len(self.cell(cell).get("seeds", ())) > 1:
            return [{**kept[0], LONE: True}]
        return kept

    def record(self, cell: str, name: str, **where: Any) -> Quantity:
        """One instrument's reading over the surveyed seeds; of a cell with a single seed, its own interval."""
        return over_seeds(self.readings(cell, name, **where))

    def over_null(self, cell: str, name: str, which: str, **where: Any) -> Quantity:
        """A reading less the mean of one of its nulls, each seed against its own draws."""
        return less_null(self.readings(cell, name, **where), which)


def over_seeds(readings: list[Record]) -> Quantity:
    """Readings of several seeds as one quantity.

    A single reading is either of one network (its interval is over sequences, unless the cell has other seeds, of
    which it tells nothing), or an instrument's own summary over seeds: then with the seeds' values, or, without them,
    as a t-interval of unknown degrees of freedom.
    """
    if len(readings) > 1:
        found = Quantity.of_seeds([from_json(r["value"]) for r in readings])
        seeds = tuple(r["where"]["seed"] for r in readings if "seed" in r.get("where", {}))
        return replace(found, seeds=seeds) if len({*seeds}) == len(readings) else found
    (only,) = readings
    if only.get(LONE):
        return Quantity.of_seeds([from_json(only["value"])])
    if only["over"] == "seeds":
        values = [from_json(v) for v in only.get("per_seed", [])]
        if len(values) > 1 and all(map(math.isfinite, values)):
            return Quantity.of_seeds(values)
        return Quantity(from_json(only["value"]), from_json(only["low"]), from_json(only["high"]), "seeds")
    return Quantity(from_json(only["value"]), from_json(only["low"]), from_json(only["high"]), "sequences")


def null_mean(reading: Record, which: str) -> float:
    """Mean of one null of one reading; NaN where it was not drawn."""
    sample = [from_json(v) for v in reading["nulls"].get(which, [])]
    return sum(sample) / len(sample) if sample else math.nan


def less_null(readings: list[Record], which: str) -> Quantity:
    """Readings less the mean of one of their nulls, as one quantity.  That mean is known from a few draws only, which
    may be the same for all seeds: its standard error is added.  NaN, which straddles, where a null was not drawn."""
    found = over_seeds([_moved(r, -null_mean(r, which)) for r in readings])
    noise = max(_null_error(r, which) for r in readings)
    if len(found.values) > 1:
        return replace(Quantity.of_seeds(found.values, found.scale, noise), seeds=found.seeds)
    below, above = (math.hypot(end - found.mean, 1.96 * noise) for end in (found.low, found.high))
    return replace(found, low=found.mean - below, high=found.mean + above)


def _null_error(reading: Record, which: str) -> float:
    """Standard error of a null's mean: the spread of its draws over their root number, or the spread itself where the
    draws are replicates of one number."""
    sample = [from_json(v) for v in reading["nulls"].get(which, [])]
    if len(sample) < 2:
        return 0.0
    draws = reading.get("draws", {}).get(which, len(sample))  # long samples are kept as a few quantiles
    if which == "untrained":  # older surveys pooled the places of each network, which are no draws of their own
        draws = min(draws, UNTRAINED)
    return stdev(sample) / (1.0 if which in BOOTSTRAPPED else math.sqrt(draws))


def _moved(reading: Record, amount: float) -> Record:
    moved = {part: from_json(reading[part]) + amount for part in ("value", "low", "high")}
    return {**reading, **moved, "per_seed": [from_json(v) + amount for v in reading.get("per_seed", [])]}


def accuracy_noise(accuracy: float, episodes: int) -> float:
    """An upper bound on the standard error of an accuracy over test episodes, above 0 even where all were right.

    Answers within an episode may agree completely, so an episode counts as one draw; one right and one wrong episode
    are added (Laplace), because none wrong out of n does not mean that none ever is.
    """
    share = (accuracy * episodes + 1.0) / (episodes + 2.0)
    return math.sqrt(share * (1.0 - share) / episodes)
