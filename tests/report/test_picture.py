"""The README's picture: made by a committed command, and small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

HOME = Path(__file__).resolve().parents[2]
PICTURE = HOME / "docs" / "page.png"


def test_the_readme_shows_the_picture_and_says_how_it_was_made():
    text = (HOME / "README.md").read_text()
    assert "(docs/page.png)" in text and "on the quick preset" in text
    assert "benchmarks/report_picture.py results/scratch/quick/report.html docs/page.png" in text
    assert PICTURE.stat().st_size < 400_000
    assert Image.open(PICTURE).width > 1400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_command_makes_one(browser, demo, tmp_path, scheme):
    command = [sys.executable, HOME / "benchmarks" / "report_picture.py", demo / "report.html", tmp_path / "new.png"]
    told = subprocess.run([*command, "--scheme", scheme], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.startswith(f"{tmp_path / 'new.png'}: ")
    picture = Image.open(tmp_path / "new.png").convert("L")
    assert picture.width > 1400 and picture.height > 600
    assert (picture.getpixel((2, 2)) > 200) == (scheme == "light")
