"""What was seen is kept beside the runs where that can be, and only where there is something new."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from windtunnel.report import __main__ as exhibits_alone
from windtunnel.report import read
from windtunnel.report.own_shares import KEY
from windtunnel.report.page import render


@pytest.fixture
def closed(demo, tmp_path) -> Path:
    """A folder with one run, in which no exhibit can be written: there is a file where their folder must be."""
    shutil.copytree(demo / "runs" / "urn-transformer", tmp_path / "closed" / "runs" / "mine")
    (tmp_path / "closed" / "exhibits").write_text("")
    return tmp_path / "closed"


def test_a_folder_that_cannot_be_written_to_is_shown_all_the_same(closed):
    said: list[str] = []
    found = read(closed, with_zoo=False, say=said.append)
    assert "share" in found.exhibits["mine"][KEY] and 'id="primitives"' in render(found)
    told = "mine: not kept for the next time: "
    lines = [line for line in said if line.startswith(told)]
    assert len(lines) == 2 and all("exhibits/mine.json: cannot be written" in line for line in lines)


def test_exhibits_alone_must_be_kept(closed, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", str(closed), "--device", "cpu"])
    assert exhibits_alone.main() == 2
    assert "exhibits/mine.json: cannot be written" in capsys.readouterr().err


def test_a_history_that_is_damaged_still_is_not_written_again(demo, tmp_path):
    run = Path(shutil.copytree(demo / "runs" / "urn-transformer", tmp_path / "mine"))
    metrics = run / "seed-0" / "metrics.jsonl"
    good = metrics.read_text()
    metrics.write_text("no")
    first = read(run, with_zoo=False).exhibits["mine"]["history"]
    path = run / "exhibits" / "mine.json"
    before = path.stat()
    assert read(run, with_zoo=False).exhibits["mine"]["history"] == first and "missing" in first
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    metrics.write_text(good)
    read(run, with_zoo=False)
    assert '"missing"' not in path.read_text()
