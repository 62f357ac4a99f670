"""The primitives table of a study: one row per subject and world, networks and reference predictors alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.study.primitives import PRIMITIVES


@dataclass(frozen=True)
class Row:
    """One entry: who, which primitive, where, and what came of it."""

    subject: str
    primitive: str
    world: str
    state: str
    told: str
    network: bool
    share: Mapping[str, Any]
    """The whole record, see `windtunnel.study.primitives.Share.to_dict`."""


def scorecard(cells: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """All rows: by primitive and world, networks first, then the predictors that show the scale."""
    rows = []
    for name, cell in cells.items():
        if share := cell.get("primitive"):
            variant = name.removeprefix(f"{cell['world']}-")
            rows.append(Row(variant, share["primitive"], cell["world"], share["state"], share["told"], True, share))
        for row, share in cell.get("rows", {}).items():
            rows.append(Row(row, share["primitive"], cell["world"], share["state"], share["told"], False, share))
    return sorted(rows, key=lambda row: (PRIMITIVES.index(row.primitive), row.world, not row.network, row.subject))
