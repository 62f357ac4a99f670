"""Section 1: the headline in one line, the ledger, and the primitives table as a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.report.chart import Table
from windtunnel.report.fidelity_charts import scores
from windtunnel.report.source import Source
from windtunnel.report.words import bits, interval, short
from windtunnel.study.primitives import PRIMITIVES
from windtunnel.study.quantity import number
from windtunnel.study.verdict import OUTCOMES, UNTESTED

SIGNS = dict(zip(OUTCOMES, ("✓", "◐", "✕", "≈", "○"), strict=True))
"""A sign for each outcome, so that none is told by colour alone."""
LABELS: dict[str, str] = dict(
    zip(OUTCOMES, ("reproduced", "only in part", "not reproduced", "inconclusive", "not tested"), strict=True)
)
"""Each outcome in two words."""
STATES = {"realised": "✓", "partial": "◐", "absent": "✕", "unclear": "≈", "void": "○"}
LEVELS = 5


def headline(source: Source) -> str:
    """What came out, in one line."""
    counts = tally(source)
    found = scores(source)
    best = min(found, key=lambda name: number(found[name]["mean"]), default=None)
    closest = (
        "" if best is None else f"the closest network, {best}, is {bits(found[best]['mean'])} from exact inference"
    )
    if not counts:
        return (closest[:1].upper() + closest[1:] + ".") if closest else "No network and no verdict yet."
    told = ", ".join(f"{count} {LABELS[outcome]}" for outcome, count in counts.items() if count)
    tail = f"; {closest}" if closest else ""
    return f"{len(source.ledger)} published claims: {told}{tail}."


def tally(source: Source) -> dict[str, int]:
    """Outcome -> number of claims; empty without a ledger."""
    if not source.ledger:
        return {}
    return {outcome: sum(entry["outcome"] == outcome for entry in source.ledger) for outcome in OUTCOMES}


def ordered(source: Source) -> list[Mapping[str, Any]]:
    """The ledger in its own order, what was not tested last."""
    return sorted(source.ledger, key=lambda entry: entry["outcome"] == UNTESTED)


def claims_table(source: Source) -> Table:
    """The ledger, one row per claim."""
    columns = ["id", "verdict", "outcome", "claim", "published", "measured", "mean", "low", "high", "line"]
    columns += ["p_value", "adjusted_p_value", "reasons"]
    rows = []
    for entry in source.ledger:
        value = entry["value"] or {}
        told = [entry[name] for name in ("id", "verdict", "outcome", "claim", "published", "measured")]
        told += [value.get(part) for part in ("mean", "low", "high")]
        rows.append([*told, entry["line"], entry["p_value"], entry["adjusted_p_value"], " | ".join(entry["reasons"])])
    return Table("claims", columns, rows)


@dataclass(frozen=True)
class Share:
    """One field of the primitives table."""

    state: str
    sign: str
    mean: str
    ends: str
    told: str
    level: int
    """Depth of colour, 0 (none of the primitive) … LEVELS (all of it)."""


@dataclass(frozen=True)
class Primitives:
    """The primitives table.

    columns  (primitive, world)
    rows     (subject, is a network, one share or None for each column)
    """

    columns: list[tuple[str, str]]
    rows: list[tuple[str, bool, list[Share | None]]]


def primitives(source: Source) -> Primitives:
    """Networks first, then the predictors that show the scale at work."""
    found: dict[tuple[bool, str], dict[tuple[str, str], Mapping[str, Any]]] = {}
    for name, cell in source.cells.items():
        shares = {} if not cell.get("primitive") else {(True, source.short(name)): cell["primitive"]}
        shares |= {(False, row): share for row, share in cell.get("rows", {}).items()}
        for subject, share in shares.items():
            found.setdefault(subject, {})[share["primitive"], cell["world"]] = share
    columns = sorted(
        {at for shares in found.values() for at in shares}, key=lambda at: (PRIMITIVES.index(at[0]), at[1])
    )
    ordered = sorted(found, key=lambda subject: (not subject[0], -len(found[subject]), subject[1]))
    rows = [(s[1], s[0], [_share(found[s].get(at)) for at in columns]) for s in ordered]
    return Primitives(columns, rows)


def _share(record: Mapping[str, Any] | None) -> Share | None:
    if record is None:
        return None
    mean = number(record["share"]["mean"])
    level = 0 if record["state"] == "void" or not mean > 0 else min(LEVELS, round(LEVELS * min(mean, 1.0)))
    if record["bimodal"]:
        seeds = len(record["per_seed"])
        ends = f"{record['successes']} of {seeds} seeds"
        return Share(record["state"], STATES[record["state"]], short(record["median"]), ends, record["told"], level)
    ends = interval(record["share"]).partition(" ")[2]
    return Share(record["state"], STATES[record["state"]], short(mean), ends, record["told"], level)


def primitives_table(source: Source) -> Table:
    """All shares, one row each."""
    columns = ["subject", "primitive", "world", "state", "share", "low", "high", "kl_bits", "base", "base_bits"]
    rows = []
    for name, cell in source.cells.items():
        shares = {source.short(name): cell["primitive"]} if cell.get("primitive") else {}
        for subject, share in (shares | cell.get("rows", {})).items():
            ends = [share["share"][part] for part in ("mean", "low", "high")]
            last = [share["kl_bits"], share["base"], share["base_bits"]]
            rows.append([subject, share["primitive"], cell["world"], share["state"], *ends, *last])
    return Table("primitives", columns, rows)
