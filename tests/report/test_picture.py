"""The README's picture: made by a committed command, small, and of the committed study."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from windtunnel.report import Source, read
from windtunnel.report.verdicts import LABELS, SIGNS, headline, tally
from windtunnel.report.words import interval
from windtunnel.study.folder.results import StudyFolder

HOME = Path(__file__).resolve().parents[2]
PICTURE = HOME / "docs" / "page.png"


COMMAND = "benchmarks/report_picture.py results/paper/report.html docs/page.png"


def test_the_readme_shows_the_picture_and_contributors_are_told_how_it_is_made():
    readme, rules = ((HOME / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    assert "(docs/page.png)" in readme and "`.venv/bin/windtunnel report results/paper`" in readme
    assert f"`.venv/bin/python {COMMAND}`" in rules
    assert PICTURE.stat().st_size < 400_000
    assert Image.open(PICTURE).width > 1400


def test_the_picture_shows_what_the_committed_study_says():
    """The words in it are kept in the file; no browser is needed to hold them to the results."""
    study = StudyFolder(HOME / "results" / "paper")
    source = Source(study.path, study.head(), study.cells(), study.ledger())
    seen = Image.open(PICTURE).text["Description"]
    anew = f"is stale: windtunnel report results/paper && python {COMMAND}"
    for line in headline(source):
        assert line in seen, f"docs/page.png {anew}"
    for outcome, count in tally(source).items():
        assert f"{SIGNS[outcome]} {LABELS[outcome]} {count}" in seen, f"docs/page.png {anew}"
    shown = [entry for entry in source.ledger if entry["claim"] in seen]
    assert len(shown) >= 3
    for entry in shown:
        told = f"{entry['verdict']} {entry['claim']} published {entry['published']} here {entry['of']} "
        assert f"{told}{interval(entry['value'])}" in seen, f"docs/page.png {anew}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_command_makes_one(browser, demo, tmp_path, scheme):
    command = [sys.executable, HOME / "benchmarks" / "report_picture.py", demo / "report.html", tmp_path / "new.png"]
    told = subprocess.run([*command, "--scheme", scheme], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.startswith(f"{tmp_path / 'new.png'}: ")
    picture = Image.open(tmp_path / "new.png").convert("L")
    assert picture.width > 1400 and picture.height > 600
    assert (picture.getpixel((2, 2)) > 200) == (scheme == "light")
    assert headline(read(demo, with_zoo=False))[0] in Image.open(tmp_path / "new.png").text["Description"]
