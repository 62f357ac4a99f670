"""What is seen while a model trains."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter

import pytest

from windtunnel.cli import progress
from windtunnel.cli.main import main
from windtunnel.cli.progress import Bars, HeadedLines, Several, bar, bar_or_lines, watch
from windtunnel.training import Recipe, train
from windtunnel.tunnels import Bijection

RECIPE = Recipe(Bijection(4, 4), steps=100, seeds=(0, 3))


def record(step: int, **more: float) -> dict[str, float]:
    return {"step": step, "kl_bits": 0.5, "entropy_mae_bits": 0.25, **more}


def test_lines(capsys):
    lines = HeadedLines("a model")
    lines.start(RECIPE, None)
    lines.log(3, record(0))
    lines.log(3, record(50, loss_bits=1.5, sequences_per_s=12345.6))
    lines.finish()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "windtunnel: a model",
        "seed 3  step 0/100  KL 0.5000 bits  entropy error 0.2500 bits",
        "seed 3  step 50/100  loss 1.5000 bits  KL 0.5000 bits  entropy error 0.2500 bits  12,346 sequences/s",
    ]


@pytest.mark.parametrize("begun", [0, 40])
def test_bars(begun, capsys, monkeypatch):
    from rich.console import Console

    now = iter([100.0, 105.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    screen = io.StringIO()
    bars = Bars("a model", Console(file=screen, force_terminal=True, width=120, color_system=None))
    bars.start(RECIPE, None)
    bars.log(3, record(begun))
    bars.log(3, record(begun + 10, loss_bits=1.5, sequences_per_s=12345.6))
    left = (90 - begun) // 2  # ten steps took five seconds
    task = bars.bars.tasks[1]
    assert (task.completed, task.fields["left"]) == (begun + 10, f"0:{left} left")
    bars.log(3, record(100, sequences_per_s=12345.6))
    assert task.fields["left"] == "" and task.finished
    bars.finish()
    assert "seed 0" in screen.getvalue() and "waiting" in screen.getvalue()
    for part in ("seed 3", "100/100", "KL 0.5000 bits", "12,346 sequences/s"):
        assert part in screen.getvalue()
    assert capsys.readouterr().err == "windtunnel: a model\n"


def test_bars_move_between_validations(monkeypatch):
    """But no more often than they are drawn."""
    from rich.console import Console

    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bars = Bars("a model", Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None))
    bars.start(RECIPE, None)
    waiting = bars.bars.tasks[1]
    bars.advance(3, 1)
    assert waiting.started and waiting.fields["told"] == ""  # it no longer waits, and has no KL yet
    bars.log(0, record(0))
    shown = []
    for step in range(1, 9):
        now[0] += 0.06
        bars.advance(0, step)
        shown.append(bars.bars.tasks[0].completed)
    assert shown == [1, 1, 3, 3, 5, 5, 7, 7]
    assert bars.bars.tasks[0].fields["left"] == "0:06 left"  # seven steps took 0.42 s
    bars.finish()


def test_training_tells_every_step_to_those_who_want_to_hear():
    told: list[tuple[int, int]] = []

    class Heard(HeadedLines):
        def advance(self, seed, step):
            told.append((seed, step))

    recipe = RECIPE.with_options(model="mlp", model_options={"depth": 1, "width": 8}, steps=5, batch=4)
    recipe = recipe.with_options(validate_every=5, validation_episodes=4)
    train(recipe=recipe, tracker=Several(HeadedLines(""), Heard("")), device="cpu")  # a GPU tells of many at a time
    assert told == [(seed, step) for seed in RECIPE.seeds for step in range(1, 6)]


def test_bars_only_for_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(watch(""), Bars)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert isinstance(watch(""), HeadedLines)


def test_a_bar_only_for_a_terminal_that_wants_one(monkeypatch, capsys):
    for terminal, wanted in ((False, True), (True, False)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with bar(wanted) as progress:
            progress("uniform", 0, 2)
        assert capsys.readouterr().err == ""
    with bar() as progress:
        progress("uniform", 1, 2)
    assert re.search(r"1/2.*uniform", capsys.readouterr().err)


@pytest.mark.parametrize("command", ["baselines", "evaluate"])
def test_scoring_says_what_it_is_at(command, runs, monkeypatch, capsys):
    """On a terminal; nothing for a program that reads JSON, or a pipe."""
    where = [str(runs / "hmm")] if command == "evaluate" else ["hmm", "--length", "3"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **told: heard.append(told))
    heard: list[dict] = []
    assert main([command, *where, "--episodes", "9000"]) == 0
    assert [told["completed"] for told in heard] == list(range(heard[-1]["total"]))
    names = Counter(told["description"] for told in heard)
    assert len(set(names.values())) == 1 and names["uniform"] > 1  # everyone reads every chunk
    assert "uniform" in names and ("this run" in names) == (command == "evaluate")
    heard.clear()
    assert main([command, *where, "--episodes", "64", "--json"]) == 0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    capsys.readouterr()
    assert main([command, *where, "--episodes", "64"]) == 0
    assert not heard and capsys.readouterr().err == ""


def test_a_long_job_that_nobody_watches_says_every_few_seconds_where_it_is(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    for wanted, expected in ((True, "33% done  0:12 left\n83% done  0:02 left\n"), (False, "")):
        with bar_or_lines(wanted) as tell:
            for done, name in enumerate("abcdef"):
                now[0] += 2.0
                tell(name, done, 6)
        assert capsys.readouterr().err == expected


def test_several_tell_all():
    class Heard:
        def __init__(self):
            self.heard = []

        def start(self, recipe, folder):
            self.heard.append((recipe, folder))

        def log(self, seed, record):
            self.heard.append((seed, record))

        def finish(self):
            self.heard.append("end")

    both = Heard(), Heard()
    several = Several(*both)
    several.start(RECIPE, "here")
    several.log(3, record(0))
    several.finish()
    assert both[0].heard == both[1].heard == [(RECIPE, "here"), (3, record(0)), "end"]
