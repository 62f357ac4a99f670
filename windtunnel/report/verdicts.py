"""Section 1: the headline in one line, and the ledger of claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.json_numbers import from_json
from windtunnel.report.chart import Table
from windtunnel.report.curves import scored_on
from windtunnel.report.fidelity_charts import scores
from windtunnel.report.shares import own_told, realised
from windtunnel.report.source import Source
from windtunnel.report.words import bits, enumerated
from windtunnel.study.folder.ledger import published
from windtunnel.study.verdict import DECIDED, OUTCOMES, UNTESTED

SIGNS = dict(zip(OUTCOMES, ("✓", "◐", "✕", "≈", "○"), strict=True))
"""A sign for each outcome, so that none is told by colour alone."""
LABELS: dict[str, str] = dict(
    zip(OUTCOMES, ("reproduced", "only in part", "not reproduced", "inconclusive", "not tested"), strict=True)
)
"""Each outcome in two words."""


def headline(source: Source) -> list[str]:
    """What came out: the answer in one line, and what a reader should know beside it."""
    if source.head is None:
        return [line for line in (*_closest(source), own_told(source)) if line]
    judged, measured = _judged(source), realised(source)
    if judges(source):
        return [*judged, measured] if measured else judged
    if measured and source.judge is not None:
        return [f"A demonstration in small networks: {measured}", *judged]
    return [*([measured] if measured else _closest(source)), *judged]


def section_says(source: Source) -> str:
    """What the section shows: no more than this page has."""
    if judges(source):
        return "Which published claims hold here, and which primitives each architecture has."
    if source.judge is not None:
        return (
            "Which primitives the small networks of this demonstration have; and beside them, which published claims "
            "hold in the full-size study."
        )
    if source.ledger:
        return "Which primitives each architecture has; no published claim is judged at this size."
    return "Which primitives the networks have: how much of what each is worth they realise."


def judges(source: Source) -> bool:
    """Does this study itself decide any claim?  If not, what it measured comes first."""
    return source.judge is None and any(tally(source).get(outcome) for outcome in DECIDED)


def _judged(source: Source) -> list[str]:
    """What the ledger says; nothing where there is none."""
    counts = tally(source)
    if not counts:
        return []
    claims = f"{len(source.ledger)} claims, {published(source.ledger)} of them published"
    if not any(counts[outcome] for outcome in DECIDED):
        return [f"A demonstration: none of {claims}, is judged at this size."]
    verdicts = [f"{count} {LABELS[outcome]}" for outcome, count in counts.items() if count]
    line = f"{claims}: {enumerated(verdicts)}"
    return [f"{line}." if source.judge is None else f"{line}, says the full-size study in {source.judge}."]


def _closest(source: Source) -> list[str]:
    """The network closest to exact inference; of several tunnels one line each, as their bits do not compare."""
    found = scores(source)
    zoo = {name for name, record in source.exhibits.items() if record["origin"]["source"] == "zoo"} - {*source.networks}
    found = {name: score for name, score in found.items() if name not in zoo} or found  # the page is about one's own
    worlds = source.worlds(found)
    if not worlds:
        return ["No network and no verdict yet."]

    def told(names: list[str]) -> str:
        best = min(names, key=lambda name: from_json(found[name]["mean"]))
        on = scored_on(source.exhibits[best]["curves"]) if best not in source.networks else ""
        who = f"the closest of {len(names)} networks, `{best}`," if len(names) > 1 else f"`{best}`"
        return f"{who} is {bits(found[best]['mean'])} from exact inference{f' ({on})' if on else ''}."

    lines = [told(names) for names in worlds.values()]
    if len(lines) == 1:
        return [lines[0][:1].upper() + lines[0][1:]]
    return [f"{len(found)} networks in {len(lines)} tunnels.", *map(": ".join, zip(worlds, lines, strict=True))]


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
