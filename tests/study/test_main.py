"""`python -m windtunnel.study`: the study without rich and tyro."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study.micro import micro
from windtunnel.study import presets, zoo
from windtunnel.study.__main__ import main

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "making"))

import zoo_page

BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("rich", "tyro", "jinja2", "plotly", "matplotlib"):
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
from windtunnel.study.__main__ import main
sys.exit(main(["--preset", "paper", "--device", "cpu"]))
"""


def test_it_needs_only_the_core_packages():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: preset = 'paper': must have a GPU"), done.stderr


@pytest.fixture
def study(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(presets.PRESETS, "quick", lambda: replace(micro(), preset="quick"))
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    assert main(["--out", str(tmp_path / "study"), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "3 cells finished; 0 GPU seconds in all" in said and "small-urn-lstm: KL" in said
    assert "hmm-lstm-fails" in said
    return tmp_path / "study"


def test_networks_of_a_study_go_into_the_zoo(study, capsys):
    assert main(["--out", str(study), "--export", "small-urn-lstm", "small-bijection-mlp"]) == 0
    assert zoo.names() == ["small-bijection-mlp", "small-urn-lstm"]
    assert zoo.check("small-urn-lstm", episodes=300).agrees
    assert "| small-urn-lstm | urn" in zoo_page.page()
    assert main(["--out", str(study), "--export", "nothing"]) == 2
    assert "must be a run folder" in capsys.readouterr().err
