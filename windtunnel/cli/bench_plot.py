"""A benchmark's result as one figure: throughput per case, seeds together, growth, and the parts of a step."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError
from windtunnel.training.files import write_bytes
from windtunnel.training.speed.growth import AXES
from windtunnel.training.speed.parts import PARTS
from windtunnel.training.speed.tables import headline


def require_picture(path: Path, sections: Sequence[str]) -> None:
    """Raise unless one of the sections has a panel."""
    if not PANELS.keys() & {*sections}:
        found = ", ".join(map(repr, sections)) or "none"
        raise InputError(f"--plot {path}: must have a section to draw ({', '.join(PANELS)}), but has {found}")


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the figure; sections that were not measured have no panel."""
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    sections = [section for section in PANELS if result.get(section)]
    require_picture(path, sections)  # time may have left no row in any of them
    panels = [(section, panel) for section in sections for panel in PANELS[section]]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 4.2 * rows), layout="constrained")
    figure.suptitle(headline(result), fontsize=9)
    for number, (section, panel) in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
        try:
            panel(axes, result[section])
        except LookupError as error:  # a result that was read: a table goes without what a row lacks
            raise InputError(f"--plot {path}: every row of {section} must have {error}") from None
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:])
    write_bytes(path, picture.getvalue())


def _training(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Dots: on a scale of factors a bar has no foot to stand on."""
    names = [row["case"] + (f", {row['seeds']} seeds" if row["seeds"] > 1 else "") for row in rows][::-1]
    rates = [row["sequences_per_s"] for row in rows][::-1]
    axes.plot(rates, names, "o")
    for name, rate, row in zip(names, rates, rows[::-1], strict=True):
        told = f"{rate:,.0f} · {100 * row['share_of_peak']:.0f}%"
        axes.annotate(told, (rate, name), (6, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set(xscale="log", xlabel="sequences/s · share of the matrix rate", title="training")
    axes.set_xlim(min(rates) / 1.5, max(rates) * 4)  # room for the numbers
    _plain_ticks(axes.xaxis)
    axes.grid(axis="x", which="both", alpha=0.25)


def _seeds(axes: Any, rows: list[dict[str, Any]]) -> None:
    names = [f"{row['case']}, {row['batch']}" for row in rows][::-1]
    several = rows[0]["seeds"]
    told = {"cost_of_one": f"{several} seeds together", "cost_of_batch": f"one seed, {several} times the batch"}
    for (field, label), mark in zip(told.items(), ("o", "D"), strict=True):
        axes.plot([row[field] for row in rows][::-1], names, mark, markersize=5, label=label)
    axes.set(xlabel="cost against one seed", title="seeds", xlim=(0, None))
    axes.grid(axis="x", alpha=0.25)
    axes.legend(fontsize=7, loc="best")


def _time(axes: Any, rows: list[dict[str, Any]]) -> None:
    _grow(axes, rows, "ms_per_step", "time")


def _memory(axes: Any, rows: list[dict[str, Any]]) -> None:
    _grow(axes, rows, "memory_mib", "memory")


def _grow(axes: Any, rows: list[dict[str, Any]], field: str, what: str) -> None:
    for axis in AXES:
        mine = [row for row in rows if row["axis"] == axis]
        if len(mine) > 1 and mine[0][field]:  # a step that fits into what was held anyway has no memory of its own
            sizes = [row["size"] / mine[0]["size"] for row in mine]
            axes.plot(sizes, [row[field] / mine[0][field] for row in mine], marker="o", label=axis)
    most = max(row["size"] / next(r["size"] for r in rows if r["axis"] == row["axis"]) for row in rows)
    axes.plot([1, most], [1, most], color="grey", linestyle=":", label="in proportion")
    axes.set(xscale="log", yscale="log", xlabel="size, relative", ylabel=f"{what} of a step, relative")
    axes.set_title(f"growth: {what}")
    for side in (axes.xaxis, axes.yaxis):
        _plain_ticks(side, base=2)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7)


def _plain_ticks(axis: Any, base: int = 10) -> None:
    """1, 2, 4 or 10,000, 30,000, 100,000 in place of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base, (1.0,) if base == 2 else (1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1 else f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def _profile(axes: Any, rows: list[dict[str, Any]]) -> None:
    bottom = [0.0] * len(rows)
    for part in PARTS:
        heights = [row[f"{part}_ms"] for row in rows]
        axes.bar([row["case"] for row in rows], heights, bottom=bottom, label=part)
        bottom = [below + height for below, height in zip(bottom, heights)]
    axes.set(ylabel="ms", title="parts of a step")
    axes.tick_params(axis="x", rotation=20)
    axes.legend(fontsize=7)


PANELS = {"training": (_training,), "seeds": (_seeds,), "growth": (_time, _memory), "profile": (_profile,)}
"""Section -> its panels; the other sections are tables only."""
