"""Several cells of a study at once on one card: while one trains, others compile, are scored and surveyed.

A lane is a process with a sitting of its own, which takes the next cell that nobody has.  Trainings take turns, so that
the seconds of each stay its own; all the rest runs beside them.  The parent holds the folder, passes on what the lanes
say, and sums up.  A lane that is killed takes only the cell in its hands with it, to be taken up by the next sitting.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import InputError
from windtunnel.study.plan import Cell, Plan
from windtunnel.study.results import StudyFolder

if TYPE_CHECKING:
    from windtunnel.study.sitting import Sitting

MOST_THREADS = 4  # the matrices of the instruments are small
LISTEN_S = 0.2  # between two looks whether the lanes are still alive


@dataclass(frozen=True)
class Lane:
    """What a lane is given.

    bundles  cells by name, each bundle for one lane
    taken    how many bundles have been taken, shared by all lanes
    lines    what it says: (kind, text)
    options  of its sitting
    """

    plan: Plan
    folder: Path
    bundles: Sequence[tuple[str, ...]]
    turns: Path
    taken: Any
    lines: Any
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
    """Make the cells in so many lanes; errors of a lane are told when all have ended.  False if time ran out."""
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    lines: Any = context.Queue()
    options = {"device": sitting.device, "max_minutes": sitting.max_minutes, "started": sitting.started}
    with tempfile.TemporaryDirectory() as turns:
        lane = Lane(
            plan=sitting.plan,
            folder=sitting.folder.path,
            bundles=bundles(cells),
            turns=Path(turns),
            taken=context.Value("i", 0),
            lines=lines,
            options=options | {"scope": replace(sitting.scope, only=None)},
        )
        workers = [context.Process(target=_work, args=(lane,), daemon=True) for _ in range(lanes)]
        with _environment(_threads(lanes)):
            for worker in workers:
                worker.start()
        try:
            told = _listen(workers, lines, sitting)
        finally:
            for worker in workers:
                worker.join()
    wrong = [text for kind, text in told if kind == "error"]
    died = sum(worker.exitcode != 0 for worker in workers)
    if died and not wrong:
        wrong = [f"{died} of {lanes} lanes ended early; what is finished is kept"]
    if wrong:
        raise InputError(wrong[0])
    return ("late", "") not in told


def _listen(workers: Sequence[Any], lines: Any, sitting: Sitting) -> list[tuple[str, str]]:
    """Pass on what the lanes say until they have all ended; returns the rest of their messages."""
    rest, ended = [], False
    while not ended:
        ended = not any(worker.is_alive() for worker in workers)  # before the look: nothing is said after the end
        try:
            while True:
                kind, text = lines.get(timeout=LISTEN_S)
                if kind == "say":
                    sitting.say(text)
                    sitting.keep_time()
                else:
                    rest.append((kind, text))
        except queue.Empty:
            continue
    return rest


def _work(lane: Lane) -> None:
    """The life of a lane."""
    from windtunnel.study.sitting import Sitting  # here: a sitting of several lanes imports this file

    folder, say = StudyFolder(lane.folder), partial(_say, lane.lines)
    while (index := _next(lane.taken)) < len(lane.bundles):
        scope = replace(lane.options["scope"], only=lane.bundles[index])
        sitting = Sitting(lane.plan, folder, say=say, turns=lane.turns, **{**lane.options, "scope": scope})
        try:
            if not sitting.work(scope.cells(lane.plan)):
                lane.lines.put(("late", ""))
                return
        except InputError as error:
            lane.lines.put(("error", str(error)))
            return
        except KeyboardInterrupt:
            return


def _threads(lanes: int) -> dict[str, str]:
    """Environment of a lane: a fair share of the cores, and threads that sleep while they wait.

    Each library would otherwise start a thread for every core in every lane, and instruments that compute in NumPy
    would mostly wait for one another.
    """
    fair = str(max(1, min(MOST_THREADS, (os.cpu_count() or 1) // lanes)))
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
    return dict.fromkeys(names, fair) | {"OMP_WAIT_POLICY": "PASSIVE"}


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


def _say(lines: Any, text: str) -> None:
    lines.put(("say", text))


def _next(taken: Any) -> int:
    with taken.get_lock():
        taken.value += 1
        return taken.value - 1
