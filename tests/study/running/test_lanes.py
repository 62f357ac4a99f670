"""Cells side by side: the same results as one after the other, trainings in turns, faults told in one line."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.study.micro import URN as WORLD
from tests.study.micro import micro, recipe
from windtunnel.errors import InputError
from windtunnel.study import StudyFolder, reproduce
from windtunnel.study.running import lanes
from windtunnel.study.running.lanes import bundles
from windtunnel.training import train
from windtunnel.training.gpu_turns import turn
from windtunnel.training.signals import StopRequest

PLAN = micro(surveys=True)


def lasting(study: StudyFolder) -> dict:
    """What must not depend on who worked beside: everything but clocks and machines."""
    clocks = ("seconds", "environment", "surveyed")
    return {name: {k: v for k, v in cell.items() if k not in clocks} for name, cell in study.cells().items()}


def test_lanes_make_the_same_study(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a lane: sums in another order differ in the last bit
    try:
        alone = reproduce(out=tmp_path / "alone", plan=PLAN, device="cpu")
    finally:
        torch.set_num_threads(threads)
    said: list[str] = []
    beside = reproduce(out=tmp_path / "beside", plan=PLAN, device="cpu", lanes=2, trainings=2, say=said.append)
    assert lasting(beside) == lasting(alone)
    assert beside.head()["finished"] == alone.head()["finished"] and beside.ledger() == alone.ledger()
    assert any(line.startswith("small-urn-lstm: KL") for line in said)
    (sitting,) = beside.head()["sittings"]
    assert sitting["lanes"] == sitting["trainings"] == 2 and sitting["seconds"] > 0 and sitting["device"] == "cpu"


def test_of_what_is_trained_in_lanes_every_validation_is_told(tmp_path):
    said: list[str] = []
    watched = {"say": said.append, "watch": lambda heading: "none"}
    reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2, trainings=2, **watched)
    steps = PLAN.cells[0].recipe.steps
    for cell in PLAN.cells:
        last = [line for line in said if line.startswith(f"training {cell.name}  seed 0  step {steps}/{steps}  loss ")]
        assert len(last) == 1 and " KL " in last[0]


def test_no_process_is_started_for_what_is_finished(tmp_path, monkeypatch):
    reproduce(out=tmp_path, plan=PLAN, device="cpu")
    monkeypatch.setattr("windtunnel.study.running.lanes.run", lambda *given: pytest.fail("lanes for nothing"))
    reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2)
    (tmp_path / "cells" / f"{PLAN.cells[0].name}.json").unlink()
    assert len(reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2).head()["finished"]) == 3  # one: none beside it


def test_a_cell_that_takes_over_a_rate_is_made_after_its_owner():
    first, second, third = PLAN.cells
    follower = replace(third, sweep=first.name)
    assert bundles([first, second, follower]) == [(first.name, follower.name), (second.name,)]
    assert bundles([second, follower]) == [(second.name,), (follower.name,)]  # its owner is not in this sitting


def test_time_runs_out_in_lanes_and_the_same_call_goes_on(tmp_path):
    said: list[str] = []
    short = reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2, max_minutes=1e-6, say=said.append)
    assert short.head()["finished"] == [] and said[-1].startswith("stopped after 1e-06 minutes")
    assert len(reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2).head()["finished"]) == 3


def test_an_error_in_a_lane_is_one_line(tmp_path):
    study = reproduce(out=tmp_path, plan=PLAN, device="cpu")
    other = replace(PLAN, episodes=32)
    (study.path / "cells" / "small-urn-lstm.json").unlink()
    with pytest.raises(InputError, match="was made with another episodes: must be removed"):
        reproduce(out=tmp_path, plan=other, device="cpu", lanes=2)


@pytest.mark.parametrize("trainings", [0, 3, 1.5])
def test_a_number_of_trainings_that_cannot_be(trainings, tmp_path):
    with pytest.raises(InputError, match="trainings = "):
        reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=2, trainings=trainings)


@pytest.mark.parametrize("lanes", [0, 17, 1.5])
def test_a_number_of_lanes_that_cannot_be(lanes, tmp_path):
    with pytest.raises(InputError, match="lanes = "):
        reproduce(out=tmp_path, plan=PLAN, device="cpu", lanes=lanes)


SLOW = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background hands it down as ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and so does nohup with this one
from dataclasses import replace
from tests.study.micro import micro
from windtunnel.study import reproduce

plan = micro()
cells = [replace(cell, recipe=cell.recipe.with_options(steps=200_000)) for cell in plan.cells[1:]]
reproduce(out={out!r}, plan=replace(plan, cells=tuple(cells)), device="cpu", lanes=2, say=print)
"""


@pytest.fixture
def slow(tmp_path):
    """A study in two lanes that would take long, once both have begun; and the processes of its lanes."""
    line = [sys.executable, "-c", SLOW.format(out=str(tmp_path))]
    study = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: len(list(tmp_path.glob("runs/*/recipe.json"))) == 2)
    lanes = lanes_of(study)
    assert len(lanes) == 2
    yield study, lanes
    for pid in (study.pid, *lanes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    study.communicate()


def until(true, seconds: float = 120.0, every_s: float = 0.1) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(every_s)


def lanes_of(study: subprocess.Popen) -> list[int]:
    """Processes of the lanes that have been started."""
    found = []
    for pid in Path(f"/proc/{study.pid}/task/{study.pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # ended meanwhile
            found += [int(pid)] * (b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_wish_to_stop_reaches_the_lanes_once_and_they_save(slow, tmp_path, number):
    study, lanes = slow
    until(lambda: len(list(tmp_path.glob("runs/*/seed-0/metrics.jsonl"))) >= 1)  # one steps, the other waits its turn
    study.send_signal(number)
    _, told = study.communicate(timeout=180)
    assert study.returncode != 0 and f"stopped by {number.name}; saved in {tmp_path}" in told
    assert not any(map(alive, lanes)) and list(tmp_path.glob("runs/*/seed-0/resume-*.safetensors"))


@pytest.mark.parametrize(("begun", "later", "number"), [(1, 0.0, "SIGINT"), (2, 0.5, "SIGINT"), (1, 0.0, "SIGTERM")])
def test_a_stop_while_lanes_are_starting_is_one_line(tmp_path, begun, later, number):
    """A terminal's Ctrl-C goes to all of them, in the middle of their start and their imports."""
    words = ["reproduce", "--lanes", "2", "--device", "cpu", "--out", str(tmp_path)]
    line = [sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"]
    line[-1] += f"from windtunnel.cli.main import main; sys.exit(main({words!r}))"
    study = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: len(lanes_of(study)) >= begun, every_s=0.001)
    time.sleep(later)
    if number == "SIGINT":
        os.killpg(study.pid, signal.SIGINT)
    else:
        study.send_signal(signal.SIGTERM)
    _, told = study.communicate(timeout=180)
    assert study.returncode == 128 + signal.Signals[number] and "Traceback" not in told and "leaked" not in told
    assert told.splitlines()[-1].startswith(f"windtunnel: stopped by {number}; saved in {tmp_path}")


def test_a_lost_terminal_leaves_one_line(slow, tmp_path):
    """It is told to every process of the terminal, multiprocessing's own helper too."""
    study, lanes = slow
    until(lambda: len(list(tmp_path.glob("runs/*/seed-0/metrics.jsonl"))) >= 1)
    os.killpg(study.pid, signal.SIGHUP)
    _, told = study.communicate(timeout=180)
    assert f"stopped by SIGHUP; saved in {tmp_path}" in told and "resource_tracker" not in told
    assert not any(map(alive, lanes)) and list(tmp_path.glob("runs/*/seed-0/resume-*.safetensors"))


class Chatty:
    """Lanes that have something to say all the time, until they are asked to stop."""

    at_work, said, told = True, 0, 0

    def get(self, timeout):
        assert self.said < 50, "nobody looked whether to stop"
        if not self.at_work:
            raise queue.Empty
        self.said += 1
        return lanes.SAY, f"line {self.said}"

    def interrupt(self):
        self.at_work, self.told = False, self.said


def test_a_wish_to_stop_is_seen_while_lanes_keep_talking():
    stop, heard = StopRequest(), []

    def say(line):
        heard.append(line)
        if len(heard) == 3:
            stop.number = signal.SIGINT

    chatty, sitting = Chatty(), SimpleNamespace(say=say, keep_time=lambda: None)
    assert lanes._listen(chatty, chatty, sitting, stop) == []
    assert chatty.told == 3 and heard == ["line 1", "line 2", "line 3"]


def test_lanes_end_with_their_parent_and_leave_no_complaint(slow):
    study, lanes = slow
    study.kill()
    until(lambda: not any(map(alive, lanes)), 60)
    assert "resource_tracker" not in study.communicate(timeout=60)[1]


def test_a_killed_lane_is_told_and_the_others_go_on(slow, tmp_path):
    study, lanes = slow
    os.kill(lanes[0], signal.SIGKILL)
    time.sleep(1.0)
    assert alive(lanes[1]) and study.poll() is None
    os.kill(lanes[1], signal.SIGTERM)
    _, told = study.communicate(timeout=60)
    assert study.returncode != 0 and "2 of 2 lanes ended early; what is finished is kept" in told


def _hold(path: Path, begun, at_once: int = 1) -> None:
    with turn(path, at_once):
        begun.set()
        time.sleep(600.0)


def _taken(path: Path) -> bool:
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_turn_is_for_one_process_and_ends_with_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    begun, place = context.Event(), tmp_path / "train"
    other = context.Process(target=_hold, args=(place, begun))
    other.start()
    assert begun.wait(60) and _taken(place)
    other.kill()
    other.join()
    assert not _taken(place)
    with turn(place):
        assert _taken(place)


def test_several_turns_at_once_and_no_more(tmp_path):
    place = tmp_path / "train"
    with turn(place, at_once=2), turn(place, at_once=2):  # two files, so that one process can hold both
        assert _taken(tmp_path / "train-0") and _taken(tmp_path / "train-1")
    assert not _taken(tmp_path / "train-0") and not _taken(tmp_path / "train-1")


def test_a_third_waits_for_one_of_two_turns(tmp_path):
    context = multiprocessing.get_context("spawn")
    begun, place = context.Event(), tmp_path / "train"
    with contextlib.ExitStack() as held:
        held.enter_context(turn(place, at_once=2))
        with turn(place, at_once=2):
            third = context.Process(target=_hold, args=(place, begun, 2))
            third.start()
            assert not begun.wait(3.0)
        assert begun.wait(60)
        third.kill()
        third.join()


def test_to_wait_for_a_turn_does_not_count(tmp_path, monkeypatch):
    """A turn that comes an hour later, by the clock of training; entered once, when everything is built."""
    late, real, entered = [0.0], time.perf_counter, []
    monkeypatch.setattr("windtunnel.training.stopwatch.time.perf_counter", lambda: real() + late[0])

    @contextlib.contextmanager
    def after_an_hour():
        entered.append(True)
        late[0] += 3600.0
        yield

    run = train(recipe=recipe(WORLD, "lstm-residual", seeds=(0,)), device="cpu", turn=after_an_hour)
    assert entered == [True] and sum(run.seconds().values()) < 3600.0
