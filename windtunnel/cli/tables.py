"""Tables that fit the terminal: words stay whole, numbers stay on one line, the least important columns go first.

A column is as wide as its longest line where there is room.  Where there is not, text wraps at its words; when even the
longest words do not fit side by side, columns are left out in the order the caller gives, and the reader is told which.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.text import Text

Cell: TypeAlias = "str | Text"

LONG = 24  # a word longer than this, as a path is, may be broken after a slash


@dataclass(frozen=True)
class Layout:
    """What is shown: indices of the columns, and the width of each in characters."""

    shown: list[int]
    widths: list[int]


def lay_out(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], justify: str, spare: Sequence[str], room: int
) -> Layout:
    """Which columns to show in `room` characters, and how wide.  `spare` heads go first, in that order."""
    shown = list(range(len(columns)))
    needs = [_needs(head, [row[index] for row in rows], justify[index] == "r") for index, head in enumerate(columns)]
    for head in spare:
        if _taken([needs[index][0] for index in shown]) <= room:
            break
        shown.remove(list(columns).index(head))
    least, natural = zip(*(needs[index] for index in shown), strict=True)
    return Layout(shown, _widths(list(least), list(natural), room - _taken([0] * len(shown))))


def fits(columns: Sequence[str], rows: Sequence[Sequence[Cell]], room: int) -> bool:
    """Does the table fit without leaving anything out or wrapping a cell?"""
    cells = [[*head.split("\n"), *(row[index] for row in rows)] for index, head in enumerate(columns)]
    return _taken([max(map(len, column)) for column in cells]) <= room


def wrapped(cell: Cell, width: int) -> Cell:
    """The cell with a line break wherever the next word would not fit; a picture is left as it is."""
    if not isinstance(cell, str):
        return cell
    return "\n".join(_filled(line, width) for line in cell.split("\n"))


def _needs(head: str, cells: Sequence[Cell], right: bool) -> tuple[int, int]:
    """(width with every word whole, width without any wrapping); numbers, at the right, and pictures never wrap."""
    heads = head.split("\n")
    lines = [line for cell in cells if isinstance(cell, str) for line in cell.split("\n")]
    whole = [len(cell) for cell in cells if not isinstance(cell, str)] + [len(line) for line in lines] * right
    words = [len(piece.rstrip()) for line in (heads if right else heads + lines) for piece in _pieces(line)]
    return max([*whole, *words], default=0), max([*whole, *map(len, heads + lines)])


def _widths(least: list[int], natural: list[int], room: int) -> list[int]:
    """Every column its least, then what is left over: small wants are met in full, large ones share the rest."""
    widths = list(least)
    while sum(widths) > room and max(widths) > 1:  # hopelessly narrow: words are broken, the widest column first
        widths[widths.index(max(widths))] -= 1
    spare = room - sum(widths)
    wants = sorted(range(len(widths)), key=lambda index: natural[index] - widths[index])
    for place, index in enumerate(wants):
        more = min(max(0, natural[index] - widths[index]), max(0, spare) // (len(wants) - place))
        widths[index] += more
        spare -= more
    return widths


def _taken(widths: Sequence[int]) -> int:
    """Characters of a whole row: two blanks after each column, one before the first."""
    return sum(widths) + 2 * len(widths) + 1


def _pieces(line: str) -> list[str]:
    """What may stand at the end of a line: words with their blanks; the parts of a long path."""
    pieces: list[str] = []
    for word in re.findall(r"\S+ *| +", line):
        pieces += re.findall(r"[^/]*/+|[^/]+", word) if len(word) > LONG else [word]
    return pieces


def _filled(line: str, width: int) -> str:
    lines = [""]
    for piece in _pieces(line):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        while len(piece.rstrip()) > width:  # no room for a whole word: after - or _, or else anywhere
            cut = max(piece.rfind(mark, 0, width) for mark in "-_") + 1 or width
            lines[-1], piece = piece[:cut], piece[cut:]
            lines.append("")
        lines[-1] += piece
    return "\n".join(text.rstrip() for text in lines)
