"""benchmarks/gpu_tests.py runs every test that needs a GPU, and nothing that a bare image could not import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_tests  # noqa: E402

from windtunnel import environment  # noqa: E402


def test_no_file_with_tests_for_a_gpu_is_left_out(request):
    """Of those that were collected together with this one: all, where the whole suite runs."""
    asked = {item.path for item in request.session.items if item.get_closest_marker("gpu")}
    assert asked <= {*gpu_tests.files().values()}


def test_those_that_take_longest_begin_and_are_cut_in_two():
    names = list(gpu_tests.files())
    assert {*names[: len(gpu_tests.CUT)]} == {*gpu_tests.CUT}
    assert gpu_tests.words_for("training/test_bfloat16") == [
        ["tests/training/test_bfloat16.py", "-k", "gradient"],
        ["tests/training/test_bfloat16.py", "-k", "not gradient"],
    ]
    assert gpu_tests.words_for("models/test_taps") == [["tests/models/test_taps.py"]]


def test_what_they_say_is_kept_and_a_failure_told_in_one_line(monkeypatch, tmp_path, capsys):
    """On planted files: one passes, one fails, and a half of a third has nothing in it."""
    folder = tmp_path / "tests" / "room"
    folder.mkdir(parents=True)
    head = "import pytest\npytestmark = pytest.mark.gpu\n"
    for name, body in {
        "good": "import warnings\ndef test_a(): warnings.warn('where')",
        "bad": "def test_b(): assert 0",
        "cut": "def test_c(): pass",
    }.items():
        (folder / f"test_{name}.py").write_text(f"{head}{body}\n")
    (folder / "test_other.py").write_text("import no_such_module\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: x\n")
    monkeypatch.setattr(gpu_tests, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_tests, "CUT", {"room/test_cut": "no_such_word"})
    monkeypatch.setattr(gpu_tests, "require_device", lambda device: "cpu")
    monkeypatch.setattr(gpu_tests, "environment", lambda device: environment.environment("cpu"))
    monkeypatch.setattr(sys, "argv", ["gpu_tests.py", "--workers", "2", "--out", str(tmp_path / "said.txt")])
    with pytest.raises(gpu_tests.InputError, match=r"^failed: tests/room/test_bad\.py; what they said is above$"):
        gpu_tests.main()
    said, kept = capsys.readouterr().out, (tmp_path / "said.txt").read_text()
    assert "3 of 4 passed in" in said and "tests/room/test_good.py: 1 passed" in said and "assert 0" in said
    assert kept.startswith("# ") and "2 processes at once" in kept
    assert kept.count("$ python -m pytest -q -m gpu ") == 4 and "1 failed" in kept
    assert "  tests/room/test_good.py:4: UserWarning: where" in kept and str(tmp_path) not in kept
