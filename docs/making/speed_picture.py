"""Draws docs/speed.png from the committed results of one GPU, as `windtunnel bench --plot` draws a result.

python docs/making/speed_picture.py [FILE]
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from speed_parts import seed_rows
from tables import load, share

from windtunnel.cli.bench_plot import draw

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = {"training": "training-2048", "growth": "growth", "profile": "profile"}
DIGEST = "Rows"
"""The field of the picture that says which rows it was drawn from."""


def merged(results: Path) -> dict[str, Any]:
    """Sections of several result files of one card; the first has the card's matrix rate.  Of seeds together only what
    was measured with nothing else on the card."""
    found = {section: load(results / f"{name}.json") for section, name in FILES.items()}
    rows = [row | {"share_of_peak": share(row)} for row in found["training"]["training"]]
    sections = {section: result[section] for section, result in found.items()} | {"training": rows}
    alone = [row for row, _ in seed_rows(sorted((results / "seeds").glob("*.json"))) if "busy_share" in row]
    return found["training"] | sections | {"seeds": alone}


def digest(result: dict[str, Any]) -> str:
    """Of the rows drawn: equal digests, equal pictures."""
    rows = {section: result[section] for section in (*FILES, "seeds")}
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def digest_in(picture: Path) -> str:
    """What `main` wrote into the picture."""
    return Image.open(picture).info.get(DIGEST, "")


def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "speed.png"
    result, note = merged(ROOT / "benchmarks" / "results" / "h200"), PngInfo()
    draw(result, picture)
    note.add_text(DIGEST, digest(result))
    with Image.open(picture) as drawn:
        drawn.load()
    drawn.save(picture, pnginfo=note, optimize=True)


if __name__ == "__main__":
    main()
