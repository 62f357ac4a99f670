"""Help pages: their text, at the width of the terminal, and the end of a command that has printed one."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping


class HelpShown(Exception):
    """A command's help was asked for and printed: there is nothing more to do."""


def paragraphs(text: str) -> str:
    """A docstring's paragraphs, filled to the width of the terminal."""
    return "\n\n".join(textwrap.fill(" ".join(part.split()), _width()) for part in text.split("\n\n"))


def listed(entries: Mapping[str, str]) -> str:
    """Names with a line about each, as a help page lists them."""
    indent = 4 + max(map(len, entries))
    return "\n".join(
        textwrap.fill(text, _width(), initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, text in entries.items()
    )


def _width() -> int:
    return min(100, shutil.get_terminal_size().columns)  # longer lines are hard to read
