"""Section 1: the primitives table, networks by primitives, as a matrix with intervals.

Networks of a study have their shares in its cells; those of other runs in their exhibits (see `own_shares`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.json_numbers import from_json
from windtunnel.report.chart import Table
from windtunnel.report.curves import scored_on
from windtunnel.report.grouping import row_names
from windtunnel.report.own_shares import KEY
from windtunnel.report.palette import KEYS
from windtunnel.report.source import Source
from windtunnel.report.words import enumerated, share, short
from windtunnel.study.primitive_rows import STATES, entries
from windtunnel.study.primitive_rows import Row as Measured
from windtunnel.study.scorecard_plan import AGAIN, PRESET
from windtunnel.study.share import ABSENT, REALISED
from windtunnel.study.trials import PRIMITIVES

SIGNS: dict[str, str] = dict(zip(STATES, ("✓", "◐", "✕", "≈", "○"), strict=True))
"""A sign for each state, so that none is told by colour alone."""
LEVELS = 5
SPOKEN = {
    "transformer": "Transformer",
    "mamba": "Mamba",
    "lstm": "LSTM",
    "mlp": "MLP",
    "linear-attention": "linear attention",
}
"""Architectures as they are called in a sentence."""
TESTING = (
    "an urn and a bijection test accumulation, chains that rotate transport, a bijection with replacement and recall "
    "without noise binding"
)

BEHIND = (
    "B is the best predictor that has every primitive but the one tested. A network that is no better may lack more "
    "than the primitive (it sees too little, or its training failed), so nothing is shown about the primitive itself."
)

BESIDE_B = "no better than without it"


@dataclass(frozen=True)
class Field:
    """One field of the primitives table.

    spoken      the state as it is written: see `primitive_rows.Row.spoken`
    mean, ends  the share and its interval;  left  bits that the subject is still away from exact inference
    level       depth of colour: 0 below the line of "absent", LEVELS for what is realised, even steps between
    run         whose share it is, where the row is that of several runs
    """

    state: str
    spoken: str
    sign: str
    mean: str
    ends: str
    left: str
    told: str
    level: int
    run: str = ""


@dataclass(frozen=True)
class Column:
    """A primitive in a world; `worth` is what the best predictor without it loses.

    scale  predictors that show the scale at work: (name, share)
    """

    primitive: str
    world: str
    worth: str
    scale: list[tuple[str, Field]]


@dataclass(frozen=True)
class Row:
    """A network and its share, or None, for each column.  about: its architecture, where it is called after a run."""

    name: str
    variant: bool
    shares: list[Field | None]
    about: str = ""


@dataclass(frozen=True)
class Primitives:
    """The primitives table: networks by primitives.  notes: what a reader must know of some of the shares, or of why
    there are none."""

    columns: list[Column]
    rows: list[Row]
    notes: list[str]


def rows_of(source: Source) -> list[Measured]:
    """The study's rows; below them those of runs outside it, by name, with yardsticks where it has none.

    A run that is called like a network of the study, or like a yardstick, is told from it by a word."""
    found = list(entries(source.cells))
    taken, worlds = {row.subject for row in found}, {row.world for row in found}
    for name in source.ordered(_own(source)):
        record = source.exhibits[name][KEY] or {}
        if "share" not in record:
            continue
        known = {"world": source.world(name), "primitive": record["share"], "rows": record["rows"]}
        for row in entries({name: known}):
            if row.network:
                also = name in taken or name in record["rows"]
                found.append(replace(row, subject=f"{name} (run)" if also else name))
            elif row.world not in worlds:
                found.append(row)
        worlds.add(known["world"])
    return found


def _own(source: Source) -> list[str]:
    """Networks outside the study whose share was asked for."""
    return [name for name, record in source.exhibits.items() if KEY in record and name not in source.cells]


def _notes(source: Source, rows: Sequence[Measured]) -> list[str]:
    """What "no better than B" leaves open; on how many episodes shares were measured for this page, where `evaluate`
    takes more; and why some are not."""
    behind = [BEHIND] if any(row.no_better for row in rows) else []
    few, untested, missing = dict[str, list[str]](), dict[str, list[str]](), list[str]()
    for name in source.ordered(_own(source)):
        record = source.exhibits[name][KEY]
        if record is None:
            untested.setdefault(source.world(name), []).append(name)
        elif "missing" in record:
            missing.append(f"{name} has no share: {record['missing']}.")
        elif on := scored_on(record):
            few.setdefault(on, []).append(name)
    told = [f"Measured for this page on {on}: {enumerated(names)}." for on, names in few.items()]
    told += [
        f"The tunnel {world} tests no single primitive, so there is no share of {enumerated(names)}: {TESTING}."
        for world, names in untested.items()
    ]
    return behind + told + missing


def primitives(source: Source) -> Primitives:
    """Plain recipes first, in the order of the architectures; runs alone by architecture."""
    found: dict[str, dict[tuple[str, str], Field]] = {}
    columns: dict[tuple[str, str], Column] = {}
    cells: dict[str, str] = {}  # subject -> one of its cells
    measured = rows_of(source)
    runs = row_names(source, measured)
    several = {subject for subject, count in Counter(runs.values()).items() if count > 1}
    for row in measured:
        at = row.primitive, row.world
        column = columns.setdefault(at, Column(*at, short(row.record["base_bits"]), []))
        if row.network:
            subject = runs.get(row.cell, row.subject)
            field = _field(row)
            found.setdefault(subject, {})[at] = replace(field, run=row.subject) if subject in several else field
            cells.setdefault(subject, row.cell)
        else:
            column.scale.append((row.subject, _field(row)))
    order = sorted(columns, key=lambda at: (PRIMITIVES.index(at[0]), len(at[1]), at[1]))

    def variant(subject: str) -> bool:
        return source.head is not None if subject in several else source.variant(cells[subject])

    def place(subject: str) -> tuple[Any, ...]:
        model = source.model(cells[subject])
        beside = variant(subject) if source.head is not None else False  # among runs alone nothing is the plain one
        return beside, KEYS.get(model, len(KEYS)), model, subject not in several, subject

    def about(subject: str) -> str:
        model = source.model(cells[subject])
        return "" if cells[subject] in source.cells or subject in several or model in subject else model

    rows = [Row(s, variant(s), [found[s].get(at) for at in order], about(s)) for s in sorted(found, key=place)]
    return Primitives([columns[at] for at in order], rows, _notes(source, measured))


def _field(row: Measured) -> Field:
    """From a row of the primitives table."""
    state, record = row.state, row.record
    mean = from_json(record["share"]["mean"])
    level = 0 if state == "void" else depth(from_json(record["median"]) if record["bimodal"] else mean)
    level = level if state == "realised" else min(level, LEVELS - 1)  # two seeds of three do not look like three
    if record["bimodal"]:
        ends = f"{record['successes']} of {len(record['per_seed'])} seeds"
        shown = share(record["median"])
    else:
        low, high = (record["share"].get(part) for part in ("low", "high"))
        ends = "" if None in (low, high) else f"[{share(low)}, {share(high)}]"
        shown = share(mean)
    return Field(state, row.spoken, SIGNS[state], shown, ends, f"{short(row.left_bits, 2)} bits", row.told, level)


def depth(share: float) -> int:
    """How deep a share is coloured.  The deepest is kept for what can be realised, so that 0.94 never looks like 1.

    >>> [depth(share) for share in (-0.4, 0.09, 0.1, 0.32, 0.6, 0.936, 0.95, 1.0)]
    [0, 0, 1, 2, 3, 4, 5, 5]
    """
    if not share >= ABSENT:  # nor where it is no number
        return 0
    return LEVELS if share >= REALISED else 1 + int((LEVELS - 1) * (share - ABSENT) / (REALISED - ABSENT))


def realised(source: Source) -> str:
    """Which architectures have which primitives, and how it stands with the others, in one sentence; empty where none
    was measured.  A second, longer chance counts instead of the first."""
    table = primitives(source)
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    longer = {row.name.removesuffix(AGAIN): row.shares for row in table.rows if row.name.endswith(AGAIN)}
    for row in table.rows:
        if row.variant:
            continue
        worlds: dict[str, list[str]] = {}  # primitive -> a state for each world that tests it
        last = [again or one for one, again in zip(row.shares, longer.get(row.name, row.shares), strict=True)]
        for column, one in zip(table.columns, last, strict=True):
            if one is not None and one.state != "void":
                worlds.setdefault(column.primitive, []).append(_standing(one))
        if worlds:
            has = tuple(_in_worlds(p, worlds[p]) for p in PRIMITIVES if "realised" in worlds.get(p, ()))
            found.setdefault((has, _others(worlds)), []).append(_called(row.name))
    told = []
    for (has, others), names in sorted(found.items(), key=lambda item: -len(item[0][0])):
        verb = "realise" if len(names) > 1 else "realises"
        told.append(f"{enumerated(names)} {verb} {enumerated(has) if has else 'no primitive'}{others}")
    budget = ", within the steps that each was given" * ((source.head or {}).get("preset") == PRESET)
    line = f"{'; '.join(told)}{budget}."
    return line[:1].upper() + line[1:] if told else ""


def _called(name: str) -> str:
    """An architecture in a sentence; one of the user's own as it was registered, as code, which no capital changes."""
    return SPOKEN.get(name, f"`{name}`")


def _standing(one: Field) -> str:
    """Its state; for a network behind B "absent" would say too much (`BEHIND`)."""
    return BESIDE_B if one.state == "absent" and one.spoken != one.state else one.state


def _others(worlds: Mapping[str, Sequence[str]]) -> str:
    """How it stands with the primitives that are realised in no world; nothing where there is none.

    >>> _others({"accumulation": ["realised", "absent"], "transport": ["partial"], "binding": ["absent", "partial"]})
    ' (transport partial, binding partial or absent)'
    """
    states: dict[str, list[str]] = {}
    for primitive in PRIMITIVES:
        if (found := {*worlds.get(primitive, ())}) and "realised" not in found:
            state = " or ".join(state for state in (*STATES, BESIDE_B) if state in found)
            states.setdefault(state, []).append(primitive)
    listed = ", ".join(f"{enumerated(names)} {state}" for state, names in states.items())
    return f" ({listed})" if listed else ""


def own_told(source: Source) -> str:
    """The share of a run outside a study in one sentence; of several the table tells, and this is empty."""
    told = [
        f"{row.subject}: {row.primitive} {row.spoken}, share {one.mean} {one.ends}".rstrip()
        for row in rows_of(source)
        if row.network and row.cell not in source.cells and (one := _field(row))
    ]
    return f"{told[0]} (0 like B, the best predictor without it, 1 exact)." if len(told) == 1 else ""


def _in_worlds(primitive: str, states: Sequence[str]) -> str:
    """The primitive; and in how many worlds, where it is not in all that test it."""
    count = states.count("realised")
    return primitive if count == len(states) else f"{primitive} ({count} of {len(states)} worlds)"


def primitives_table(source: Source) -> Table:
    """All shares, one row each."""
    columns = ["subject", "primitive", "world", "state", "share", "low", "high", "kl_bits", "base", "base_bits"]
    rows = []
    for row in rows_of(source):
        ends = [row.record["share"][part] for part in ("mean", "low", "high")]
        last = [row.record[part] for part in ("kl_bits", "base", "base_bits")]
        rows.append([row.subject, row.primitive, row.world, row.state, *ends, *last])
    return Table("primitives", columns, rows)
