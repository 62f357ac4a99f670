"""One call of `reproduce`: takes up a study where its folder stands, and goes on until the end or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from windtunnel.study import measure
from windtunnel.study.claims import CLAIMS
from windtunnel.study.estimate import cell_seconds, duration, measured_rates, plan_seconds
from windtunnel.study.making import Making, OutOfTime
from windtunnel.study.plan import Plan, World
from windtunnel.study.results import StudyFolder
from windtunnel.training import Tracker

Say = Callable[[str], None]
Watch = Callable[[str], Tracker | str]


def finished(folder: StudyFolder, plan: Plan) -> set[str]:
    """Names of the cells that are done."""
    return {cell.name for cell in plan.cells if folder.finished(cell.name)}


class Sitting:
    """One call of `reproduce`."""

    def __init__(
        self, plan: Plan, folder: StudyFolder, device: str, max_minutes: float | None, say: Say, watch: Watch
    ) -> None:
        self.plan, self.folder, self.device, self.say, self.watch = plan, folder, device, say, watch
        self.max_minutes = max_minutes
        self.started = time.monotonic()
        self.worked = False  # has anything been kept in this sitting?

    @property
    def minutes_left(self) -> float | None:
        """Of the time given; None without a limit."""
        gone = (time.monotonic() - self.started) / 60
        return None if self.max_minutes is None else self.max_minutes - gone

    def check_time(self, needed_s: float = 0.0) -> None:
        """Begin nothing new when the time is over, nor what needs more than is left of it.

        A sitting that has kept nothing yet begins in any case: otherwise short ones would never come to an end.
        """
        left = self.minutes_left
        if left is not None and (left <= 0 or (self.worked and left < needed_s / 60)):
            raise OutOfTime

    def run(self) -> StudyFolder:
        """Every cell that is not done."""
        self._tell_estimate()
        try:
            for world in self.plan.worlds:
                self._references(world)
            for cell in self.plan.cells:
                making = Making(self, cell)
                if not self.folder.finished(cell.name):
                    self.check_time()
                    making.make()
                else:
                    making.require_same()
                    making.mend()
        except OutOfTime:
            self.say(f"stopped after {self.max_minutes:g} minutes; the same command goes on from here")
        finally:
            cells = self.folder.cells().values()
            spent = {kind: sum(c["seconds"].get(kind, 0.0) for c in cells) for kind in ("total", "gpu")}
            self.folder.add(seconds=spent, finished=sorted(finished(self.folder, self.plan)))
            self.folder.write_summaries(CLAIMS)
        return self.folder

    def _tell_estimate(self) -> None:
        done = finished(self.folder, self.plan)
        todo = [cell for cell in self.plan.cells if cell.name not in done]
        if self.plan.gpu:
            rates = measured_rates(self.folder.cells().values())
            for cell in todo:
                self.say(f"{cell.name}: about {cell_seconds(cell, self.plan, rates):.0f} GPU seconds")
            left = plan_seconds(self.plan, done, rates)
            self.say(
                f"{len(todo)} of {len(self.plan.cells)} cells to do, about {left:.0f} GPU seconds ({duration(left)})"
            )
        elif done:
            self.say(f"{len(done)} of {len(self.plan.cells)} cells are done and kept")

    def _references(self, world: World) -> None:
        name, planned = f"{world.name}-references", self.plan.describe_world(world)
        if self.folder.finished(name):
            self.folder.require_same("cells", f"{name}.json", self.folder.cell(name), planned)
            return
        self.check_time()
        self.say(f"{world.name}: baselines")
        tick = time.monotonic()
        record = measure.references(world, self.plan, self.device)
        seconds = self.seconds({"score": time.monotonic() - tick})
        self.folder.write_cell(name, {"world": world.name, "planned": planned, "seconds": seconds, **record})
        self.worked = True

    def seconds(self, spent: dict[str, float]) -> dict[str, float]:
        """Seconds by kind, with their sum, and how many of them a GPU was held."""
        total = sum(spent.values())
        return {**spent, "total": total, "gpu": total if self.device != "cpu" else 0.0}
