"""Rows of the primitives table for runs outside a study: one for each architecture, or one for each run.

An architecture that was trained in several worlds, once in each, has one row with a field for each world; else a folder
of such runs would be a table with one number in each row.  Two runs of an architecture in one world have a row each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windtunnel.report.source import Source
from windtunnel.study.primitive_rows import Row


def row_names(source: Source, rows: Sequence[Row]) -> dict[str, str]:
    """Run -> the name of its row."""
    own = [row for row in rows if row.network and row.cell not in source.cells]

    def spot(row: Row) -> tuple[str, str, str]:
        return source.model(row.cell), row.primitive, row.world

    runs, names = Counter(map(spot, own)), {row.cell: row.subject for row in own}
    groups: dict[str, list[Row]] = {}
    for row in own:
        if runs[spot(row)] == 1 and source.model(row.cell):
            groups.setdefault(source.model(row.cell), []).append(row)
    for model, mine in groups.items():
        if len(mine) < 2:
            continue
        others = {row.subject for row in rows if row not in mine}
        names |= dict.fromkeys([row.cell for row in mine], f"{model} (runs)" if model in others else model)
    return names
