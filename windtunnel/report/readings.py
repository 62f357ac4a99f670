"""Instruments' readings as a chart: every number as a solid dot with its interval, its nulls as hollow ones.

What an instrument could not read, and why, stands below the dots: a place that is missing is never silent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.geometry.measurement import COUNTED, FREEDOM, least_p, part_in_words
from windtunnel.json_numbers import from_json
from windtunnel.report.chart import Chart, Panel, Series
from windtunnel.report.older_surveys import without_window
from windtunnel.report.source import Source
from windtunnel.report.words import enumerated, listed, short
from windtunnel.study.evidence import null_mean, over_seeds

_SAID = ("seed", "method")  # parts of a place that other words already tell
ALPHA = 0.05

Record = Mapping[str, Any]
HOW = (
    "Solid dots are the mean over the surveyed seeds with a 95% interval: Student's t over seeds, or a bootstrap over "
    "sequences where one seed was surveyed. Student's t does not know that a share cannot exceed 1: where its interval "
    "does, the bar ends at 1 and the numbers are left as they are. Hollow dots are nulls, the same instrument on "
    "something that carries no signal: the mean of its draws, and a thin bar over them (of many draws, the middle nine "
    "tenths). p is that of the null which comes closest, one-sided where an effect has a side. Counted over B draws it "
    "is never below 1/(B + 1), twice that where an effect may lie on both sides, however far away the dot; of fewer "
    f"than {COUNTED} draws it comes from Student's t with at most {FREEDOM} degrees of freedom. It is not corrected "
    f"for the number of places: of twenty that carry nothing, one has p ≤ {ALPHA}."
)
"""What a reader must know of every chart made here."""
MOVED = (
    "Nulls of this section are drawn on the first few of the sequences, and moved by as much as the reading itself "
    "changes from those few to all. So the distance from a dot to its nulls, and p, are those on the same few "
    "sequences; where a null lies by itself means nothing: it may lie below 0 bits, and its bar also spans how far it "
    "was moved in different seeds."
)
"""And of every chart whose nulls `mechanism.estimate` has moved."""


@dataclass(frozen=True)
class Question:
    """A chart to be made from readings.

    names   of the readings, one panel each;  split  a part of their place: one panel for each of its values instead,
            `titled` after it
    absent  how the names of what could not be read begin
    marks   as those of a panel
    """

    id: str
    title: str
    say: str
    names: Sequence[str]
    split: str = ""
    titled: str = "{}"
    absent: Sequence[str] = ()
    marks: Sequence[tuple[float, str]] = ()


def beside_nulls(source: Source, question: Question) -> Chart:
    """One view per subject, one panel per kind of reading."""
    views, told = {}, []
    for subject in source.ordered(source.readings):
        panels = _panels(source.readings[subject], question, source.model(subject))
        if panels:
            views[subject] = panels
            first = panels[0].series[-1]
            told.append(f"{subject}: {panels[0].title} {short(first.x[0])} at {first.y[0]}")
    return Chart(question.id, question.title, question.say, listed(told), views, "network")


def _panels(records: Sequence[Record], question: Question, model: str) -> list[Panel]:
    found = []
    for name in question.names:
        values = [r["where"].get(question.split) for r in records if r["name"] == name and r.get("value") is not None]
        for value in dict.fromkeys(values) if question.split else [None]:
            where = {} if value is None else {question.split: value}
            title = name if value is None else question.titled.format(value)
            found.append(dots(title, places(records, name, **where), question.marks))
    *most, last = [panel for panel in found if panel is not None] or [None]
    if last is None:
        return []
    read = [r for r in records if r["name"] in question.names and r.get("value") is not None]
    lines = (last.note, _why_not(records, question), without_window(model, read))
    return [*most, replace(last, note="\n".join(line for line in lines if line))]


def _why_not(records: Sequence[Record], question: Question) -> str:
    """What has no number, and why, on one line: readings without an answer, and what could not be read at all."""
    found = [r for r in records if r["name"] in question.names and r.get("value") is None and r.get("note")]
    absent = [r for r in records if "missing" in r and r["name"].startswith(tuple(question.absent))]
    read = [r for r in records if r["name"] in question.names and r.get("value") is not None]
    seen = {str(value) for r in read for value in r.get("where", {}).values()}
    reasons: dict[str, list[str]] = {}
    for name, why in [(r["name"], r["note"]) for r in found] + [
        (_absent(r["name"], seen), r["missing"]) for r in absent
    ]:
        reasons.setdefault(_because(why), []).append(name)
    told = [f"{'; '.join(_together(names))} ({why})" for why, names in reasons.items()]
    return f"Not here: {'; '.join(told)}." if told else ""


def _absent(name: str, seen: Collection[str]) -> str:
    """What could not be read, without the words that its chart already says.

    >>> _absent("late attention off, length 12", ()), _absent("swap of the entropy axis at blocks.3.residual", ())
    ('length 12', 'entropy axis')
    """
    basis, at, place = name.removeprefix("swap of the ").partition(" at ")
    if at and basis in seen:  # it could be read elsewhere
        return f"{basis} {spoken({'place': place})}"
    return basis.rpartition(", ")[2]


def _because(why: str) -> str:
    """A reason in a few words; the line of an error, which speaks to who typed it, as a statement.

    >>> _because("length = 12: must be at most symbols = 8 when keys are drawn without replacement.")
    'no such length here'
    >>> _because("not identifiable: position alone fixes the entropy here")
    'position alone fixes the entropy'
    """
    why = re.sub(r"^(\w+) = [^:]*: must .*", r"no such \1 here", why.rstrip(".").removeprefix("not identifiable: "))
    return why if why.startswith("no such") else why.removesuffix(" here")


def _together(names: Iterable[str]) -> list[str]:
    """Names that differ by their last number alone, as one; each said once.

    >>> _together(["length 12", "length 20", "length 12", "role: memory"])
    ['length 12 and 20', 'role: memory']
    """
    stems: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        stem = re.sub(r"\d+$", "", name)
        stems.setdefault(stem, []).append(name.removeprefix(stem))
    return [stem + enumerated(ends) for stem, ends in stems.items()]


def places(records: Sequence[Record], name: str, **where: Any) -> dict[str, list[Record]]:
    """Readings of one kind by place; each place has one reading per surveyed seed."""
    kept = [r for r in records if r["name"] == name and r.get("value") is not None and _agrees(r, where)]
    spots = [{k: v for k, v in r.get("where", {}).items() if k not in where} for r in kept]
    same = {k for spot in spots for k in spot if all(other.get(k) == spot[k] for other in spots)}
    found: dict[str, list[Record]] = {}
    for record, spot in zip(kept, spots, strict=True):
        telling = {k: v for k, v in spot.items() if k not in same}  # what all places share tells none apart
        found.setdefault(spoken(telling if telling.keys() - set(_SAID) else spot), []).append(record)
    return found


def _agrees(record: Record, where: Mapping[str, Any]) -> bool:
    return all(record.get("where", {}).get(key) == value for key, value in where.items())


def spoken(where: Mapping[str, Any]) -> str:
    """A place in a few words.

    >>> spoken({"seed": 0, "stream": "values", "layer": 3, "head": "mean"})
    'values, layer 3, head mean'
    """
    told = {k: " ".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for k, v in where.items()}
    return ", ".join(part_in_words(k, v) for k, v in told.items() if k not in _SAID) or "the whole network"


def less_own_null(record: Record, which: str) -> float:
    """A reading less the mean of one of its own nulls: what is left of both where nulls are `MOVED`."""
    return from_json(record["value"]) - null_mean(record, which)


def dots(title: str, groups: Mapping[str, Sequence[Record]], marks: Sequence[tuple[float, str]] = ()) -> Panel | None:
    """A panel with one row per place; None if there is none."""
    if not groups:
        return None
    nulls: dict[str, list[tuple[str, np.ndarray]]] = {}
    for row, records in groups.items():
        for null in dict.fromkeys(name for record in records for name in record["nulls"]):
            drawn = [from_json(v) for record in records for v in record["nulls"].get(null, [])]
            nulls.setdefault(null, []).append((row, np.array(drawn)))
    series = [_null(null, found) for null, found in nulls.items()]
    own = [over_seeds(list(records)) for records in groups.values()]
    value, low, high = ([getattr(one, part) for one in own] for part in ("mean", "low", "high"))
    series.append(Series("measured", value, list(groups), low, high, "measured", "points", across=True))
    everything = [record for records in groups.values() for record in records]
    unit = everything[0].get("unit") or ""  # shares and correlations have none: the title says it
    ends = bounds(everything[0]["name"])
    return Panel(title, unit, "place", series=series, marks=marks, note=significance(everything), bounds=ends)


def bounds(name: str) -> tuple[float | None, float | None] | tuple[()]:
    """Between what a reading of that name must lie.

    >>> bounds("PC1 share"), bounds("belief decoded, R²"), bounds("bits lost to ablation")
    ((0.0, 1.0), (None, 1.0), ())
    """
    if name.startswith(("key cosine", "PC1 share")):
        return 0.0, 1.0
    most_one = name.endswith((", R²", ", PC1")) or name.startswith("adjusted Rand")  # PC1 alone: of an R² along it
    return (None, 1.0) if most_one else ()


def _null(name: str, found: Sequence[tuple[str, np.ndarray]]) -> Series:
    """The mean of a null's draws in each place, and the range that they span."""
    mean, low, high = ([float(read(drawn)) for _, drawn in found] for read in (np.mean, np.min, np.max))
    return Series(f"null: {name}", mean, [row for row, _ in found], low, high, name, "null", across=True)


def significance(records: Sequence[Record]) -> str:
    """How many readings lie beyond their closest null, and the least p that its draws allow."""
    told = [record for record in records if record.get("p_value") is not None]
    if not told:
        return ""
    beyond = sum(record["p_value"] <= ALPHA for record in told)
    line = f"p ≤ {ALPHA} in {beyond} of {len(told)} reading{'s' * (len(told) != 1)} (places × seeds)"
    floors = [
        (least_p(count, record.get("side", "above")), count) for record in told if (count := _draws(record)) >= COUNTED
    ]
    if not floors:
        return line + "."
    least, draws = min(floors)
    return f"{line}; counted over {draws} draws, p cannot be below {least:.2g}."


def _draws(record: Record) -> int:
    """Draws of the null that the p-value is of; a study keeps fewer values than it drew, and their number."""
    null = record.get("strongest_null")
    return record.get("draws", {}).get(null, len(record["nulls"].get(null, ())))
