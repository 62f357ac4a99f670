"""Several cells of a study at once: on a GPU one trains while others compile, are scored and surveyed; on a CPU small
networks train side by side.

A lane is a process with a sitting of its own, which takes the next cell that nobody has.  At most `at_once` trainings
step at the same time: one on a GPU, which is full with it, and on a CPU as many as there are lanes.  The parent holds
the folder, passes on what the lanes say, and sums up.  A lane that is killed loses only the part in its hands, which
the next sitting makes again.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.environment import thread_limits
from windtunnel.errors import InputError
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Cell, Plan
from windtunnel.training.signals import StopRequest
from windtunnel.training.trackers import Lines

if TYPE_CHECKING:
    from windtunnel.study.running.sitting import Sitting

SAY, ERROR, LATE = "say", "error", "late"  # what a lane has to tell: a line, why it gave up, that time is over
KEEP_TIME_S = 10.0  # between two notes of how long the sitting has lasted
LISTEN_S = 0.2  # between two looks whether the lanes are still alive


@dataclass(frozen=True)
class Lane:
    """What a lane is given.

    bundles  cells by name, each bundle for one lane
    taken    how many bundles have been taken, shared by all lanes
    lines    what it says: (kind, text)
    watched  are its trainings to be told of?
    options  of its sitting
    """

    plan: Plan
    folder: Path
    bundles: Sequence[tuple[str, ...]]
    turns: Path
    taken: Any
    lines: Any
    watched: bool
    options: dict[str, Any]


def bundles(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """Cells that one lane must make one after the other: a cell that takes over a rate, after its owner."""
    names = {cell.name for cell in cells}
    owners = [cell for cell in cells if not _follows(cell, names)]
    return [
        (owner.name, *(cell.name for cell in cells if _follows(cell, names) and cell.sweep == owner.name))
        for owner in owners
    ]


def _follows(cell: Cell, names: set[str]) -> bool:
    return cell.sweep in names and not cell.sweeps


def run(sitting: Sitting, cells: Sequence[Cell], lanes: int) -> bool:
    """Make the cells in so many lanes; False if time ran out.

    An error of a lane is told at once, and raised when all have ended.  A signal that asks this process to stop, at any
    time, is passed on to the lanes, which save what they have; they also stop when this process is gone.
    """
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    _start_tracker()
    lines: Any = context.Queue()
    limits = {"max_minutes": sitting.max_minutes, "started": sitting.started}
    limits |= {"side_by_side": lanes, "at_once": sitting.at_once}
    with tempfile.TemporaryDirectory() as turns, StopRequest() as stop:
        lane = Lane(
            plan=sitting.plan,
            folder=sitting.folder.path,
            bundles=bundles(cells),
            turns=Path(turns),
            taken=context.Value("i", 0),
            lines=lines,
            watched=sitting.watch is not unwatched,
            options=limits | {"device": sitting.device, "scope": sitting.scope},
        )
        crew = Crew([context.Process(target=_work, args=(lane,), daemon=True) for _ in range(lanes)])
        try:
            with _environment(thread_limits(lanes)), _held_back(signal.SIGINT):  # an import cut off ends in a traceback
                crew.start()
            told = _listen(crew, lines, sitting, stop)
        except KeyboardInterrupt:  # the second: at once
            crew.interrupt(again=True)
            raise
        except BaseException:  # no process could be started, or nobody can be told
            crew.interrupt()
            raise
        finally:
            crew.join()
    stop.raise_if_interrupted(sitting.folder.path)
    wrong = [text for kind, text in told if kind == ERROR]
    if died := sum(worker.exitcode != 0 for worker in crew.workers):
        wrong.append(f"{died} of {lanes} lanes ended early; what is finished is kept")
    if wrong:
        raise InputError("; ".join(dict.fromkeys(wrong)))
    return not any(kind == LATE for kind, _ in told)


def unwatched(heading: str) -> str:
    """The tracker of trainings that nobody watches."""
    return "none"


@dataclass
class Crew:
    """The processes of the lanes."""

    workers: list[Any]
    interrupted: bool = False

    def start(self) -> None:
        for worker in self.workers:
            worker.start()

    def interrupt(self, again: bool = False) -> None:
        """Ask those at work to save what they have and end.  Once: a second time cuts them short, even in saving."""
        if self.interrupted and not again:
            return
        self.interrupted = True
        for worker in self._started:
            if worker.is_alive():
                os.kill(worker.pid, signal.SIGINT)

    def join(self) -> None:
        for worker in self._started:
            worker.join()

    @property
    def at_work(self) -> bool:
        return any(worker.is_alive() for worker in self.workers)

    @property
    def _started(self) -> list[Any]:
        return [worker for worker in self.workers if worker.pid is not None]


def _listen(crew: Crew, lines: Any, sitting: Sitting, stop: StopRequest) -> list[tuple[str, str]]:
    """Pass on what the lanes say until they have all ended, and keep time; returns the rest of their messages."""
    rest, noted = [], 0.0
    while True:
        if stop.requested:  # before every line: lanes may tell of validations without a pause
            crew.interrupt()
        ended = not crew.at_work  # before the look: nothing is said after the end
        if time.monotonic() - noted > KEEP_TIME_S:
            sitting.keep_time()
            noted = time.monotonic()
        try:
            kind, text = lines.get(timeout=LISTEN_S)
        except queue.Empty:
            if ended:
                return rest
            continue
        if kind != LATE:
            sitting.say(text if kind == SAY else f"error: {text}")
        if kind != SAY:
            rest.append((kind, text))


def _work(lane: Lane) -> None:
    """What the process of a lane does: it takes one bundle after another and makes its cells, until none is left or
    time is over."""
    from windtunnel.study.running.sitting import Sitting  # here: a sitting of several lanes imports this file

    os.setpgrp()  # Ctrl-C in a terminal goes to the parent alone, which passes it on once
    threading.Thread(target=_end_with_parent, daemon=True).start()
    say = partial(_say, lane.lines)
    watch = partial(_watch, say) if lane.watched else unwatched
    sitting = Sitting(lane.plan, StudyFolder(lane.folder), say=say, watch=watch, turns=lane.turns, **lane.options)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background hands it down as ignored
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # one that came during the imports counts from here
        while (index := _next(lane.taken)) < len(lane.bundles):
            if not sitting.work([cell for cell in lane.plan.cells if cell.name in lane.bundles[index]]):
                lane.lines.put((LATE, ""))
                return
    except InputError as error:
        lane.lines.put((ERROR, str(error)))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's and the parent's may both have come
        raise SystemExit(1) from None  # where the parent did not ask for it, it tells of a lane that ended early


def _end_with_parent() -> None:
    """Without the parent nobody holds the folder: a training saves its state and ends, anything else ends at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _say(lines: Any, text: str) -> None:
    lines.put((SAY, text))


def _watch(tell: Callable[[str], None], heading: str) -> Lines:
    """A line for every validation, which names the training: others tell theirs in between."""
    return Lines(tell, heading.partition(":")[0])


def _next(taken: Any) -> int:
    with taken.get_lock():
        taken.value += 1
        return taken.value - 1


def _start_tracker() -> None:
    """Start multiprocessing's own helper so that it outlives a lost terminal, and says nothing when this process is
    killed: it then tidies up all the same."""
    told = filter(None, (os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"))
    with _environment({"PYTHONWARNINGS": ",".join(told)}), _held_back(signal.SIGHUP):
        resource_tracker.ensure_running()


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Processes started here begin with this signal held back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment that processes started here will see."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
