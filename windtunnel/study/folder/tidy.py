"""table.csv: every number of a study, one row each."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

COLUMNS = ("cell", "world", "model", "parameters", "condition", "metric", "seed", "value")


def tidy(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Every number of every seed as CSV, one row each."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, cell in cells.items():
        shared = (name, cell["world"], cell.get("model", ""), cell.get("parameters", ""))
        writer.writerows((*shared, *row) for row in _rows(cell))
    return text.getvalue()


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
