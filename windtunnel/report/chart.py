"""A chart as plain data: what is drawn, not how.

One description serves two readers: the page's script draws it with Plotly in the reader's colours, `print_charts`
draws it with matplotlib for print; and both give its numbers as CSV.  A chart has one or more *views* to choose from
(a tunnel, a network), a view has panels, a panel holds lines and points, or a matrix, or a cloud.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Role = Literal["line", "points", "reference", "exact", "null"]
Number = float | int | str | None


@dataclass(frozen=True)
class Series:
    """Points (x, y), with an interval where there is one.

    key    what decides its colour and dash: an architecture, mostly; equal keys look alike in every chart
    role   line; points (with error bars, on either axis); reference (thin, grey, dashed); exact (heavy); null (hollow)
    across the interval runs along x, not along y
    variant a recipe beside the plain one of its architecture, see `crowded`
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] | None = None
    high: Sequence[Number] | None = None
    key: str = ""
    role: Role = "line"
    across: bool = False
    variant: bool = False


@dataclass(frozen=True)
class Heat:
    """A matrix with names; the value is written into each field where there is room."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Cloud:
    """Points in a plane, coloured by one of several quantities; `outline` is a polygon behind them."""

    x: Sequence[float | None]
    y: Sequence[float | None]
    colours: Mapping[str, Sequence[Number]]
    outline: Sequence[Sequence[float]] = ()
    corners: Sequence[str] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    marks   (x, words) of vertical lines;  note  what stands below it, e.g. what is not shown
    bounds  least and most that a value can be, None for no end: see `within`
    """

    title: str = ""
    x: str = ""
    y: str = ""
    log_x: bool = False
    log_y: bool = False
    series: Sequence[Series] = ()
    heat: Heat | None = None
    cloud: Cloud | None = None
    marks: Sequence[tuple[float, str]] = ()
    note: str = ""
    bounds: Sequence[float | None] = ()


def within(panel: Panel) -> Panel:
    """As it is drawn: no bar of an interval reaches what cannot be.  A t-interval does not know that a share ends at 1;
    its numbers stay as they are.  `within` in charts.js is the same.

    >>> bar = Series("measured", [0.96], ["values"], [0.84], [1.08], across=True)
    >>> within(Panel(series=[bar], bounds=(0.0, 1.0))).series[0].high
    [1.0]
    """
    if not panel.bounds:
        return panel
    least, most = (end if end is not None else sign * math.inf for end, sign in zip(panel.bounds, (-1, 1), strict=True))

    def clipped(ends: Sequence[Number] | None) -> list[Number] | None:
        if ends is None:
            return None
        return [min(max(end, least), most) if isinstance(end, float | int) else end for end in ends]

    return replace(panel, series=[replace(s, low=clipped(s.low), high=clipped(s.high)) for s in panel.series])


MANY = 6  # lines


def crowded(panel: Panel) -> bool:
    """Has it so many lines that variants wait to be asked for?  Only beside plain recipes: without one of those, as in
    a folder of somebody's own runs, nothing would be left to see.  `crowded` in charts.js is the same."""
    lines = [series for series in panel.series if series.role != "reference"]
    return len(lines) > MANY and len({series.variant for series in lines if series.role != "exact"}) > 1


@dataclass(frozen=True)
class Chart:
    """A figure of the page.

    say      one sentence that says what to see
    summary  the text alternative: what a reader who cannot see it should know
    views    name -> panels; empty where there are no numbers, and then it is not shown
    picks    names the choice between views, e.g. "tunnel"
    """

    id: str
    title: str
    say: str
    summary: str
    views: Mapping[str, Sequence[Panel]]
    picks: str = "view"

    @property
    def wide(self) -> bool:
        """Does any view need the whole width: for several panels, or for many named rows?"""
        rows = [len({y for s in p.series for y in s.y if isinstance(y, str)}) for ps in self.views.values() for p in ps]
        return max(rows, default=0) > 6 or any(len(panels) > 1 for panels in self.views.values())


@dataclass(frozen=True)
class Table:
    """Rows that can be downloaded."""

    id: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]] = field(default_factory=list)


def to_plain(value: Any) -> Any:
    """Dicts, lists, strings and numbers for JSON: six significant digits, None for what is no number."""
    if hasattr(value, "__dataclass_fields__"):
        kept = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return {
            name: to_plain(v) for name, v in kept.items() if v is not None and v != () and v != "" and v is not False
        }
    if isinstance(value, Mapping):
        return {str(name): to_plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def tidy(chart: Chart) -> Table:
    """Every number of a chart, one row each.  `tidy` in core.js is the same."""
    panels = [(view, panel) for view, found in chart.views.items() for panel in found]
    kinds = {"heat" if panel.heat else "cloud" if panel.cloud else "series" for _, panel in panels}
    if kinds == {"heat"}:
        columns = [chart.picks, "panel", "row", "column", "value"]
        return Table(chart.id, columns, [row for view, panel in panels for row in _heat_rows(view, panel)])
    if kinds == {"cloud"}:
        colours = list(dict.fromkeys(c for _, panel in panels if panel.cloud for c in panel.cloud.colours))
        columns = [chart.picks, "panel", "x", "y", *colours]
        return Table(chart.id, columns, [row for view, panel in panels for row in _cloud_rows(view, panel, colours)])
    names = {(panel.x, panel.y) for _, panel in panels}
    x, y = names.pop() if len(names) == 1 else ("x", "y")
    columns = [chart.picks, "panel", "series", x or "x", y or "y", "low", "high"]
    return Table(chart.id, columns, [row for view, panel in panels for row in _series_rows(view, panel)])


def _heat_rows(view: str, panel: Panel):
    assert panel.heat is not None
    for name, values in zip(panel.heat.rows, panel.heat.values, strict=True):
        for column, value in zip(panel.heat.columns, values, strict=True):
            yield [view, panel.title, name, column, value]


def _cloud_rows(view: str, panel: Panel, colours: list[str]):
    assert panel.cloud is not None
    for index, (x, y) in enumerate(zip(panel.cloud.x, panel.cloud.y, strict=True)):
        yield [
            view,
            panel.title,
            x,
            y,
            *(panel.cloud.colours[c][index] if c in panel.cloud.colours else None for c in colours),
        ]


def _series_rows(view: str, panel: Panel):
    for series in panel.series:
        low = series.low or [None] * len(series.x)
        high = series.high or [None] * len(series.x)
        for x, y, below, above in zip(series.x, series.y, low, high, strict=True):
            yield [view, panel.title, series.name, x, y, below, above]
