"""Trackers: three methods, called at the right moments, also when training fails; packages only when asked for."""

from __future__ import annotations

import builtins
import math
import sys
from types import SimpleNamespace

import pytest

from tests.training.cases import BIJECTION, tiny
from windtunnel.errors import InputError
from windtunnel.training import Tracker, train
from windtunnel.training.network import Network
from windtunnel.training.stopwatch import Stopwatch
from windtunnel.training.trackers import Logbook, Silent, TensorBoard, open_tracker

RECIPE = tiny(seeds=(0, 3), steps=4, validate_every=2)


class Listener:
    """Remembers what it was told."""

    def __init__(self):
        self.calls = []

    def start(self, recipe, folder):
        self.calls.append(("start", recipe, folder))

    def log(self, seed, record):
        self.calls.append(("log", seed, record))

    def finish(self):
        self.calls.append(("finish",))


def test_a_tracker_hears_the_start_every_score_and_the_end(tmp_path):
    listener: Tracker = Listener()
    run = train(recipe=RECIPE, out=tmp_path, tracker=listener, device="cpu")
    start, *logs, finish = listener.calls
    assert start == ("start", RECIPE, str(tmp_path)) and finish == ("finish",)
    assert [(seed, record["step"]) for _, seed, record in logs] == [(s, t) for s in (0, 3) for t in (0, 2, 4)]
    for _, seed, record in logs:
        kept = next(line for line in run.metrics(seed) if line["step"] == record["step"])
        rate = record.pop("sequences_per_s", None)
        assert (rate is None) == (record["step"] == 0) and (rate is None or rate > 0)
        assert record == {name: value for name, value in kept.items() if value is not None}


def test_seeds_side_by_side_are_told_their_own_rates(monkeypatch, threads):
    """A seed's rate was that of all seeds together."""
    threads(2)
    monkeypatch.setattr(Stopwatch, "sequences_per_s", lambda watch, step: 100.0 * len(watch.seeds))
    listener = Listener()
    train(recipe=RECIPE, tracker=listener, device="cpu")
    rates = [call[2].get("sequences_per_s") for call in listener.calls if call[0] == "log" and call[2]["step"]]
    assert rates == [100.0] * 4


def test_without_a_folder_it_is_told_none():
    listener = Listener()
    train(recipe=RECIPE, tracker=listener, device="cpu")
    assert listener.calls[0] == ("start", RECIPE, None)


def test_a_tracker_hears_the_end_of_a_training_that_fails(monkeypatch):
    loss, listener = Network.loss, Listener()
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (math.nan if int(net.step) == 3 else 1.0))
    with pytest.raises(InputError):
        train(recipe=RECIPE, tracker=listener, device="cpu")
    assert [call[0] for call in listener.calls] == ["start", "log", "log", "finish"]


def test_a_finished_run_tells_nothing(tmp_path):
    train(recipe=RECIPE, out=tmp_path, device="cpu")
    listener = Listener()
    train(recipe=RECIPE, out=tmp_path, tracker=listener, device="cpu")
    assert listener.calls == []


def test_none_is_silent():
    silent = open_tracker("none")
    assert isinstance(silent, Silent)
    silent.start(RECIPE, None)
    silent.log(0, {"step": 1})
    silent.finish()


def test_print_tells_every_validation_and_what_else_is_worth_a_line(tmp_path, capsys):
    train(recipe=RECIPE, tracker="print", out=tmp_path, device="cpu")
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split("  ")[:2] for line in told.err.splitlines()] == [
        [f"seed {seed}", f"step {step}/4"] for seed in (0, 3) for step in (0, 2, 4)
    ]
    train(recipe=RECIPE, tracker="print", out=tmp_path, device="cpu")
    assert capsys.readouterr().err == f"{tmp_path} is finished (4 steps); nothing to do\n"


def test_that_the_small_recipe_was_nobody_s_wish_is_told():
    said = []
    few = {"steps": 1, "batch": 4, "params": 2000, "warmup": 0, "validation_episodes": 8, "device": "cpu"}
    train(BIJECTION, "mlp", say=said.append, **few)
    assert said == ["on a CPU this is the small `quick` recipe; preset='standard' for the committed one"]
    train(BIJECTION, "mlp", preset="quick", say=said.append, **few)
    assert len(said) == 1


@pytest.mark.parametrize("name", ["tensorboard", "trackio", "wandb"])
def test_a_missing_package_is_told_in_one_line(tmp_path, monkeypatch, name):
    real = builtins.__import__

    def without(wanted, *arguments, **options):
        if wanted == name:
            raise ImportError(wanted)
        return real(wanted, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError) as error:
        train(recipe=RECIPE, tracker=name, out=tmp_path / "run", device="cpu")
    expected = f"tracker = {name!r}: the package of that name must be installed first (pip install {name})"
    assert str(error.value) == expected
    assert not (tmp_path / "run").exists()


def test_no_tracker_s_package_is_loaded_unless_asked_for():
    assert not {"wandb", "trackio"} & set(sys.modules)


class Wandb(SimpleNamespace):
    """As wandb behaves: what comes with a step below the last one is dropped."""

    def __init__(self):
        super().__init__(started=None, kept=[], last=-1, ended=False)

    def init(self, **options):
        self.started = options

    def log(self, values, step=None):
        step = self.last + 1 if step is None else step
        if step >= self.last:
            self.last = step
            self.kept.append(values)

    def finish(self):
        self.ended = True


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_logbook_keeps_the_scores_of_every_seed(monkeypatch, name):
    """On a CPU one seed follows another, so steps start again: nothing of the second may be dropped."""
    package = Wandb()
    monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert isinstance(open_tracker(name), Logbook)
    train(recipe=RECIPE, tracker=name, device="cpu")
    assert package.started["config"] == RECIPE.to_dict() and package.ended
    for seed in (0, 3):
        steps = [values[f"seed-{seed}/step"] for values in package.kept if f"seed-{seed}/kl_bits" in values]
        assert steps == [0, 2, 4]


def test_wandb_stays_offline_unless_told_otherwise(monkeypatch):
    import os

    monkeypatch.setitem(sys.modules, "wandb", Wandb())
    monkeypatch.delenv("WANDB_MODE", raising=False)
    open_tracker("wandb").start(RECIPE, None)
    assert os.environ["WANDB_MODE"] == "offline"
    monkeypatch.setenv("WANDB_MODE", "online")
    open_tracker("wandb").start(RECIPE, None)
    assert os.environ["WANDB_MODE"] == "online"


def test_tensorboard_writes_scalars_into_the_run_folder(tmp_path):
    pytest.importorskip("tensorboard")
    tracker = open_tracker("tensorboard")
    assert isinstance(tracker, TensorBoard)
    train(recipe=RECIPE, tracker=tracker, out=tmp_path, device="cpu")
    (events,) = (tmp_path / "tensorboard").iterdir()
    content = events.read_bytes()
    assert b"seed-0/kl_bits" in content and b"seed-3/kl_bits" in content and b"seed-0/step" not in content
