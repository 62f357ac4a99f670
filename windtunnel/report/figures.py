"""Print figures: every chart of the page, each view as PDF and PNG, and the primitives table.

They are the paper's figures with what it left out: baselines, intervals and nulls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel.errors import require_choice
from windtunnel.report.chart import Chart, Cloud, Panel
from windtunnel.report.palette import SEQUENTIAL
from windtunnel.report.paper import STYLE, draw
from windtunnel.report.sections import Lack, sections
from windtunnel.report.source import Source
from windtunnel.report.verdicts import LEVELS, Primitives, primitives

KINDS = ("pdf", "png")
DPI = 200
MANY = 6  # lines from which on variants are left out


def names(source: Source) -> list[str]:
    """Figures for which there are numbers."""
    table = ["primitives"] if primitives(source).rows else []
    return table + [chart.id for section in sections(source) for chart in section.charts]


def write_figures(
    source: Source,
    folder: str | Path,
    *,
    only: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Write all figures, or those named in `only`; returns their paths.  `say` is told of each."""
    wanted = names(source) if only is None else list(only)
    for name in wanted:
        require_choice("only", name, names(source))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    table = primitives(source)
    if "primitives" in wanted:
        written += _save(_primitives(table), folder / "primitives", say)
    for section in sections(source):
        for chart in (without_switches(chart) for chart in section.charts if chart.id in wanted):
            for view in chart.views:
                written += _save(draw(chart, view), folder / _file(chart.id, view), say)
    return written


def missing(source: Source) -> list[Lack]:
    """What cannot be drawn, and which command would make it."""
    return [lack for section in sections(source) for lack in section.lacks]


def without_switches(chart: Chart) -> Chart:
    """On paper: a cloud with several colourings becomes several panels, and a crowd of lines its plain recipes."""
    views = {view: [apart for panel in panels for apart in _apart(panel)] for view, panels in chart.views.items()}
    return Chart(chart.id, chart.title, chart.say, chart.summary, views, chart.picks)


def _apart(panel: Panel) -> list[Panel]:
    lines = [series for series in panel.series if series.role != "reference"]
    if len(lines) > MANY:
        return [replace(panel, series=[series for series in panel.series if not series.variant])]
    if panel.cloud is None or len(panel.cloud.colours) < 2:
        return [panel]
    cloud = panel.cloud
    return [
        Panel(
            panel.title, panel.x, panel.y, cloud=Cloud(cloud.x, cloud.y, {name: values}, cloud.outline, cloud.corners)
        )
        for name, values in cloud.colours.items()
    ]


def _save(figure: Any, path: Path, say: Callable[[str], None]) -> list[Path]:
    found = []
    for kind in KINDS:
        target = path.with_name(f"{path.name}.{kind}")
        figure.savefig(target, dpi=DPI)
        found.append(target)
    say(str(path))
    return found


def _file(chart: str, view: str) -> str:
    """A name that any disk takes."""
    return f"{chart}-{re.sub(r'[^A-Za-z0-9.-]+', '-', view).strip('-')}"


def _primitives(table: Primitives) -> Any:
    """The primitives table as a figure: shade by share, the interval written in."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    with matplotlib.rc_context(STYLE):
        width, height = 2.4 + 1.5 * len(table.columns), 0.9 + 0.42 * len(table.rows)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlim=(0, len(table.columns)), ylim=(len(table.rows), 0))
        for i, (_, _, shares) in enumerate(table.rows):
            for j, share in enumerate(shares):
                if share is None:
                    continue
                face = SEQUENTIAL[round(2 * share.level / LEVELS)]  # the darker ones would hide the text
                axes.add_patch(Rectangle((j, i), 1, 1, facecolor=face, edgecolor="white", lw=2))
                axes.text(j + 0.5, i + 0.38, f"{share.mean} {share.ends}", ha="center", va="center", fontsize=7)
                axes.text(j + 0.5, i + 0.72, share.state, ha="center", va="center", fontsize=6)
        axes.set_xticks([j + 0.5 for j in range(len(table.columns))], ["\n".join(at) for at in table.columns])
        axes.set_yticks([i + 0.5 for i in range(len(table.rows))], [row[0] for row in table.rows])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    return figure
