"""The benchmark scripts run on a CPU, and docs/records.md tells the attempts that were made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from records import load_attempts, page  # noqa: E402


def script(name: str, *words: object, code: int = 0) -> str:
    command = [sys.executable, f"benchmarks/{name}.py", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_an_attempt_is_kept_and_told_on_the_page(tmp_path):
    small = [
        "tunnel.length=2",
        "tunnel.symbols=2",
        "model.params=2000",
        "batch=16",
        "steps=60",
        "validation_episodes=32",
    ]
    changes = [word for change in small for word in ("--set", change)]
    folder = tmp_path / "cpu" / "records"
    targets = ["--target", "0.5", "--target", "1e-9", "--every", "0.02", "--confirm", "64"]
    script("records", "attempt", "quick", "--device", "cpu", "--seeds", 2, *targets, *changes, "--out", folder)
    (file,) = folder.glob("quick-*.json")
    told = json.loads(file.read_text())
    assert [seed["seed"] for seed in told["seeds"]] == [0, 1] and told["targets_bits"] == [0.5, 1e-9]
    assert all("0.5" in seed["passed"] and "1e-09" not in seed["passed"] for seed in told["seeds"])

    # Two seeds hold no record; five planted ones do.
    told_now = page(load_attempts(tmp_path))
    assert "No record yet." in told_now and "fewer than 5 seeds" in told_now
    told["seeds"] = [told["seeds"][0] | {"passed": {"0.5": {"seconds": float(second)}}} for second in range(1, 6)]
    (folder / "planted.json").write_text(json.dumps(told | {"date": "2030-01-01T00:00:00"}))
    assert "| bijection / transformer | 0.5 | 3.0 | 1.0 – 5.0 | 5 of 5 |" in page(load_attempts(tmp_path))


def test_an_unknown_recipe_is_one_line():
    said = script("records", "attempt", "no-such-recipe", code=1)
    assert said.startswith("error: recipe = 'no-such-recipe'") and said.count("\n") == 1


def test_training_throughput_as_a_script(tmp_path):
    file = tmp_path / "training.json"
    said = script(
        "training", "--device", "cpu", "--only", "quick", "--batch", 8, "--seeds", "1,2", "--quick", "--json", file
    )
    rows = json.loads(file.read_text())["training"]
    assert [(row["case"], row["seeds"], row["batch"]) for row in rows] == [("quick", 1, 8), ("quick", 2, 8)]
    assert "GFLOP/s" in said and "sequences/s" in said
