"""What a careless or hostile user types and hands over: exit code 2, one line, and nothing is harmed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save
from torch import zeros

import windtunnel as wt
from windtunnel.cli import main as entry
from windtunnel.cli.main import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sample", "hmm", "--length", str(10**20)], ["--length = 1", "at most 1e+12"]),
        (["sample", "hmm", "--length", str(-(10**20))], ["--length = -1", "at most 1e+12"]),
        (["sample", "hmm", "--states", ""], ["--states has no value", "a whole number"]),
        (["sample", "hmm", "--matrices="], ["--matrices has no value", "a path"]),
        (["sample", " "], ["sample must be followed by a tunnel", "found ' '"]),
        (["train", "hmm", "lstm", "--out", ""], ["--out has no value", "a path"]),
        (["train", "hmm", "lstm", "--out", "x", "--steps", str(10**24)], ["--steps = 1", "at most 1e+12"]),
        (["train", "hmm", "lstm", "--out", "x", "--seeds", str(10**9)], ["seeds = 1000000000", "from 1 to 10000"]),
        (["train", "hmm", "lstm", "--out", "x", "--width", str(10**10)], ["width = 1", "at most 1000000"]),
        (["train", "hmm", "lstm", "--out", "x", "--depth", str(10**10)], ["depth = 1", "at most 10000"]),
        (["train", "hmm", "lstm", "--out", "x", "--ladder", str(10**10)], ["ladder = 1", "at most 10000"]),
        (["train", "hmm", "lstm", "--out", "file"], ["file: must be a folder", "there is a file of that name"]),
        (["bench", "--read", "odd.json"], ["--read = 'odd.json'", "windtunnel bench --json"]),
        (["bench", "--read", "file"], ["file: must be JSON"]),
        (["runs", "file"], ["file: must be a folder, but is a file"]),
        (["help", "nothing"], ["unknown command 'nothing'"]),
    ],
)
def test_one_line(words, told, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("hello")
    (tmp_path / "odd.json").write_text('{"environment": {}, "matrix_flops_per_s": 1}')
    line = refusal(*words)
    assert all(part in line for part in told), line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "odd.json"]  # nothing was begun


@pytest.mark.parametrize("columns", ["0", "1", "39", "x"])
def test_a_width_that_cannot_be_is_widened(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    for words in (["list"], ["list", "--help"], ["train", "--help"]):
        assert main(words) == 0
        assert "json" in (said := capsys.readouterr().out) or "transformer" in said


def test_a_file_that_cannot_be_used_is_one_line(monkeypatch, refusal):
    """Whatever the system says about a file that was named; of anything else it is told whose code it was in."""

    def run(words):
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr("windtunnel.cli.list.run", run)
    assert refusal("list") == "windtunnel: error: /some/where: Permission denied\n"
    monkeypatch.setattr("windtunnel.cli.list.run", lambda words: (_ for _ in ()).throw(OSError("odd")))
    assert "code of your own failed (OSError in test_hostile.py:" in refusal("list")


@pytest.mark.parametrize(
    "error",
    [MemoryError("Unable to allocate 109. TiB"), RuntimeError("[enforce fail] can't allocate memory")],
)
def test_too_little_memory_is_one_line(error, monkeypatch, refusal):
    """As NumPy and PyTorch say it; another error of the same kind is told as what it is."""
    raised = [error]

    def run(words):
        raise raised[-1]

    monkeypatch.setattr("windtunnel.cli.list.run", run)
    assert "not enough memory: try fewer episodes" in refusal("list")
    raised.append(RuntimeError("something else"))
    assert "code of your own failed (RuntimeError in test_hostile.py" in refusal("list")


def test_help_takes_the_name_of_a_command(capsys):
    assert main(["help", "runs"]) == 0
    assert capsys.readouterr().out.startswith("usage: windtunnel runs DIR")
    assert set(entry.COMMANDS) >= {"runs", "train"}


def test_a_device_is_never_replaced(runs, tmp_path, refusal):
    """Writing replaces files as a whole; of a device, or a pipe as here, nothing would be left."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert "not a regular file" in refusal("export", runs, "--format", "csv", "--out", pipe)
    assert pipe.is_fifo()
    inside = tmp_path / "file"
    inside.write_text("")
    line = refusal("export", runs, "--format", "csv", "--out", inside / "x.csv")
    assert "there is a file where a folder must be" in line


# --- damaged runs
def rewrite(file: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Edit a JSON file; `change` may also return something else to put there."""

    def damage(place: Path) -> None:
        record = json.loads((place / file).read_text())
        changed = change(record)
        (place / file).write_text(json.dumps(record if changed is None else changed))

    return damage


def weights(content: bytes) -> Callable[[Path], None]:
    """Put something else where the last weights were, checksum and all."""

    def damage(place: Path) -> None:
        (place / "seed-0" / "step-00000010.safetensors").write_bytes(content)
        rewrite("seed-0/checkpoints.json", update)(place)

    def update(listed: dict) -> None:
        listed["ladder"][-1]["sha256"] = hashlib.sha256(content).hexdigest()

    return damage


LIST = "seed-0/checkpoints.json"
BROKEN = {
    "no config": (rewrite("recipe.json", lambda r: r["model"].pop("config") and None), "must have a name, a config"),
    "spec a word": (rewrite("recipe.json", lambda r: r.update(model="mlp")), "must have a name, a config"),
    "odd config": (rewrite("recipe.json", lambda r: r["model"]["config"].update(colour=1)), "must have the config and"),
    "wider": (rewrite("recipe.json", lambda r: r["model"]["config"].update(ff_width=7)), "weights of seed 0 must fit"),
    "list a list": (rewrite(LIST, lambda listed: []), "must list checkpoints by step, file and sha256"),
    "no ladder": (rewrite(LIST, lambda listed: listed.pop("ladder") and None), "must list checkpoints by step"),
    "words": (rewrite(LIST, lambda listed: listed.update(ladder=["a"])), "must list checkpoints by step"),
    "elsewhere": (rewrite(LIST, lambda listed: listed["ladder"][-1].update(file="../x")), "must list checkpoints by"),
    "garbage": (weights(b"garbage" * 9), "must be safetensors, but is damaged"),
    "nothing": (weights(b""), "must be safetensors, but is damaged"),
    "others": (weights(save({"a": zeros(3)})), "weights of seed 0 must fit its model"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_run_is_one_line(case, runs, tmp_path, refusal):
    shutil.copytree(runs / "hmm", tmp_path / "run")
    damage, told = BROKEN[case]
    damage(tmp_path / "run")
    for command in ("evaluate", "inspect"):
        assert told in refusal(command, tmp_path / "run", "--device", "cpu")


@pytest.mark.parametrize("odd", [b"\xff\xfe\n", b"[1]\n", b"3\n", b'{"x": 1}\n'])
def test_odd_lines_are_passed_over_in_the_timings_and_told_in_the_history(odd, runs, tmp_path, output, capsys):
    place = tmp_path / "run"
    shutil.copytree(runs / "hmm", place)
    run = wt.load(place)
    seconds = run.seconds()
    with open(place / "timings.jsonl", "ab") as stream:
        stream.write(odd)
    (record,) = json.loads(output("runs", place, "--json"))["runs"]
    assert record["state"] == "finished" and run.seconds() == seconds
    told = f"{place}/seed-0/metrics.jsonl: line {len(run.metrics()) + 1} must be a JSON record with step, kl_bits"
    with open(place / "seed-0" / "metrics.jsonl", "ab") as stream:
        stream.write(odd)
    (record,) = json.loads(output("runs", place, "--json"))["runs"]
    assert record["state"] == "damaged" and told in record["why"]
    assert main(["export", str(place), "--format", "csv"]) == 2
    assert f"left out {told}" in capsys.readouterr().err


# --- other folders
def test_an_unfinished_run_has_no_page_yet(tmp_path, refusal):
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    wt.train(tunnel, "mlp", preset="quick", steps=9, out=tmp_path, params=2000, max_minutes=1e-9, device="cpu")
    for command in ("report", "figures"):
        line = refusal(command, tmp_path, "--no-zoo")
        assert "is at step 0 of 9" in line and f"`windtunnel evaluate {tmp_path}`" in line
