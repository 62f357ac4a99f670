"""Draws docs/speed.png from the committed results of one GPU, as `windtunnel bench --plot` draws a result.

python docs/making/speed_picture.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tables import load, share

from windtunnel.cli.bench_plot import draw

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = {"training": "training-2048", "seeds": "seeds/seeds", "growth": "growth", "profile": "profile"}


def merged(results: Path) -> dict[str, Any]:
    """Sections of files of their own, which one card has measured at several times; the first tells its rate."""
    found = {section: load(results / f"{name}.json") for section, name in FILES.items()}
    rows = [row | {"share_of_peak": share(row)} for row in found["training"]["training"]]
    return found["training"] | {section: result[section] for section, result in found.items()} | {"training": rows}


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "speed.png"
    draw(merged(ROOT / "benchmarks" / "results" / "h200"), picture)


if __name__ == "__main__":
    main()
