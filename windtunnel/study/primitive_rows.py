"""The primitives table of a study: one row per subject and world, networks and reference predictors alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.json_numbers import from_json
from windtunnel.study.share import Share
from windtunnel.study.trials import PRIMITIVES

STATES = ("realised", "partial", "absent", "unclear", "void")
"""What can come of a primitive, see `windtunnel.study.share`."""


@dataclass(frozen=True)
class Row:
    """One entry: who, which primitive, where, and what came of it."""

    subject: str
    primitive: str
    world: str
    state: str
    told: str
    network: bool
    cell: str
    """Whose record it stands in."""
    record: Mapping[str, Any]
    """The share, whole; see `windtunnel.study.share.Share.to_dict`."""

    @property
    def no_better(self) -> bool:
        """Is it a network that came out behind B?  See `Share.no_better`."""
        return self.network and Share.of_record(self.record).no_better

    @property
    def left_bits(self) -> float:
        """KL that is left: the mean over seeds; where these fall apart, that of the median which is told instead."""
        if self.record["bimodal"]:
            return (1 - from_json(self.record["median"])) * from_json(self.record["base_bits"])
        return from_json(self.record["kl_bits"])

    @property
    def spoken(self) -> str:
        """The state as a table tells it, see `Share.spoken`."""
        return Share.of_record(self.record).spoken if self.network else self.state


def entries(cells: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """All rows as they stand in the cells: a network's own share, or those of the predictors that show the scale.

    Both may be in one cell, and a network may have a predictor's name."""
    for name, cell in cells.items():
        own = {name.removeprefix(f"{cell['world']}-"): cell["primitive"]} if cell.get("primitive") else {}
        for network, rows in ((True, own), (False, cell.get("rows") or {})):
            for subject, record in rows.items():
                whole = Share.of_record(record).to_dict()
                what = whole["primitive"], cell["world"], whole["state"], whole["told"]
                yield Row(subject, *what, network, name, whole)


def in_order(cells: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """All rows: by primitive and world, networks first, then the predictors that show the scale."""
    return sorted(
        entries(cells), key=lambda row: (PRIMITIVES.index(row.primitive), row.world, not row.network, row.subject)
    )
