"""Run a study cell by cell.  Finished cells are kept, so it may be stopped or killed at any moment and resumed later.

study = reproduce("quick", out="results/quick")
"""

from __future__ import annotations

from pathlib import Path

from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import InputError, plain_number, require, require_int, require_number
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Plan
from windtunnel.study.presets import plan_for
from windtunnel.study.running.duration import CPU_SLOWER, disk_bytes, duration, plan_seconds, require_disk
from windtunnel.study.running.lanes import unwatched
from windtunnel.study.running.sitting import Say, Scope, Sitting, TrackerOf
from windtunnel.training.files import require_path
from windtunnel.training.lock import locked

MOST_LANES = 16  # each holds a copy of torch and of its networks


def reproduce(
    preset: str = "quick",
    out: str | Path | None = None,
    *,
    device: str | None = None,
    max_minutes: float | None = None,
    scope: Scope | None = None,
    lanes: int = 1,
    trainings: int = 1,
    plan: Plan | None = None,
    say: Say | None = None,
    watch: TrackerOf | None = None,
) -> StudyFolder:
    """Run the study of a preset, or resume it, and return its folder.

    out          results folder; `results/scratch/PRESET` if not given
    max_minutes  stop after this many minutes with everything saved; make the same call again to resume (default: the
                 plan's own)
    scope        only some cells, only their training, …: see `Scope`; the whole plan if not given
    lanes        cells made at the same time, one process each
    trainings    how many of the lanes may train at once: more in total, each slower
    plan         use this plan instead of the preset's
    say          called with a line on each notable event
    watch        heading -> tracker for each training (`windtunnel.training.Tracker`, or the name of one).  Lanes train
                 in other processes, where no tracker of this one can follow; `say` gets a line per validation instead
    """
    plan = plan or plan_for(preset)
    device = require_device(device or default_device())
    require_int("lanes", lanes, 1)
    require(lanes <= MOST_LANES, "lanes", lanes, f"at most {MOST_LANES}")
    require_int("trainings", trainings, 1)
    require(trainings <= lanes, "trainings", trainings, f"at most as many as lanes, {lanes}")
    if max_minutes is not None:
        max_minutes = plain_number(max_minutes)
        require_number("max_minutes", max_minutes, 0, above=True)
    folder = StudyFolder(Path("results") / "scratch" / plan.preset if out is None else require_path("out", out))
    scope = scope or Scope()
    cells = scope.cells(plan)
    folder.require_no_run()
    if folder.exists():
        folder.begin(plan.preset)
    unmade = [cell for cell in cells if not folder.finished(cell.name)]
    if plan.gpu and device == "cpu" and unmade:  # what is left of a survey may be read here
        there = plan_seconds(plan, beside=not scope.claims_only)
        raise InputError(
            f"preset = {plan.preset!r}: must have a GPU (about {duration(there)} on one H200, some "
            f"{duration(there * CPU_SLOWER)} on two CPU cores); preset quick runs here in under six minutes"
        )
    require_disk(folder.path, disk_bytes(unmade))
    with locked(folder.path):
        folder.begin(plan.preset)
        folder.add_environment(environment(device))
        minutes = plan.minutes if max_minutes is None else max_minutes
        say, watch = say or (lambda line: None), watch or unwatched
        return Sitting(plan, folder, device, minutes, say, watch, scope, side_by_side=lanes, at_once=trainings).run()
