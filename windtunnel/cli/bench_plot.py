"""A benchmark's result as one figure: throughput per case, growth along each axis, and the parts of a step."""

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
        found = ", ".join(map(repr, sections)) or "none of them"
        raise InputError(f"--plot {path}: must have a section to draw ({', '.join(PANELS)}), but there is {found}")


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the figure; sections that were not measured have no panel."""
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    sections = [section for section in PANELS if result.get(section)]
    require_picture(path, sections)  # time may have left no row in any of them
    figure = Figure(figsize=(5.2 * len(sections), 4.2), layout="constrained")
    figure.suptitle(headline(result), fontsize=9)
    for number, section in enumerate(sections, 1):
        try:
            PANELS[section](figure.add_subplot(1, len(sections), number), result[section])
        except LookupError as error:  # a result that was read: a table goes without what a row lacks
            raise InputError(f"--plot {path}: every row of {section} must have {error}") from None
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:])
    write_bytes(path, picture.getvalue())


def _training(axes: Any, rows: list[dict[str, Any]]) -> None:
    names = [row["case"] + (f", {row['seeds']} seeds" if row["seeds"] > 1 else "") for row in rows][::-1]
    rates = [row["sequences_per_s"] for row in rows][::-1]
    bars = axes.barh(names, rates)
    axes.bar_label(bars, [f" {100 * row['share_of_peak']:.0f}%" for row in rows][::-1], fontsize=7)
    axes.set(xscale="log", xlabel="sequences/s (label: share of the matrix rate)", title="training")
    axes.xaxis.set_minor_formatter("")
    axes.tick_params(axis="y", labelsize=7)


def _growth(axes: Any, rows: list[dict[str, Any]]) -> None:
    for axis in AXES:
        mine = [row for row in rows if row["axis"] == axis]
        if len(mine) > 1:
            sizes = [row["size"] / mine[0]["size"] for row in mine]
            axes.plot(sizes, [row["ms_per_step"] / mine[0]["ms_per_step"] for row in mine], marker="o", label=axis)
    most = max(row["size"] / next(r["size"] for r in rows if r["axis"] == row["axis"]) for row in rows)
    axes.plot([1, most], [1, most], color="grey", linestyle=":", label="in proportion")
    axes.set(xscale="log", yscale="log", xlabel="size, relative", ylabel="time of a step, relative", title="growth")
    axes.legend(fontsize=7)


def _profile(axes: Any, rows: list[dict[str, Any]]) -> None:
    bottom = [0.0] * len(rows)
    for part in PARTS:
        heights = [row[f"{part}_ms"] for row in rows]
        axes.bar([row["case"] for row in rows], heights, bottom=bottom, label=part)
        bottom = [below + height for below, height in zip(bottom, heights)]
    axes.set(ylabel="ms", title="parts of a step")
    axes.tick_params(axis="x", labelsize=7, rotation=20)
    axes.legend(fontsize=7)


PANELS = {"training": _training, "growth": _growth, "profile": _profile}
"""Section -> how it is drawn; the others are tables only."""
