"""Runs that several command tests read.  They are trained once per process and must not be written to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import windtunnel as wt
from tests.cli.surveyed import ALIKE

QUICK = {"batch": 8, "validate_every": 5, "validation_episodes": 32, "checkpoint_every": 5, "ladder": 3}


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A folder with two finished runs: `deep/bijection` (two seeds, 12 steps) and `hmm` (one seed, any length)."""
    folder = tmp_path_factory.mktemp("runs")
    small = {"preset": "quick", "device": "cpu", **QUICK}
    bijection = wt.tunnels.Bijection(symbols=4, length=4)
    wt.train(bijection, "transformer", out=folder / "deep" / "bijection", steps=12, seeds=2, params=2000, **small)
    hmm = wt.tunnels.HMM(states=2, symbols=3, length=4)
    options = {"positions": "none", "params": 2000}
    wt.train(hmm, "transformer", out=folder / "hmm", steps=10, seeds=1, **options, **small)
    return folder


@pytest.fixture
def output(capsys, monkeypatch):
    """Run a command that must succeed in silence but for its output, which comes back at a fixed width."""
    from windtunnel.cli.main import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        said = capsys.readouterr()
        assert said.err == "" and "\x1b" not in said.out
        return said.out

    return run


@pytest.fixture
def refusal(capsys):
    """The one line that a wrong command prints."""
    from windtunnel.cli.main import main

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("windtunnel: error: ") and said.err.endswith("\n")
        assert said.err.count("\n") == 1 and "Traceback" not in said.err
        return said.err

    return run


@pytest.fixture
def place(runs, tmp_path):
    """A run of one's own to write into."""
    shutil.copytree(runs / "hmm", tmp_path / "hmm")
    return tmp_path / "hmm"


@pytest.fixture
def inspected(capsys, monkeypatch):
    """Run `inspect` on a CPU, small; gives what it printed, and the lines that it said beside."""
    from windtunnel.cli.main import main

    monkeypatch.setenv("COLUMNS", "300")

    def run(*words: object) -> tuple[str, list[str]]:
        assert main(["inspect", *map(str, words), *ALIKE]) == 0
        said = capsys.readouterr()
        return said.out, said.err.splitlines()

    return run
