"""docs/map.md: every file of the package and the first sentence of what it says of itself, room by room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOMS = ("tunnels", "fidelity", "models", "training", "geometry", "mechanism", "study", "report", "cli")
"""In the order of the house: a room imports only from those before it."""


def page(root: Path) -> str:
    """The whole page, of a repository."""
    package = root / "windtunnel"
    lines = [
        "# Map of the source",
        "",
        "Written by `python docs/making/pages.py` from the files themselves; do not edit. A room imports only from"
        " those above it; [CONTRIBUTING.md](../CONTRIBUTING.md) says how to add to one.",
        "",
        *_files(package),
    ]
    for room in ROOMS:
        lines += [f"## {room}", "", _says(package / room / "__init__.py"), "", *_files(package / room)]
        for folder in sorted(path.parent for path in (package / room).glob("*/__init__.py")):
            lines += [f"### {room}/{folder.name}", "", _says(folder / "__init__.py"), "", *_files(folder)]
    return "\n".join(lines).rstrip() + "\n"


def _files(folder: Path) -> list[str]:
    found = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("__")]
    return [*(f"- `{path.name}`: {_says(path)}" for path in found), ""]


def _says(path: Path) -> str:
    """The first sentence of a file's docstring: sentences are two spaces or a line apart, abbreviations one."""
    told = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(re.split(r"(?<=[.?!])(?:  |\n)", told.split("\n\n")[0])[0].split())
