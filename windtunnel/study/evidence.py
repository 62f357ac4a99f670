"""What the study has measured, by name: the only thing a claim's test may read.

    evidence.score("hmm-transformer", "kl_bits")                     over all seeds, at home
    evidence.score("hmm-transformer", "entropy_mae_bits", "length-50-beyond")
    evidence.baseline("hmm", "uniform", "kl_bits")
    evidence.record("hmm-mamba", "PC1 share", stream="residual")     an instrument's reading, over the surveyed seeds

What is not there raises `NotMeasured`, which names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.study.quantity import Quantity, number

Record = Mapping[str, Any]


class NotMeasured(Exception):
    """Something a test needs was not measured, and why."""


class Evidence:
    """The finished cells of a study, as they stand in its folder: name -> record."""

    def __init__(self, cells: Mapping[str, Record]) -> None:
        self.cells = cells

    def cell(self, name: str) -> Record:
        """The record of one cell."""
        if name not in self.cells:
            raise NotMeasured(f"needs the cell {name}, which this study has not run")
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
        """A fidelity metric of a cell."""
        return Quantity.of_record(self.condition(cell, condition)["metrics"][metric])

    def baseline(self, world: str, name: str, metric: str, condition: str = "home") -> float:
        """A baseline of a world, on the same episodes."""
        found = self.condition(f"{world}-references", condition)["baselines"]
        if name not in found:
            raise NotMeasured(f"{world} has no baseline {name}")
        return number(found[name][metric])

    def share(self, cell: str) -> Record:
        """The primitive that a cell's world tests, and the share of it the networks realise."""
        found = self.cell(cell).get("primitive")
        if found is None:
            raise NotMeasured(f"{cell} tests no primitive")
        return found

    # --- instruments
    def readings(self, cell: str, name: str, **where: Any) -> list[Record]:
        """All readings of an instrument that agree with `where`, one or more per surveyed seed."""
        survey = self.cell(cell).get("survey") or []
        found = [
            r for r in survey if r["name"] == name and all(r.get("where", {}).get(k) == v for k, v in where.items())
        ]
        kept = [r for r in found if r.get("value") is not None]
        if not kept:
            notes = [r["note"] for r in found if r.get("note")] or [
                f"{r['name']}: {r['missing']}" for r in survey if "missing" in r
            ]
            place = ", ".join(f"{k} {v}" for k, v in where.items())
            raise NotMeasured(f"{cell}: no reading of {name!r} {place}".rstrip() + (f" ({notes[0]})" if notes else ""))
        return kept

    def record(self, cell: str, name: str, **where: Any) -> Quantity:
        """One instrument's reading over the surveyed seeds; of a single seed, its own interval."""
        return over_seeds(self.readings(cell, name, **where))

    def null(self, cell: str, name: str, which: str, **where: Any) -> float:
        """Mean of a null over the same readings; NaN where that null was not drawn."""
        samples = [r["nulls"].get(which, []) for r in self.readings(cell, name, **where)]
        values = [number(v) for sample in samples for v in sample]
        return sum(values) / len(values) if values else float("nan")

    def significant(self, cell: str, name: str, **where: Any) -> bool:
        """Does every surveyed seed stand out from all of its nulls (p ≤ 0.05)?"""
        return all(r["p_value"] is not None and r["p_value"] <= 0.05 for r in self.readings(cell, name, **where))


def over_seeds(readings: list[Record]) -> Quantity:
    """Readings of several seeds as one quantity."""
    if len(readings) > 1:
        return Quantity.of_seeds([number(r["value"]) for r in readings])
    (only,) = readings
    return Quantity(number(only["value"]), number(only["low"]), number(only["high"]), "sequences")
