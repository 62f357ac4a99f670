"""How results look: bars, numbers, tables, JSON.  Only this file and `progress.py` draw with rich, imported late."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from windtunnel import __version__
from windtunnel.cli import tables
from windtunnel.cli.tables import Cell, lay_out, wrapped
from windtunnel.fidelity.printing import printed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from windtunnel.fidelity import Estimate

LEVELS = "▁▂▃▄▅▆▇█"
BARS_LEGEND = "bars: one per outcome, █ for a probability of 7/8 or more, · for under 0.005"
PIPE_WIDTH = 160  # where no terminal sets a width, and COLUMNS is not set


def bars(probabilities: Iterable[float]) -> str:
    """One character per class: a bar in eighths from ▁ to █ (7/8 or more), or · for less than half a percent.

    >>> bars([0.0, 0.01, 0.5, 1.0])
    '·▁▅█'
    """
    return "".join("·" if p < 0.005 else LEVELS[min(7, int(p * 8))] for p in probabilities)


def sparkline(values: Iterable[float]) -> str:
    """One character per value, from ▁ for 0 to █ for the largest; a blank for NaN.

    >>> sparkline([0.0, 0.5, math.nan, 1.0])
    '▁▅ █'
    """
    values = list(values)
    top = max((value for value in values if math.isfinite(value)), default=0.0) or 1.0
    return "".join(" " if math.isnan(v) else LEVELS[round(7 * min(1.0, v / top))] for v in values)


def estimate(value: Estimate) -> str:
    """A mean and half the width of its interval, `0.0471 ±0.0009`."""
    if math.isinf(value.mean) or math.isnan(value.high - value.low):
        return printed(value.mean)
    return f"{printed(value.mean)} ±{printed((value.high - value.low) / 2, digits=2)}"


def interval(value: Estimate) -> str:
    """`0.0461 to 0.0480`; nothing where there is none."""
    return "" if math.isnan(value.low) else f"{printed(value.low)} to {printed(value.high)}"


def drawn_from(episodes: int, seed: int, stream: str) -> str:
    """`20000 episodes, seed 1, stream test`."""
    return f"{episodes} episode{'s' * (episodes != 1)}, seed {seed}, stream {stream}"


def marked(picture: str, index: int) -> Text:
    """A row of bars with one of them, the truth, in another colour."""
    from rich.text import Text

    text = Text(picture)
    text.stylize("bold green", index, index + 1)
    return text


def console() -> Console:
    """Where text goes: in colour and as wide as the terminal; plain in a pipe.  NO_COLOR and COLUMNS are respected."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # main() knows what to do; rich would leave the program here

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Plain(highlight=False, markup=False, emoji=False, width=width)


def print_text(text: str, style: str = "") -> None:
    """Print text, wrapped to the width there is."""
    console().print(text, style=style)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], justify: str, spare: Sequence[str] = ()
) -> None:
    """Print a table; `justify` has an l or r for every column.  On a narrow terminal the columns with the heads in
    `spare` are left out, the first of them first, and named below."""
    from rich import box
    from rich.table import Table

    rows, screen = list(rows), console()
    layout = lay_out(columns, rows, justify, spare, screen.width)
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)  # two blanks between columns, so that more fits into 80
    for index, width in zip(layout.shown, layout.widths):
        side = "right" if justify[index] == "r" else "left"
        table.add_column(wrapped(columns[index], width), justify=side, width=width, no_wrap=True, vertical="top")
    for row in rows:
        table.add_row(*(wrapped(row[index], width) for index, width in zip(layout.shown, layout.widths)))
    screen.print(table)
    hidden = [head.replace("\n", " ") for index, head in enumerate(columns) if index not in layout.shown]
    if hidden:
        screen.print(f"not shown, for lack of width: {', '.join(hidden)}", style="dim")


def fits(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Would `print_table` show all of it, and every cell on one line?"""
    return tables.fits(columns, rows, console().width)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, with the versions that made it.  It holds no NaN: infinity is the string "inf"."""
    versions = {"windtunnel": __version__, "torch": version("torch"), "python": platform.python_version()}
    print(json.dumps({**document, "versions": versions}, allow_nan=False))
