"""One call of `reproduce`: takes up a study where its folder stands, and goes on until the end or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from windtunnel.errors import require, require_choice
from windtunnel.study.claims import CLAIMS
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Cell, Plan, World, references_name
from windtunnel.study.running import lanes, measure
from windtunnel.study.running.duration import GUESSED, Known, beside_seconds, cell_seconds, duration, training_seconds
from windtunnel.study.running.inspecting import Inspecting
from windtunnel.study.running.making import Making
from windtunnel.study.running.pause import OutOfTime, Waits
from windtunnel.training import Tracker
from windtunnel.training.gpu_turns import turn

SETUP_MINUTES = 0.75  # with less than this left, a GPU would only compile

Say = Callable[[str], None]
TrackerOf = Callable[[str], Tracker | str]
"""The tracker, or its name, of the training that a heading announces."""


@dataclass(frozen=True)
class Scope:
    """Which part of a plan a sitting is for.

    only          names of the cells; all of them if None
    train_only    sweeps and trainings; scores and instruments are left to a later sitting on the same folder
    claims_only   no instruments but those that claims read
    disk_minutes  this machine keeps its disk only so long: begin no cell that would not be finished by then, since an
                  unfinished one is lost with its networks
    """

    only: tuple[str, ...] | None = None
    train_only: bool = False
    claims_only: bool = False
    disk_minutes: float | None = None

    def cells(self, plan: Plan) -> list[Cell]:
        """The cells in the order of the plan."""
        known = [cell.name for cell in plan.cells]
        for name in self.only or ():
            require_choice("only", name, known)
        require(self.disk_minutes is None or self.disk_minutes > 0, "disk_minutes", self.disk_minutes, "above 0")
        return [cell for cell in plan.cells if self.only is None or cell.name in self.only]


class Sitting:
    """One call of `reproduce`, or one lane of it.

    started       when it began, on the monotonic clock; now, if not given
    turns         folder of the locks that lanes share; None: nobody else is at work here
    side_by_side  number of lanes
    at_once       number of trainings that may step at the same time
    """

    def __init__(
        self,
        plan: Plan,
        folder: StudyFolder,
        device: str,
        max_minutes: float | None = None,
        say: Say = lambda line: None,
        watch: TrackerOf = lanes.unwatched,
        scope: Scope | None = None,
        started: float | None = None,
        turns: Path | None = None,
        side_by_side: int = 1,
        at_once: int = 1,
    ) -> None:
        self.plan, self.folder, self.device, self.say, self.watch = plan, folder, device, say, watch
        self.max_minutes, self.scope, self.turns = max_minutes, scope or Scope(), turns
        self.started = time.monotonic() if started is None else started
        self.began, self.side_by_side = datetime.now(UTC).isoformat(timespec="milliseconds"), side_by_side
        self.at_once = at_once
        self.waited = 0.0  # seconds, for turns to train
        self.worked = False  # has anything been kept in this sitting?
        self.known = GUESSED  # what cells that are done have taught about the time of others

    @property
    def minutes_left(self) -> float | None:
        """Of the time given; None without a limit."""
        return None if self.max_minutes is None else self.max_minutes - self._gone

    @property
    def _gone(self) -> float:
        return (time.monotonic() - self.started) / 60

    def check_time(self, needed_s: float = 0.0) -> None:
        """Begin nothing new when the time is over, nor what needs more than is left of it.

        A sitting that has kept nothing yet begins in any case: otherwise short ones would never come to an end.
        """
        left = self.minutes_left
        if left is not None and (left <= 0 or (self.worked and left < needed_s / 60)):
            raise OutOfTime

    def minutes_to_train(self) -> float | None:
        """Left for training, None without a limit; out of time where a GPU would only set up."""
        self.check_time()
        left = self.minutes_left
        if left is not None and left <= (SETUP_MINUTES if self.device != "cpu" else 0.0):
            raise OutOfTime
        return left

    def run(self) -> StudyFolder:
        """Every cell that is not done."""
        cells = self.scope.cells(self.plan)
        self.known = Known.of(self.folder.cells().values())
        self._tell_estimate(cells)
        try:
            needed = min(self.side_by_side, len(lanes.bundles([cell for cell in cells if self._waits(cell)])))
            in_time = lanes.run(self, cells, needed) if needed > 1 else self.work(cells)
            if not in_time:
                self.say(f"stopped after {self.max_minutes:g} minutes; run the same command again to resume")
        finally:
            self.keep_time()
            self.folder.sum_up(CLAIMS)
        return self.folder

    def work(self, cells: Sequence[Cell]) -> bool:
        """These cells, one after the other.  False if the time was over before their end."""
        self.known = Known.of(self.folder.cells().values())
        try:
            for cell in cells:
                with self.alone(references_name(cell.world)):
                    self._references(self.plan.world(cell.world))
                self._cell(Making(self, cell))
        except OutOfTime:
            return False
        return True

    def keep_time(self) -> None:
        """Something was kept: note how long the sitting has lasted, so that a kill loses little of that, too."""
        self.worked = True
        if self.turns is None:  # a lane leaves it to its parent
            told = {"began": self.began, "seconds": round(60 * self._gone, 1), "device": self.device}
            self.folder.add_sitting(told | {"lanes": self.side_by_side, "trainings": self.at_once})

    def alone(self, name: str, at_once: int = 1) -> AbstractContextManager[None]:
        """A context that only one lane at a time is in, or so many of them."""
        return nullcontext() if self.turns is None else turn(self.turns / name, at_once)

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """A turn to train; `waited` counts the seconds until it came."""
        tick = time.monotonic()
        with self.alone("train", self.at_once):
            self.waited += time.monotonic() - tick
            yield

    def _cell(self, making: Making) -> None:
        name = making.cell.name
        earlier = self.folder.finished(name)
        if earlier:
            making.require_same()
        elif not making.inspecting.here and not self._lasts(self._until_finished(making.cell)):
            self.say(f"{name}: is left to another machine, this one would not keep it to its end")
            return
        else:
            self.check_time()
            self.say(self._begins(making.cell))
            try:
                making.make()
            except Waits as other:
                self.say(str(other))
                return
            self.known = Known.of(self.folder.cells().values())
        if not self.scope.train_only:
            making.inspecting.complete(again=earlier)

    def _waits(self, cell: Cell) -> bool:
        """Is there work left that this cell needs, here?"""
        if not self.folder.finished(cell.name):
            return True
        inspecting = Inspecting(self, cell)
        return not self.scope.train_only and inspecting.here and bool(inspecting.left(again=True))

    def _begins(self, cell: Cell) -> str:
        """The line that begins a cell, `cell 5 of 12: urn-lstm`; those that are done count too."""
        names = [one.name for one in self.scope.cells(self.plan)]
        return f"cell {names.index(cell.name) + 1} of {len(names)}: {cell.name}"

    def _until_finished(self, cell: Cell) -> float:
        """Seconds, if every other lane trains as long before its turn comes."""
        waits = (self.side_by_side - 1) * training_seconds(cell, self.known)
        return cell_seconds(cell, self.plan, self.known) + waits

    def _lasts(self, seconds: float) -> bool:
        """Will this machine keep its disk so long?"""
        given = self.scope.disk_minutes
        return given is None or seconds / 60 <= given - self._gone

    def _tell_estimate(self, cells: list[Cell]) -> None:
        todo = [cell for cell in cells if not self.folder.finished(cell.name)]
        if self.plan.gpu:
            known, left = self.known, 0.0
            for cell in todo:
                needed, more = cell_seconds(cell, self.plan, known), beside_seconds(cell, self.plan, known)
                self.say(f"{cell.name}: about {needed:.0f} GPU seconds" + (f", its survey {more:.0f}" if more else ""))
                left += needed + (0.0 if self.scope.claims_only else more)
            self.say(f"{len(todo)} of {len(cells)} cells to do, about {left:.0f} GPU seconds ({duration(left)})")
        elif len(todo) < len(cells):
            self.say(f"{len(cells) - len(todo)} of {len(cells)} cells are done and kept")

    def _references(self, world: World) -> None:
        name, planned = references_name(world.name), self.plan.describe_world(world)
        if self.folder.finished(name):
            self.folder.require_same("cells", f"{name}.json", self.folder.cell(name), planned)
            return
        if self.scope.train_only:
            return
        self.check_time()
        self.say(f"{world.name}: baselines")
        tick = time.monotonic()
        record = measure.references(world, self.plan, self.device)
        seconds = self.seconds({}, {"score": time.monotonic() - tick})
        self.folder.write_cell(name, {"world": world.name, "planned": planned, "seconds": seconds, **record})
        self.keep_time()

    def seconds(self, spent: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
        """Seconds by kind with some more, their sum, and how many of them a GPU was held."""
        parts = {kind: value for kind, value in spent.items() if kind not in ("total", "gpu")}
        parts |= {kind: parts.get(kind, 0.0) + value for kind, value in more.items()}
        total = sum(parts.values())
        here = total - spent.get("total", 0.0)
        return {**parts, "total": total, "gpu": spent.get("gpu", 0.0) + (here if self.device != "cpu" else 0.0)}
