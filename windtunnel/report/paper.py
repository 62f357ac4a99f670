"""Charts for print: the descriptions that the page draws, by matplotlib, in colours that survive a grey printer."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np

from windtunnel.report.chart import Chart, Cloud, Heat, Panel, Series
from windtunnel.report.palette import CONTINUOUS, KEYS, LIGHT, SEQUENTIAL

DASHES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "D", "^", "v", "P")
HOLLOW = ("o", "s", "D", "^", "x", "*")
INK, SOFT = "#1a1e24", "#6b7280"
LEAST = 1e-9  # bits; what is smaller is rounding, and has no place on a log axis
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
}


def draw(chart: Chart, view: str) -> Any:
    """A matplotlib figure of one view of a chart."""
    import matplotlib
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    panels = chart.views[view]
    columns = len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3
    rows = math.ceil(len(panels) / columns)
    tallest = max(_height(panel) for panel in panels)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * columns if columns > 1 else 4.2, 0.35 + tallest * rows), layout="constrained")
        figure.suptitle(f"{chart.title}: {view}", fontsize=9)
        for index, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, index + 1)
            axes.set_title("\n".join(textwrap.wrap(panel.title, 44)))
            if panel.heat is not None:
                _heat(figure, axes, panel.heat)
            elif panel.cloud is not None:
                _cloud(figure, axes, panel.cloud)
            else:
                _lines(axes, panel)
    return figure


def _height(panel: Panel) -> float:
    """Inches."""
    rows = {y for series in panel.series for y in series.y if isinstance(y, str)}
    return max(1.6, 0.9 + 0.3 * len(rows)) if rows else 2.7


def _lines(axes: Any, panel: Panel) -> None:
    named = [y for series in panel.series for y in series.y if isinstance(y, str)]
    places = {name: index for index, name in enumerate(dict.fromkeys(named))}
    used: dict[int, int] = {}
    references = nulls = 0
    for series in panel.series:
        x = _seen(series.x, panel.log_x)
        y = [places[v] if isinstance(v, str) else v for v in _seen(series.y, panel.log_y)]
        if series.role == "reference":
            style = {"color": SOFT, "lw": 0.9, "ls": DASHES[1 + references % 5], "label": series.name}
            if places:
                axes.axvline(x[0], **style)
            else:
                axes.plot(x, y, marker="_" if len(x) == 1 else None, **style)
            references += 1
        elif series.role == "exact":
            axes.plot(x, y, color=INK, lw=2.0, label=series.name)
        elif series.role == "null":
            head = series.key == "head"
            label = ("single heads" if series.name == "head 0" else None) if head else series.name
            face = {} if HOLLOW[nulls % 6] == "x" else {"facecolors": "none"}
            axes.scatter(x, y, s=14, marker=HOLLOW[0 if head else nulls % 6], color=SOFT, lw=0.8, label=label, **face)
            nulls += not head
        else:
            hue = KEYS.get(series.key, 5)
            used[hue] = used.get(hue, -1) + 1
            _measured(axes, series, x, y, hue, used[hue], bool(places), panel)
    for at, words in panel.marks:
        axes.axvline(at, color=INK, lw=0.8, ls="--")
        axes.annotate(f" {words}", (at, 1.0), xycoords=("data", "axes fraction"), va="top", fontsize=7)
    axes.set(xlabel=panel.x, xscale="log" if panel.log_x else "linear")
    if not panel.log_x and all(isinstance(x, int) for series in panel.series for x in series.x):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if places:
        axes.set_yticks(range(len(places)), ["\n".join(textwrap.wrap(name, 30)) for name in places])
        axes.set_ylim(len(places) - 0.4, -0.6)
    else:
        axes.set(ylabel=panel.y, yscale="log" if panel.log_y else "linear")
    axes.grid(color="#e5e7eb", lw=0.5)
    axes.set_axisbelow(True)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28 if not places else -0.35), ncols=2)


def _measured(axes: Any, series: Series, x: list, y: list, hue: int, before: int, placed: bool, panel: Panel) -> None:
    """A line with its band, or points with their intervals."""
    style = {"color": LIGHT[hue], "marker": MARKERS[(hue + before) % 6], "ms": 3.5, "lw": 1.3}
    if series.role == "line":
        axes.plot(x, y, ls=DASHES[before % 6], label=series.name, **style)
        if series.low is not None and series.high is not None:
            low, high = (_seen(end, panel.log_y) for end in (series.low, series.high))
            axes.fill_between(x, np.array(low, float), np.array(high, float), color=LIGHT[hue], alpha=0.15, lw=0)
        return
    spread: dict[str, Any] = {}
    if series.low is not None and series.high is not None:
        middle = np.array(x if series.across else y, float)
        ends = np.array([middle - np.array(series.low, float), np.array(series.high, float) - middle])
        spread["xerr" if series.across else "yerr"] = np.nan_to_num(np.maximum(ends, 0.0))
    line = "none" if placed or len(x) < 2 else DASHES[before % 6]
    label = None if placed and series.key != "measured" else series.name
    axes.errorbar(x, y, ls=line, capsize=2, elinewidth=1.0, label=label, **style, **spread)


def _seen(values: Any, log: bool) -> list:
    """Numbers as they may stand on the axis; words stay words."""
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        else:
            seen = math.nan if value is None else float(value)
            found.append(seen if math.isfinite(seen) and (not log or seen > LEAST) else math.nan)
    return found


def _heat(figure: Any, axes: Any, heat: Heat) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    table = np.array([[np.nan if v is None else v for v in row] for row in heat.values], dtype=float)
    low = heat.low if heat.low is not None else min(0.0, float(np.nanmin(table)))
    high = heat.high if heat.high is not None else float(np.nanmax(table))
    colours = LinearSegmentedColormap.from_list("little to much", SEQUENTIAL)
    picture = axes.imshow(table, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(heat.columns)), heat.columns, rotation=45, ha="right")
    axes.set_yticks(range(len(heat.rows)), heat.rows)
    if table.size <= 60:
        for (i, j), value in np.ndenumerate(table):
            ink = "white" if high > low and (value - low) / (high - low) > 0.55 else INK
            axes.text(
                j, i, "" if np.isnan(value) else f"{value:.2g}", ha="center", va="center", fontsize=6.5, color=ink
            )
    figure.colorbar(picture, ax=axes, label=heat.unit, shrink=0.8)


def _cloud(figure: Any, axes: Any, cloud: Cloud) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    if cloud.outline:
        ring = np.array([*cloud.outline, cloud.outline[0]])
        axes.plot(ring[:, 0], ring[:, 1], color=SOFT, lw=0.8)
        for (x, y), name in zip(cloud.outline, cloud.corners, strict=True):
            axes.text(1.13 * x, 1.13 * y, name, ha="center", va="center")
        axes.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.25, 1.3))
        axes.axis("off")
    title, values = next(iter(cloud.colours.items()))
    x, y = np.array(cloud.x, float), np.array(cloud.y, float)
    if isinstance(values[0], str):
        for index, name in enumerate(sorted(set(map(str, values)))):
            kept = np.array([value == name for value in values])
            axes.scatter(x[kept], y[kept], s=5, color=LIGHT[index % 6], marker=MARKERS[index % 6], alpha=0.7, lw=0)
        return
    colours = LinearSegmentedColormap.from_list("low to high", CONTINUOUS)
    picture = axes.scatter(x, y, c=np.array(values, float), s=7, cmap=colours, lw=0.2, edgecolors=SOFT)
    axes.set(xlabel="PC1", ylabel="PC2")
    figure.colorbar(picture, ax=axes, label=title, shrink=0.8)
