"""Print figures: every chart of the page, each view as PDF and PNG with its numbers as CSV, and the primitives table.

They are the paper's figures with what it left out: baselines, intervals and nulls.  The numbers are those of the page:
all of the view, also of recipes for which there is no room on paper.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError, require_choice
from windtunnel.report.chart import Chart, Cloud, Panel, Table, crowded, tidy, to_plain
from windtunnel.report.missing_parts import FIDELITY, GEOMETRY, MECHANISM, Lack
from windtunnel.report.print_charts import STYLE, draw
from windtunnel.report.print_tables import draw_primitives
from windtunnel.report.sections import sections
from windtunnel.report.shares import primitives, primitives_table
from windtunnel.report.source import Source

KINDS = ("pdf", "png")
DPI = 200
FIGURES = ("primitives", *FIDELITY, "capacity", *GEOMETRY, *MECHANISM, "head-distribution", "subspaces")
"""Every figure that there may be; which of them have numbers, only a source can tell."""
LONGEST = 100  # letters of a file's name; with folder and ending it must fit where 255 are allowed


def names(source: Source) -> list[str]:
    """Figures for which there are numbers."""
    table = ["primitives"] if primitives(source).rows else []
    return table + [chart.id for section in sections(source) for chart in section.charts]


def require_figures(only: Sequence[str]) -> None:
    """Refuse names that no figure has: before the minutes of looking into networks."""
    if not only:
        raise InputError(f"only = '': must name at least one of {', '.join(FIGURES)}")
    for name in only:
        require_choice("only", name, FIGURES)


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
    table, taken = primitives(source), {"primitives"}
    if "primitives" in wanted:
        written += _save(draw_primitives(table, STYLE), primitives_table(source), folder / "primitives", say)
    for section in sections(source):
        for chart in (chart for chart in section.charts if chart.id in wanted):
            for view, panels in chart.views.items():
                figure, numbers = draw(without_switches(chart), view), tidy(replace(chart, views={view: panels}))
                written += _save(figure, numbers, folder / _stem(chart.id, view, taken), say)
    return written


def missing(source: Source) -> list[Lack]:
    """What cannot be drawn, and which command would make it; each said once."""
    return list(dict.fromkeys(lack for section in sections(source) for lack in section.lacks))


def without_switches(chart: Chart) -> Chart:
    """On paper: a cloud with several colourings becomes several panels, and a `crowded` panel its plain recipes."""
    views = {view: [apart for panel in panels for apart in _apart(panel)] for view, panels in chart.views.items()}
    return Chart(chart.id, chart.title, chart.say, chart.summary, views, chart.picks)


def _apart(panel: Panel) -> list[Panel]:
    if crowded(panel):
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


def _save(figure: Any, numbers: Table, path: Path, say: Callable[[str], None]) -> list[Path]:
    *drawn, beside = (path.with_name(f"{path.name}.{kind}") for kind in (*KINDS, "csv"))
    for target in drawn:
        figure.savefig(target, dpi=DPI)
    with beside.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([numbers.columns, *to_plain(numbers.rows)])
    say(str(path))
    return [*drawn, beside]


def _stem(chart: str, view: str, taken: set[str]) -> str:
    """A file's name that any disk takes, and no other figure has; from now on it is taken.

    >>> taken = set()
    >>> [_stem("length", view, taken) for view in ("hmm (length 6)", "HMM, length 6", "Ωμέγα")]
    ['length-hmm-length-6', 'length-HMM-length-6-2', 'length']
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{chart}-{view}")[:LONGEST].strip("-.")
    tried = chain([plain], (f"{plain}-{k}" for k in count(2)))
    stem = next(one for one in tried if one.lower() not in taken)  # some disks do not tell A from a
    taken.add(stem.lower())
    return stem
