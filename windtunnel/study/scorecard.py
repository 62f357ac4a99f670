"""Which primitives can an architecture realise?  Each is tried in one small world, with a second, longer chance.

    card = wt.scorecard("transformer", out="results/scratch/scorecard")
    print(card)
    wt.models.register("gru", GRU); wt.scorecard(["gru", "lstm"], seeds=3)

A scorecard is a study like any other: it may be stopped or killed at any moment and resumes with the same call, and
more architectures may be added to its folder.  Your own architecture is retrained after a change only with `replace`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from windtunnel.environment import require_device
from windtunnel.errors import InputError, plain_number, require_number, whole_number
from windtunnel.models.registry import is_built_in
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Cell, Plan, World, references_name
from windtunnel.study.reproduce import reproduce
from windtunnel.study.running.sitting import Say, TrackerOf
from windtunnel.study.scorecard_plan import (
    AGAIN,
    LONGER,
    PRESET,
    STEPS,
    WORLDS,
    plan,
    require_apart,
    require_models,
    require_worlds,
    wants_longer,
)
from windtunnel.study.scorecard_result import Scorecard
from windtunnel.study.share import Share
from windtunnel.training.files import require_path
from windtunnel.training.folder import RunFolder
from windtunnel.training.lock import locked
from windtunnel.training.preflight import rehearse
from windtunnel.training.recipe_differences import differences
from windtunnel.training.unused_folder import untrained

DEVICE = "cpu"
"""Networks this small finish there before a GPU has compiled their step."""


def scorecard(
    models: str | Sequence[str],
    out: str | Path | None = None,
    *,
    steps: int = STEPS,
    longer: int = LONGER,
    seeds: int | Sequence[int] = 1,
    worlds: Sequence[World] = WORLDS,
    device: str | None = None,
    max_minutes: float | None = None,
    replace: bool = False,
    say: Say | None = None,
    watch: TrackerOf | None = None,
) -> Scorecard:
    """Train architectures on one small world per primitive, or resume, and return what each of them realises.

    models       one or several names that `models.build` knows, including those that you registered
    out          results folder; `results/scratch/scorecard` if not given
    steps        steps of each training
    longer       where a primitive is not realised, the same network is trained from scratch for this many times the
                 steps, so that too little training is not mistaken for a limit.  1: no second chance
    seeds        how many networks of each (seeds 0, 1, …), or which seeds
    worlds       use these instead of the three small worlds; each must test a primitive
    device       cpu if not given, which is fast enough for networks this small
    max_minutes  stop after this many minutes with everything saved; make the same call again to resume
    replace      retrain these architectures even where they are done, after a change of their code or the budget
    say, watch   as in `reproduce`

    Problems (an unknown name, a model that does not fit a world or reads ahead) are reported before anything is
    trained.
    """
    names, worlds = require_models(models), require_worlds(worlds)
    steps, longer = whole_number("steps", steps, 1), whole_number("longer", longer, 1)
    if max_minutes is not None:
        max_minutes = plain_number(max_minutes)
        require_number("max_minutes", max_minutes, 0, above=True)
    require_apart(names, worlds)
    folder = StudyFolder(Path("results") / "scratch" / PRESET if out is None else require_path("out", out))
    device = require_device(device or DEVICE)
    first = plan(names, worlds, steps, seeds)
    again = plan(names, worlds, steps * longer, seeds, AGAIN)
    second = again if longer > 1 else dataclasses.replace(again, cells=())
    said, began = say or (lambda line: None), time.monotonic()
    with _untouched(replace):
        sizes = _sizes(first)
        if folder.exists():
            folder.begin(PRESET)
            with locked(folder.path):
                folder.finish_forgetting()
                _old_numbers(folder, [*first.cells, *again.cells], replace, said)
    if folder.exists():
        with locked(folder.path):
            folder.finish_forgetting()
    for planned in (first, second):
        _require_same(folder, planned, sizes)
    options = {"out": folder.path, "device": device, "say": said, "watch": watch}
    reproduce(PRESET, plan=first, max_minutes=max_minutes, **options)
    chosen = _not_realised(folder, first, second)
    left = None if max_minutes is None else max_minutes - (time.monotonic() - began) / 60
    if chosen and (left is None or left > 0):
        if not all(folder.finished(cell.name) for cell in chosen):
            said(f"{len(chosen)} of {len(first.cells)} not realised: trained from scratch for {longer} times the steps")
        reproduce(PRESET, plan=dataclasses.replace(second, cells=chosen), max_minutes=left, **options)
    return Scorecard.read(folder, names, worlds, longer)


def _old_numbers(folder: StudyFolder, cells: Sequence[Cell], replace: bool, say: Say) -> None:
    """Mark what is there of these cells, and the baselines, to be thrown away; or say whose numbers may be those of
    other code.

    Of an architecture of your own only the name is kept, and of a tunnel of your own its settings.
    """
    there = [cell for cell in cells if folder.holds(cell.name)]
    if replace:
        if there:
            say("started over; to resume after a stop, leave out --replace (in Python, replace=True)")
        folder.mark_to_forget({cell.name for cell in there} | {references_name(cell.world) for cell in cells})
    elif own := sorted({cell.recipe.model for cell in there if not is_built_in(cell.recipe.model)}):
        say(f"{', '.join(own)}: what is done is kept; if the code has changed since: --replace, in Python replace=True")


@contextmanager
def _untouched(replace: bool) -> Iterator[None]:
    """Ctrl-C before anything is marked to be thrown away: what goes on from here still has to replace it."""
    try:
        yield
    except KeyboardInterrupt:
        if not replace:
            raise
        raise KeyboardInterrupt("interrupted before anything was replaced; earlier results are as they were") from None


def _not_realised(folder: StudyFolder, first: Plan, second: Plan) -> tuple[Cell, ...]:
    """The second chances that are needed; none before every first one was had."""
    cells = folder.cells()
    if any(cell.name not in cells for cell in first.cells):
        return ()
    shares = {cell.name: Share.of_record(cells[cell.name]["primitive"]) for cell in first.cells}
    return tuple(cell for cell in second.cells if wants_longer(shares[cell.name.removesuffix(AGAIN)]))


def _sizes(planned: Plan) -> dict[tuple[str, str], int | None]:
    """(model, world) -> parameters; raises what stands in the way of a training."""
    found = {}
    for cell in planned.cells:
        try:
            found[cell.recipe.model, cell.world] = rehearse(cell.recipe, None).parameters
        except InputError as error:
            raise InputError(f"in the world {cell.world}: {error}") from error
    return found


OTHERWISE = "give the same options, another folder, or --replace (in Python, replace=True)"


def _require_same(folder: StudyFolder, planned: Plan, sizes: Mapping[tuple[str, str], int | None]) -> None:
    """Raise where the folder has something else under the name of a cell.

    Of an architecture of your own only the name is kept, so a change since then is noticed by its size alone.
    """
    for cell in planned.cells:
        done, size = folder.finished(cell.name), sizes[cell.recipe.model, cell.world]
        record = folder.cell(cell.name) if done else folder.draft(cell.name)
        place = RunFolder(folder.run(cell.name))
        begun = not record and place.exists() and not untrained(place)
        if begun and (told := differences(place.stored_recipe(), cell.recipe)):
            raise InputError(f"{place.path}: was begun with {told}: {OTHERWISE}")
        if record:
            file = f"{cell.name}.{'json' if done else 'part'}"
            folder.require_same("cells", file, record, planned.describe(cell), OTHERWISE)
        if done and record["parameters"] != size:
            raise InputError(
                f"{folder.path}/cells/{cell.name}.json: was made with {record['parameters']:,} parameters, "
                f"{cell.recipe.model} has {size:,} now: must have another name, or give another folder, or --replace"
            )
