"""Instruments' readings as a chart: every number as a solid dot with its interval, its nulls as hollow ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.report.chart import Chart, Panel, Series
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short
from windtunnel.study.evidence import over_seeds
from windtunnel.study.quantity import number

_MOST = 24  # rows of one panel
_SAID = ("seed", "method")  # parts of a place that other words already tell


@dataclass(frozen=True)
class Question:
    """A chart to be made from readings: those whose name is one of `names`; marks as those of a panel."""

    id: str
    title: str
    say: str
    names: Sequence[str]
    marks: Sequence[tuple[float, str]] = ()


def beside_nulls(source: Source, question: Question) -> Chart | None:
    """One view per subject, one panel per kind of reading."""
    views, told = {}, []
    for subject in source.ordered(source.readings):
        found = {name: places(source.readings[subject], name) for name in question.names}
        panels = [p for name, groups in found.items() if (p := dots(name, groups, question.marks)) is not None]
        if panels:
            views[subject] = panels
            first = panels[0].series[-1]
            told.append(f"{subject}: {panels[0].title} {short(first.x[0])} at {first.y[0]}")
    return Chart(question.id, question.title, question.say, listed(told), views, "network") if views else None


def places(records: Sequence[Mapping[str, Any]], name: str, **where: Any) -> dict[str, list[Mapping[str, Any]]]:
    """Readings of one kind by place; each place has one reading per surveyed seed."""
    kept = [r for r in records if r["name"] == name and r.get("value") is not None and _agrees(r, where)]
    spots = [{k: v for k, v in r.get("where", {}).items() if k not in where} for r in kept]
    same = {k for spot in spots for k in spot if all(other.get(k) == spot[k] for other in spots)}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record, spot in zip(kept, spots, strict=True):
        telling = {k: v for k, v in spot.items() if k not in same}  # what all places share tells none apart
        found.setdefault(spoken(telling if telling.keys() - set(_SAID) else spot), []).append(record)
    return found


def _agrees(record: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(record.get("where", {}).get(key) == value for key, value in where.items())


def spoken(where: Mapping[str, Any]) -> str:
    """A place in a few words.

    >>> spoken({"seed": 0, "stream": "values", "layer": 3, "head": "mean"})
    'values, layer 3, head mean'
    """
    words = []
    for key, value in where.items():
        if key in _SAID:
            continue
        told = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        told = re.sub(r"^blocks\.(\d+)\.residual$", r"after layer \1", told)
        words.append(f"{key} {told}" if key in ("layer", "layers", "head", "rank", "step", "length") else told)
    return ", ".join(words) or "the whole network"


def dots(
    title: str, groups: Mapping[str, Sequence[Mapping[str, Any]]], marks: Sequence[tuple[float, str]] = ()
) -> Panel | None:
    """A panel with one row per place; None if there is none."""
    if not groups:
        return None
    rows = list(groups)[:_MOST]
    nulls: dict[str, tuple[list[float], list[str]]] = {}
    own: list[tuple[float, float, float]] = []
    for row in rows:
        quantity = over_seeds(list(groups[row]))
        own.append((quantity.mean, quantity.low, quantity.high))
        for null in dict.fromkeys(name for record in groups[row] for name in record["nulls"]):
            drawn = [number(v) for record in groups[row] for v in record["nulls"].get(null, [])]
            x, y = nulls.setdefault(null, ([], []))
            x.append(float(np.mean(drawn)))
            y.append(row)
    series = [Series(f"null: {null}", x, y, key=null, role="null") for null, (x, y) in nulls.items()]
    value, low, high = (list(part) for part in zip(*own))
    series.append(Series("measured", value, rows, low, high, "measured", "points", across=True))
    unit = next(iter(groups.values()))[0].get("unit") or ""  # shares and correlations have none: the title says it
    return Panel(title, unit, "place", series=series, marks=marks)
