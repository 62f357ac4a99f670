"""A benchmark's result as tables of strings, for a terminal with rich or without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from windtunnel.training.speed.parts import PARTS

Row = dict[str, Any]


class Table(NamedTuple):
    """title, heads of the columns, l or r for each column, rows of cells"""

    title: str
    columns: list[str]
    justify: str
    rows: list[list[str]]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _short(value: float) -> str:
    """Three significant digits.

    >>> _short(0.01234), _short(12.34), _short(1234.5)
    ('0.0123', '12.3', '1,234')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _times(value: float) -> str:
    return f"{_short(value)} ×"


# Section -> (field, head, how to write it).  A field that no row has is left out of the table.
_COLUMNS: dict[str, list[tuple[str, str, Callable[[Any], str]]]] = {
    "training": [
        ("case", "case", str),
        ("parameters", "parameters", _count),
        ("seeds", "seeds", str),
        ("batch", "batch", str),
        ("sequences_per_s", "sequences/s", _count),
        ("ms_per_step", "ms per step", _short),
        ("flops_per_sequence", "MFLOP per sequence", lambda value: _short(value / 1e6)),
        ("share_of_peak", "share of matrix rate", _percent),
        ("busy_share", "time with a kernel running", _percent),
        ("memory_mib", "MiB", _count),
        ("setup_s", "set-up s", _short),
    ],
    "seeds": [
        ("case", "case", str),
        ("batch", "batch", str),
        ("seeds", "seeds together", str),
        ("one_ms", "one seed, ms per step", _short),
        ("together_ms", "together, ms per step", _short),
        ("cost_of_one", "cost against one", _times),
        ("cost_of_batch", "one seed, as many times the batch", _times),
        ("busy_share", "one seed, time with a kernel running", _percent),
        ("memory_mib", "MiB", _count),
    ],
    "sampling": [
        ("tunnel", "tunnel", str),
        ("episodes_per_s", "episodes/s", _count),
        ("over_plain", "over plain NumPy (hmm)", _times),
        ("over_tuned", "over tuned NumPy (hmm)", _times),
    ],
    "evaluation": [("case", "case", str), ("episodes_per_s", "episodes/s", _count)],
    "growth": [
        ("axis", "axis", str),
        ("size", "size", str),
        ("parameters", "parameters", _count),
        ("sequences_per_s", "sequences/s", _count),
        ("ms_per_step", "ms per step", _short),
        ("memory_mib", "MiB", _count),
    ],
    "profile": [
        ("case", "case", str),
        ("batch", "batch", str),
        ("ms_per_step", "ms per step", _short),
        *[(f"{part}_ms", part, _short) for part in PARTS],
        ("gaps_ms", "of it launch gaps", _short),
        ("calls_ms", "same step, batch 1", _short),
    ],
    "startup": [
        ("what", "from process start to", str),
        ("seconds", "s", _short),
        ("beyond_torch_s", "beyond torch's import, s", _short),
    ],
    "compile": [("case", "case", str), ("cache", "cache", str), ("seconds", "build, compile, first step: s", _short)],
}


def headline(result: Row) -> str:
    """Where it was measured, and what a large matrix product does there."""
    place = result["environment"]
    on_gpu = "NVIDIA" in place["device"]
    scale, unit, dtype = (1e12, "TFLOP/s", "bfloat16") if on_gpu else (1e9, "GFLOP/s", "float32")
    rate = f"{_short(result['matrix_flops_per_s'] / scale)} {unit} in a large {dtype} matrix product"
    return f"{place['device']}, torch {place['versions']['torch']}: {rate}"


def tables(result: Row) -> Iterator[Table]:
    """One table per section; for the profile also the most expensive operations of each case."""
    for section, columns in _COLUMNS.items():
        rows = result.get(section) or []
        if not rows:
            continue
        used = [column for column in columns if any(column[0] in row for row in rows)]
        cells = [[write(row[field]) if field in row else "" for field, _, write in used] for row in rows]
        justify = "".join(
            "l" if write is str and isinstance(rows[0].get(field), str) else "r" for field, _, write in used
        )
        yield Table(section, [head for _, head, _ in used], justify, cells)
        for row in rows:
            if row.get("operations"):
                yield _operations(row)


def _operations(row: Row) -> Table:
    cells = [
        [entry["operation"][:90], _short(entry["ms"]), _percent(entry["share"]), f"{entry['calls']:.0f}"]
        for entry in row["operations"][:10]
    ]
    return Table(f"most expensive operations, {row['case']}", ["operation", "ms", "share", "calls"], "lrrr", cells)


def notes(result: Row) -> list[str]:
    """What the reader should know besides: what had to be left out, and what memory means."""
    lines = [
        f"{section}: left out for lack of time: {', '.join(left)}"
        for section, left in result.get("left_out", {}).items()
    ]
    lines += [f"{section}: failed: {'; '.join(why)}" for section, why in result.get("failed", {}).items()]
    if left := result.get("unfinished"):
        lines.append(f"cut short, rows are missing: {', '.join(left)}")
    kinds = {row["memory_kind"] for section in ("training", "growth") for row in result.get(section) or []}
    return lines + [f"MiB: {kind}" for kind in sorted(kinds)]


def plain_text(table: Table) -> str:
    """The table in plain text, columns two blanks apart."""
    grid = [table.columns, *table.rows]
    widths = [max(len(row[index]) for row in grid) for index in range(len(table.columns))]
    lines = [
        "  ".join(
            f"{cell:{'<' if side == 'l' else '>'}{width}}" for cell, side, width in zip(row, table.justify, widths)
        )
        for row in grid
    ]
    return "\n".join([table.title, lines[0].rstrip(), "-" * len(lines[0]), *(line.rstrip() for line in lines[1:]), ""])
