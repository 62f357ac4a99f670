"""One call of `reproduce`: takes up a study where its folder stands, and goes on until the end or the time is over.

One cell: choose the rate (if it sweeps), train all seeds, score them under every condition, apply the instruments.  The
parts of an unfinished cell are kept as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch

from windtunnel import models
from windtunnel.environment import environment
from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, baselines
from windtunnel.study import measure, sweep
from windtunnel.study.claims import CLAIMS
from windtunnel.study.estimate import cell_seconds, duration, measured_rates, plan_seconds
from windtunnel.study.overlap import overlap
from windtunnel.study.plan import Cell, Plan, World
from windtunnel.study.results import StudyFolder
from windtunnel.training import Diverged, Recipe, Run, Tracker, train

Say = Callable[[str], None]
Watch = Callable[[str], Tracker | str]
SETUP_MINUTES = 0.75  # with less than this left, a GPU would only compile


class OutOfTime(Exception):
    """The time given is over; everything is saved."""


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

    @property
    def minutes(self) -> float:
        """Gone since this sitting began."""
        return (time.monotonic() - self.started) / 60

    def check_time(self) -> None:
        """Begin nothing new when the time is over."""
        if self.max_minutes is not None and self.minutes >= self.max_minutes:
            raise OutOfTime

    def run(self) -> StudyFolder:
        """Every cell that is not done."""
        self._tell_estimate()
        try:
            for world in self.plan.worlds:
                self._references(world)
            for cell in self.plan.cells:
                if self.folder.finished(cell.name):
                    self._require_same(cell)
                else:
                    self.check_time()
                    self._cell(cell)
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

    def _require_same(self, cell: Cell) -> None:
        """A finished cell must be the one that the plan means."""
        there, here = self.folder.cell(cell.name).get("planned", {}), self.plan.describe(cell)
        for part, value in here.items():
            if there.get(part) != _plain(value):
                raise InputError(
                    f"{self.folder.path}/cells/{cell.name}.json: was made with another {part}: "
                    "must be removed to make it anew, or give another folder"
                )

    def _references(self, world: World) -> None:
        name = f"{world.name}-references"
        if self.folder.finished(name):
            return
        self.check_time()
        self.say(f"{world.name}: baselines")
        tick = time.monotonic()
        record = measure.references(world, self.plan, self.device)
        spent = time.monotonic() - tick
        self.folder.write_cell(name, {"world": world.name, "seconds": self._seconds({"score": spent}), **record})

    # --- one cell
    def _cell(self, cell: Cell) -> None:
        world, draft = self.plan.world(cell.world), self.folder.draft(cell.name)
        draft = {"seconds": {}, "diverged": [], "conditions": {}, "survey": {}} | draft
        recipe = self._at_chosen_rate(cell, draft)
        run = self._trained(cell, recipe, draft)
        diverged = len(draft["diverged"])
        networks: list[Predictor] = [] if run is None else list(run.models)  # type: ignore[arg-type]
        guesses = [*networks, *[baselines(world.tunnel)["uniform"]] * diverged]
        for condition in world.conditions:
            if condition.name not in draft["conditions"]:
                self.check_time()
                with self._timed(cell, draft, "score"):
                    draft["conditions"][condition.name] = measure.score(
                        guesses, world.tunnel, condition, self.plan, self.device
                    )
        if "primitive" not in draft:
            with self._timed(cell, draft, "score"):
                draft["primitive"] = measure.primitive(networks, diverged, world, self.plan, self.device)
        if cell.overlap and "overlap" not in draft:
            with self._timed(cell, draft, "score"):
                draft["overlap"] = overlap(cell.recipe, self.plan.episodes, self.device)
        if run is not None:
            self._survey(cell, run, world, draft)
        record = self._record(cell, recipe, run, draft)
        self.folder.write_cell(cell.name, record)
        self.say(_summary(cell.name, record))

    @contextmanager
    def _timed(self, cell: Cell, draft: dict[str, Any], kind: str):
        """Count the seconds of a part, and keep the part."""
        tick = time.monotonic()
        yield
        draft["seconds"][kind] = draft["seconds"].get(kind, 0.0) + time.monotonic() - tick
        self.folder.write_draft(cell.name, draft)

    def _at_chosen_rate(self, cell: Cell, draft: dict[str, Any]) -> Recipe:
        """The recipe at the rate that the sweep chose."""
        if cell.sweep is None:
            return cell.recipe
        tried = self._tried(cell.sweep)
        while (k := sweep.following(tried)) is not None:
            if not cell.sweeps:
                raise InputError(f"{cell.name}: must come after {cell.sweep}, whose learning rate it takes")
            self.check_time()
            self.say(f"{cell.name}: learning rate × 3^{k} at a tenth of the budget")
            with self._timed(cell, draft, "sweep"):
                tried[k] = sweep.try_rate(cell.recipe, k, self.device)
                self.folder.write_sweep(cell.name, {str(rate): measure.plain(kl) for rate, kl in tried.items()})
        return sweep.at_rate(cell.recipe, sweep.choose(tried))

    def _tried(self, name: str) -> dict[int, float]:
        return {int(k): float(kl) for k, kl in self.folder.sweep(name).items()}

    def _trained(self, cell: Cell, recipe: Recipe, draft: dict[str, Any]) -> Run | None:
        """All seeds that train; those that diverge are noted and the others go on.  None if all diverge."""
        while True:
            lost = draft["diverged"]
            seeds = tuple(seed for seed in recipe.seeds if seed not in lost)
            if not seeds:
                return None
            left = None if self.max_minutes is None else self.max_minutes - self.minutes
            if left is not None and left <= (SETUP_MINUTES if self.device != "cpu" else 0.0):
                raise OutOfTime
            folder = self.folder.path / "runs" / "-without-".join([cell.name, *map(str, lost)])
            try:
                run = train(
                    recipe=recipe,
                    seeds=seeds,
                    out=folder,
                    device=self.device,
                    max_minutes=left,
                    tracker=self.watch(
                        f"{cell.name}: {recipe.steps} steps, {len(seeds)} seed{'s' * (len(seeds) != 1)}"
                    ),
                )
            except Diverged as error:
                self.say(f"{cell.name}: {error}")
                draft["diverged"] = [*lost, error.seed]
                self.folder.write_draft(cell.name, draft)
                continue
            draft["seconds"] |= run.seconds()
            if not run.finished:
                raise OutOfTime
            return run

    def _survey(self, cell: Cell, run: Run, world: World, draft: dict[str, Any]) -> None:
        for name, job in measure.jobs(cell, run, world.tunnel, self.plan).items():
            if name not in draft["survey"]:
                self.check_time()
                self.say(f"{cell.name}: {name}")
                with self._timed(cell, draft, "survey"):
                    draft["survey"][name] = job()
                if self.device != "cpu":
                    torch.cuda.empty_cache()

    def _record(self, cell: Cell, recipe: Recipe, run: Run | None, draft: dict[str, Any]) -> dict[str, Any]:
        kept = run.recipe.seeds if run is not None else ()
        record = {
            "kind": "networks",
            "world": cell.world,
            "model": recipe.model,
            "parameters": _parameters(recipe),
            "planned": self.plan.describe(cell),
            "recipe": recipe.to_dict(),
            "seeds": [*kept, *draft["diverged"]],  # in the order of the scores: those that diverged come last
            "diverged": draft["diverged"],
            "sequences": cell.sequences,
            "tokens": cell.sequences * len(kept) * recipe.tunnel.positions,
            "seconds": self._seconds(draft["seconds"]),
            "conditions": draft["conditions"],
            "primitive": draft["primitive"],
            "survey": [reading for readings in draft["survey"].values() for reading in readings],
            "environment": environment(self.device),
        }
        if cell.sweep is not None:
            tried = self._tried(cell.sweep)
            told = {str(k): measure.plain(kl) for k, kl in sorted(tried.items())}
            record["sweep"] = {"of": cell.sweep, "kl_bits": told, "chosen": sweep.choose(tried)}
        if "overlap" in draft:
            record["overlap"] = draft["overlap"]
        if run is not None and run.path is not None:
            for state in run.path.glob("seed-*/resume-*.safetensors"):
                state.unlink()  # its weights stay; the state to go on from is no longer needed
        return record

    def _seconds(self, spent: dict[str, float]) -> dict[str, float]:
        total = sum(spent.values())
        return {**spent, "total": total, "gpu": total if self.device != "cpu" else 0.0}


def _summary(name: str, record: dict[str, Any]) -> str:
    """What came of a cell, on one line."""
    home, share = record["conditions"]["home"], record["primitive"]
    told = [f"KL {home['metrics']['kl_bits']['mean']:.3g} bits" if "metrics" in home else home["missing"]]
    told += [f"{share['primitive']} {share['told']}"] if share else []
    told += [f"{record['seconds']['gpu']:.0f} GPU seconds"] if record["seconds"]["gpu"] else []
    return f"{name}: {'; '.join(told)}"


def _parameters(recipe: Recipe) -> int:
    with torch.device("meta"):
        network = models.build(recipe.model, recipe.tunnel, quiet=True, **recipe.model_options)
    return models.describe(network).params


def _plain(value: Any) -> Any:
    """As JSON would give it back: tuples become lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
