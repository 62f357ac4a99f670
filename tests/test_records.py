"""The benchmark scripts run on a CPU, tell a mistake in one line, and docs/records.md tells the attempts made."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs" / "making")]

from records_page import load_attempts, page  # noqa: E402

from tests.training.cases import Compiling, broken_compiler  # noqa: E402
from windtunnel.training.speed import fidelity, rates  # noqa: E402

SCRIPTS = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py") if "__main__" in file.read_text())
SMALL = ["tunnel.length=2", "tunnel.symbols=2", "model.params=2000", "batch=16", "steps=60", "validation_episodes=32"]
BRIEF = ["--device", "cpu", "--every", "0.02", "--confirm", "64"]


def script(name: str, *words: object) -> str:
    """What a script says that must succeed, in a process of its own."""
    command = [sys.executable, f"benchmarks/{name}.py", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def changes(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture
def refusal(capsys, monkeypatch):
    """The one line with which a script refuses its words; run here, as starting torch anew takes seconds."""

    def run(name: str, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
        said = capsys.readouterr()
        assert stopped.value.code == 2 and said.out == ""
        assert said.err.startswith("error: ") and said.err.count("\n") == 1
        return said.err

    return run


def test_an_attempt_is_kept_and_told_on_the_page(tmp_path):
    folder = tmp_path / "cpu" / "records"
    targets = ["--target", "1e-9", "--target", "0.5"]
    said = script("records", "attempt", "quick", "--seeds", 2, *BRIEF, *targets, *changes(*SMALL), "--out", folder)
    assert "KL <= 0.5 bits reached by 2 of 2 seeds" in said and "KL <= 1e-09 bits reached by 0 of 2 seeds" in said
    (file,) = folder.glob("*")
    assert file.name.startswith("quick-") and f"kept in {file}" in said
    told = json.loads(file.read_text())
    assert [seed["seed"] for seed in told["seeds"]] == [0, 1] and told["targets_bits"] == [0.5, 1e-9]
    assert all("0.5" in seed["passed"] and "1e-09" not in seed["passed"] for seed in told["seeds"])
    assert told["reached"] == {"0.5": 2, "1e-09": 0} and told["confirm_episodes"] == 64
    assert told["kernels_in_use"] == []  # on a CPU

    # Two seeds hold no record; of five planted ones the target that all reached does, the other is told beside it.
    told_now = page(load_attempts(tmp_path))
    assert "No record yet." in told_now and "fewer than 5 seeds" in told_now
    told["seeds"] = [
        told["seeds"][0] | {"passed": {"0.5": {"seconds": float(second)}}, "setup_s": setup}
        for second, setup in zip(range(1, 6), (50.0, 0.5, 0.7, 0.9, 0.7), strict=True)
    ]
    (folder / "planted.json").write_text(json.dumps(told | {"date": "2030-01-01T00:00:00"}))
    standing, others = page(load_attempts(tmp_path)).split("###")
    world = "bijection symbols=2 length=2 / transformer"
    assert "set-up, s: first / later in the same process" in standing
    assert f"| {world} | 0.5 | 3.0 | 1.0 – 5.0 | 5 of 5 | 50.0 / 0.7 |" in standing and "1e-09" not in standing
    assert f"| {world} | 1e-09 | not reached |  | 0 of 5 |" in others and "reached by 0 of 5 seeds" in others
    assert "Not tried yet, out of 20 pairs: hmm-transformer," in others and "bijection-transformer," not in others
    assert ", urn-transformer, urn-mamba, urn-lstm, urn-mlp, urn-linear-attention," in others

    (folder / "planted.json").write_text(json.dumps(told | {"date": "2030-01-01T00:00:00", "cache_filled": True}))
    assert "| 5 of 5 | 50.0* / 0.7 |" in page(load_attempts(tmp_path))


def test_pairs_without_a_recipe_of_their_own_are_attempted_one_after_the_other(tmp_path):
    """Three targets, one training each: the loosest is passed at once, the strictest never."""
    words = [*BRIEF, *(word for target in ("20", "15", "1e-9") for word in ("--target", target))]
    words += changes("model.params=20000", "batch=4", "steps=2", "validation_episodes=16", "precision=float32")
    script("records", "attempt", "bijection-lstm", "recall-lstm", "--seeds", 1, *words, "--out", tmp_path)
    found = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*"))]
    assert [(told["name"], told["recipe"]["tunnel"]["name"], told["recipe"]["model"]) for told in found] == [
        ("bijection-lstm", "bijection", "lstm"),
        ("recall-lstm", "recall", "lstm"),
    ]
    for told in found:
        assert told["reached"] == {"20": 1, "15": 1, "1e-09": 0}
        (seed,) = told["seeds"]
        assert seed["steps"] == 2 and seed["curve"][-1][1] == 2


@pytest.fixture
def uncompiled(monkeypatch):
    """A machine on which networks should be compiled, as on a GPU, and cannot be."""
    for module in (fidelity, rates):
        monkeypatch.setattr(module, "Engine", Compiling)
    monkeypatch.setattr(torch, "compile", broken_compiler)


def test_an_attempt_that_does_not_compile_is_one_line(uncompiled, refusal, tmp_path):
    line = refusal("records", "attempt", "quick", *BRIEF, *changes(*SMALL), "--out", tmp_path)
    assert line.startswith("error: not measured") and line.endswith(": no compiler here\n")


def test_a_table_with_a_row_missing_is_kept_and_no_success(uncompiled, capsys, monkeypatch, tmp_path):
    """So that a sitting does not take it for done."""
    words = ["--device", "cpu", "--only", "quick,hmm/lstm", "--batch", "8", "--quick", "--json", f"{tmp_path}/a.json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks/training.py", *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / "benchmarks" / "training.py"), run_name="__main__")
    told, said = json.loads((tmp_path / "a.json").read_text()), capsys.readouterr()
    assert [row["case"] for row in told["training"]] == ["hmm/lstm"] and "hmm/lstm" in said.out
    assert stopped.value.code == 2 and said.err.splitlines()[-1].startswith("error: without a row: quick: not measured")


WRONG = [
    ("records attempt no-such-recipe", ["recipe = 'no-such-recipe'", "must be one of"]),
    ("records attempt hmm-mamba recall-lstn", ["recipe = 'recall-lstn'", "recall-lstm"]),
    ("records attempt quick --seeds 0", ["--seeds = '0'", "a whole number of at least 1"]),
    ("records attempt quick --first-seed -1", ["--first-seed = '-1'", "a whole number of at least 0"]),
    ("records attempt quick --target 1e-3 --target nan", ["--target = 'nan'", "a number above 0"]),
    ("records attempt quick --set steps", ["--set = 'steps'", "name=value"]),
    ("records attempt quick --set stepps=3", ["stepps", "steps"]),
    ("records attempt hmm-lstm quick --set model.params=17", ["params = 17", "the nearest is"]),
    ("records attempt quick --out /dev/null/deep", ["/dev/null/deep", "cannot be written"]),
    ("records attempt", ["RECIPE", "--help"]),
    ("training --seeds x", ["--seeds = 'x'", "a whole number of at least 1"]),
    ("training --seeds 1,0", ["--seeds = '0'", "a whole number of at least 1"]),
    ("training --batch 0", ["--batch = '0'", "a whole number of at least 1"]),
    ("training --only trainings", ["--only = 'trainings'", "sections"]),
    ("training --json /dev/null/deep", ["--json: /dev/null/deep", "cannot be written"]),
    ("sampling --device tpu", ["device = 'tpu'", "cpu"]),
    ("sampling --repeats 0", ["--repeats = '0'", "a whole number of at least 1"]),
    ("reach --only no-such-recipe", ["--only = 'no-such-recipe'", "must be one of"]),
    ("reach --only hmm-lstm --stream tests", ["--stream", "'tests'", "'test'"]),
    ("reach --only hmm-lstm --out /dev/null/deep", ["/dev/null/deep", "cannot be written"]),
    ("instruments --only geometri", ["--only = 'geometri'", "must be one of"]),
    ("sitting", ["--out", "a folder"]),
    ("sitting --only kernel", ["--only = 'kernel'", "kernels"]),
    ("against no-such-commit", ["commit = 'no-such-commit'", "a commit of this repository"]),
]


@pytest.mark.parametrize(("words", "parts"), WRONG, ids=[words for words, _ in WRONG])
def test_a_mistake_is_one_line(refusal, words, parts):
    said = refusal(*words.split())
    assert all(part in said for part in parts), said


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_refuses_what_it_does_not_know(refusal, name):
    if name == "report_picture":
        pytest.importorskip("PIL")
    assert "--help" in refusal(name, "--no-such-option")


def test_training_throughput_as_a_script(tmp_path):
    file = tmp_path / "training.json"
    said = script(
        "training", "--device", "cpu", "--only", "quick", "--batch", 8, "--seeds", "1,2", "--quick", "--json", file
    )
    found = json.loads(file.read_text())
    rows, wanted = found["training"], [("quick", 1, 8), ("quick", 2, 8)]
    assert rows and [(row["case"], row["seeds"], row["batch"]) for row in rows] == wanted[: len(rows)]
    assert len(rows) + len(found["left_out"].get("training", [])) == len(
        wanted
    )  # a busy machine runs out of time, and says so
    assert "GFLOP/s" in said and "sequences/s" in said
