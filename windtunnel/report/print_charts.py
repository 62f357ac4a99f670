"""Charts for print: the descriptions that the page draws, by matplotlib, in colours that survive a grey printer.

All panels of a figure share one key below them, and a name looks the same in each; lines of simple predictors carry
their names at their right ends.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.report.axes import LEAST, apart, log_ticks, span
from windtunnel.report.chart import Chart, Panel, Series, within
from windtunnel.report.palette import DASHES, KEYS, LIGHT
from windtunnel.report.print_tables import INK, SOFT, draw_cloud, draw_heats, heat_size

STROKES: dict[str, Any] = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (8, 2, 1, 2)),
}
"""The page's dashes as matplotlib writes them."""
MARKERS = ("o", "s", "D", "^", "v", "P")
AROUND = 7.0  # points: a null is drawn around what was measured, so that both are seen where they are equal
LETTERS = 15  # on an inch
SMALL = 0.85  # the size of words below a panel that has a note
ROOM = 4.0  # inches for the words around a panel, before they are measured
FLOOR = 1e-6  # bits below which a line may leave its panel
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
}
Look = dict[str, Any]


def draw(chart: Chart, view: str) -> Any:
    """A matplotlib figure of one view of a chart, as large as its panels and the words around them need."""
    import matplotlib
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = [within(panel) for panel in chart.views[view]]
    columns = 1 if any(map(_rows, panels)) else _columns(len(panels))
    sizes = [_size(panel, alone=len(panels) == 1) for panel in panels]
    width = max(across for across, _ in sizes)
    heights = [max(down for _, down in sizes[i : i + columns]) for i in range(0, len(panels), columns)]
    looks = styles(panels)
    with matplotlib.rc_context(STYLE):
        ample = columns * (width + ROOM), sum(heights) + ROOM * (1 + len(heights))
        figure = Figure(figsize=ample, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0, hspace=0))
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        places = [figure.add_subplot(grid[index // columns, index % columns]) for index in range(len(panels))]
        for axes, panel in zip(places, panels, strict=True):
            axes.set_title(_wrapped(panel.title, LETTERS * width))
            if panel.cloud is not None:
                draw_cloud(figure, axes, panel.cloud, MARKERS)
            elif panel.heat is None:
                _draw_series(axes, panel, looks, width, direct=len(panels) == 1)
            else:
                axes.set_xlabel(panel.x)
        if not any(map(_rows, panels)) and len({panel.y for panel in panels}) == 1:
            _share_y([axes for axes, panel in zip(places, panels, strict=True) if panel.series])
        draw_heats(figure, [(axes, panel.heat) for axes, panel in zip(places, panels, strict=True) if panel.heat])
        whole = columns * width + _around(figure, places[:columns])[0]
        figure.set_figwidth(whole)
        title = f"{chart.title}{'' if chart.title.endswith('?') else ':'} {view}"
        figure.suptitle(_wrapped(title, 13 * whole), fontsize=9)
        handles = dict(sorted(_handles(places).items(), key=lambda item: list(looks).index(item[0])))
        if handles:
            across = max(1, min(len(handles), int(whole / (0.55 + 0.062 * max(map(len, handles))))))
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=across)
        figure.set_figheight(sum(heights) + _around(figure, places[::columns])[1])
    return figure


def _size(panel: Panel, *, alone: bool) -> tuple[float, float]:
    """Width and height of a panel within its axes; the words around them come on top."""
    if rows := _rows(panel):
        return 3.6, 0.1 + 0.2 * len(rows)
    if panel.heat is not None:
        return heat_size(panel.heat)
    return (1.9, 1.6) if panel.cloud is not None and panel.cloud.outline else (3.4 if alone else 1.9, 1.8)


def _around(figure: Any, places: Sequence[Any]) -> tuple[float, float]:
    """What the figure is wider than these axes side by side, and higher than these one below the other."""
    figure.draw_without_rendering()  # lays it out
    boxes = [axes.get_position(original=True) for axes in places]
    wide, high = figure.get_size_inches()
    return wide * (1 - sum(box.width for box in boxes)), high * (1 - sum(box.height for box in boxes))


def _wrapped(text: str, letters: float) -> str:
    return "\n".join(textwrap.wrap(text, int(letters), break_on_hyphens=False))


def _rows(panel: Panel) -> list[str]:
    """Names on the y axis, where they are names."""
    return list(dict.fromkeys(y for series in panel.series for y in series.y if isinstance(y, str)))


def _columns(panels: int) -> int:
    return panels if panels < 4 else 2 if panels == 4 else 3


def _share_y(places: Sequence[Any]) -> None:
    """Panels of the same quantity have the same axis."""
    ends = [axes.get_ylim() for axes in places]
    for axes in places:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def _handles(places: Sequence[Any]) -> dict[str, Any]:
    """Name -> what stands for it in the key; of equal names the first."""
    found: dict[str, Any] = {}
    for axes in places:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return found


def named(series: Series) -> str:
    """What a series is called in the key."""
    return "single heads" if series.key == "head" else series.name


def styles(panels: Sequence[Panel]) -> dict[str, Look]:
    """Name -> colour, dash and marker, the same in all panels; a second name of a hue gets another dash and marker."""
    looks: dict[str, Look] = {}
    used: dict[int, int] = {}
    references = nulls = 0
    for series in (series for panel in panels for series in panel.series):
        if named(series) in looks:
            continue
        if series.role == "reference":
            look: Look = {"color": SOFT, "lw": 0.9, "ls": STROKES[DASHES[1 + references % 5]]}
            references += 1
        elif series.role == "exact":
            look = {"color": INK, "alpha": 0.25, "lw": 5.0, "solid_capstyle": "butt"}
        elif series.role == "null":
            alone = series.key in ("head", "baseline")
            marker, size = MARKERS[0 if alone else nulls % 6], 4.5 if alone else AROUND
            look = {"color": SOFT, "ls": "none", "marker": marker, "mfc": "none", "ms": size, "mew": 0.9}
            nulls += not alone
        else:
            hue = KEYS.get(series.key, 5)
            before = used[hue] = used.get(hue, -1) + 1
            dash, marker = DASHES[(hue + before) % 6], MARKERS[(hue + before) % 6]
            look = {"color": LIGHT[hue], "ls": STROKES[dash], "marker": marker}
            look |= {"ms": 3.5, "lw": 1.2}
        looks[named(series)] = look
    return looks


def _draw_series(axes: Any, panel: Panel, looks: Mapping[str, Look], width: float, *, direct: bool) -> None:
    rows = {name: index for index, name in enumerate(_rows(panel))}
    for series in panel.series:
        x = _seen(series.x, panel.log_x)
        y = [rows[v] if isinstance(v, str) else v for v in _seen(series.y, panel.log_y)]
        on_axis = bool(rows) and (series.key == "baseline" or (series.role == "points" and series.key != "measured"))
        silent = on_axis or (direct and series.role == "reference")
        look = looks[named(series)] | {"label": "_" if silent else named(series)}
        if series.role == "null" and series.low is not None:
            axes.errorbar(x, y, elinewidth=0.6, **look, **_spread(series))
        elif series.role != "points":
            axes.plot(x, y, **look)
        else:
            axes.errorbar(x, y, capsize=2, elinewidth=1.0, **look | ({"ls": "none"} if rows else {}), **_spread(series))
        if series.role == "line" and series.low is not None and series.high is not None:
            low, high = (np.array(_seen(end, panel.log_y), float) for end in (series.low, series.high))
            axes.fill_between(x, low, high, color=look["color"], alpha=0.15, lw=0)
    _set_axes(axes, panel, list(rows), width)
    if direct and not rows:
        _name_references(axes, panel)


def _spread(series: Series) -> dict[str, Any]:
    """Error bars; an end that is no number has none."""
    if series.low is None or series.high is None:
        return {}
    middle = np.array(series.x if series.across else series.y, float)
    ends = np.array([middle - np.array(series.low, float), np.array(series.high, float) - middle])
    return {"xerr" if series.across else "yerr": np.where(np.isfinite(ends), np.maximum(ends, 0.0), 0.0)}


def _extent(series: Series, along: str) -> list[float]:
    """What a log axis must reach: the points, and along the rows their intervals as far as these are worth the room."""
    across = [end for end in (series.low, series.high) if along == "x" and series.across and end is not None]
    ends = [v for end in across for v in _seen(end, True) if v >= FLOOR]
    return [*_seen(getattr(series, along), True), *ends]


def _seen(values: Sequence[Any], log: bool) -> list[Any]:
    """Numbers as they may stand on the axis; words stay words."""
    numbers = [v if isinstance(v, str) else math.nan if v is None else float(v) for v in values]
    return [v if isinstance(v, str) or (math.isfinite(v) and (v > LEAST or not log)) else math.nan for v in numbers]


def _set_axes(axes: Any, panel: Panel, rows: list[str], width: float) -> None:
    small = SMALL if panel.note else 1.0
    parts = [part for part in (panel.x, *panel.note.split("\n")) if part]
    axes.set_xlabel("\n".join(_wrapped(part, LETTERS * width / small) for part in parts), fontsize=8 * small)
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    for axis, log, floor in ((axes.xaxis, panel.log_x, None), (axes.yaxis, panel.log_y, FLOOR)):
        along = "x" if axis is axes.xaxis else "y"
        if log:
            found = span([v for series in panel.series for v in _extent(series, along)], floor)
            ticks = log_ticks(*found)
            axis.set_ticks(list(ticks), list(ticks.values()))
            axis.set_ticks([], minor=True)
            (axes.set_xlim if along == "x" else axes.set_ylim)(found)
    if not panel.log_x and all(isinstance(x, int) for series in panel.series for x in series.x):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if rows:
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.4, -0.6)
    else:
        axes.set(ylabel=_wrapped(panel.y, 24))
    for at, words in panel.marks:
        axes.axvline(at, color=INK, lw=0.8, ls="--")
        axes.annotate(words, (at, 1.0), (3, 0), ("data", "axes fraction"), "offset points", va="top", fontsize=7)
    axes.grid(color="#e5e7eb", lw=0.5)
    axes.set_axisbelow(True)


def _name_references(axes: Any, panel: Panel) -> None:
    """Names beside the right ends of the lines of simple predictors, pushed apart where they would overlap."""
    scale = math.log10 if panel.log_y else float
    low, high = map(scale, axes.get_ylim())
    ends = {}
    for series in panel.series:
        known = [v for v in _seen(series.y, panel.log_y) if not math.isnan(v)]
        if series.role == "reference" and known:
            ends[series.name] = (scale(known[-1]) - low) / (high - low)
    for (name, at), put in zip(ends.items(), apart(list(ends.values()), 0.075), strict=True):
        line = {"arrowstyle": "-", "color": SOFT, "lw": 0.6, "shrinkA": 0, "shrinkB": 0}
        place = {"xycoords": "axes fraction", "textcoords": "axes fraction", "annotation_clip": False}
        axes.annotate(name, (1, at), (1.06, put), arrowprops=line, va="center", fontsize=7, color=SOFT, **place)
