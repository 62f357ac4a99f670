"""How results look: bars, numbers, tables, JSON.  Only this file and `progress.py` know rich, imported when needed."""

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

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from windtunnel.fidelity import Estimate

LEVELS = "▁▂▃▄▅▆▇█"
BARS_LEGEND = "bars: one per outcome, █ for a probability of 7/8 or more, · for under 0.005"
ROUNDING = 1e-12  # bits; what is smaller stands for 0
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


def number(value: float, digits: int = 3) -> str:
    """At least four decimals and `digits` significant digits; 0 for what is only rounding; ∞.

    >>> number(0.41371), number(0.001412), number(7.5e-05), number(2e-16), number(math.inf)
    ('0.4137', '0.00141', '7.50e-05', '0', '∞')
    """
    if math.isinf(value):
        return "∞"
    if abs(value) < ROUNDING:
        return "0"
    return f"{value:.4f}" if abs(value) >= 10.0 ** (digits - 4) else f"{value:#.{digits}g}"


def estimate(value: Estimate) -> str:
    """A mean and half the width of its interval, `0.0471 ±0.0009`."""
    if math.isinf(value.mean) or math.isnan(value.high - value.low):
        return number(value.mean)
    return f"{number(value.mean)} ±{number((value.high - value.low) / 2, digits=2)}"


def interval(value: Estimate) -> str:
    """`0.0461 to 0.0480`."""
    return f"{number(value.low)} to {number(value.high)}"


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


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], justify: str) -> None:
    """Print a table; `justify` has an l or r for every column."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)  # two blanks between columns, so that more fits into 80
    for column, side in zip(columns, justify, strict=True):
        table.add_column(column, justify="right" if side == "r" else "left", overflow="fold", no_wrap=not table.columns)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, with the versions that made it.  It holds no NaN: infinity is the string "inf"."""
    versions = {"windtunnel": __version__, "torch": version("torch"), "python": platform.python_version()}
    print(json.dumps({**document, "versions": versions}, allow_nan=False))
