"""The small parts of tables that all pages use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from windtunnel.study.paper_plan import trained_on
from windtunnel.study.quantity import Quantity
from windtunnel.training.batch_stages import batch_told
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.rates import work_of
from windtunnel.tunnels import Recall


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def interval(estimate: dict[str, Any]) -> str:
    """`0.0033 [0.0031, 0.0036]`."""
    return Quantity.of_record(estimate).brief(2)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table; a bar inside a field does not end it."""

    def line(fields: Sequence[object]) -> str:
        return "| " + " | ".join(str(field).replace("|", "\\|") for field in fields) + " |"

    return [line(columns), "|" + "---|" * len(columns), *map(line, rows)]


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """A table and the empty line after it."""
    return [*markdown(columns, rows), ""]


def made_with(environment: dict[str, Any]) -> str:
    versions = environment["versions"]
    return f"{environment['device']}, torch {versions['torch']}, Python {environment['python']}"


def commit_of(environment: dict[str, Any]) -> str:
    return short_commit(environment["commit"])


def short_commit(commit: str | None) -> str:
    """In seven letters, however many a file has; `-dirty` stays.

    >>> short_commit("a750073b0076-dirty"), short_commit(None)
    ('a750073-dirty', 'unknown')
    """
    if commit is None:
        return "unknown"
    name, dash, rest = commit.partition("-")
    return name[:7] + dash + rest


def share_of_rate(row: dict[str, Any], digits: int = 0) -> str:
    """`21%`."""
    return f"{100 * share(row):.{digits}f}%"


def one_batch(rows: list[dict[str, Any]]) -> str:
    """The one batch of all rows."""
    (batch,) = {row["batch"] for row in rows}
    return f"{batch:,}"


def share(row: dict[str, Any]) -> float:
    """Products of older rows were counted on the path with taps: too many for Transformers, too few for linear
    attention.  They are counted again, as they train."""
    again = 1.0 if "flops_counted" in row else _flops(row["case"]) / row["flops_per_sequence"]
    return row["share_of_peak"] * again


@cache
def _flops(case: str) -> float:
    return work_of(cases("cuda")[case]).flops_per_sequence


def on_recall(worlds: Iterable[str]) -> list[str]:
    """Worlds as `records.world_of` names them -> what no name tells: which are harder to learn than the study's."""
    usual = Recall()
    plain = any(world.split()[0] == "recall" and "mixed=True" not in world for world in worlds)
    if not plain or trained_on(usual) == usual:
        return []
    return [
        f"On recall every episode of training has all {usual.pairs} pairs here; the study trains on episodes of up to"
        " that many, which are easier to learn from."
    ]


BUDGET = "seeds × steps × batch"


def budget(recipe: dict[str, Any]) -> str:
    """What a recipe was given, as `BUDGET` says: `3 × 4,000 × 1,024`."""
    return f"{len(recipe['seeds'])} × {recipe['steps']:,} × {batch_told(recipe.get('first_batch'), recipe['batch'])}"
