"""One cell: choose the rate (if it sweeps), train all seeds, score them under every condition, apply the instruments.

What an unfinished cell has so far is kept after every part.  A seed that diverges is left out of the run folder and the
others go on from where they stand.  An instrument that breaks down (no memory, say) does not hold up the cell: it is
noted as failed, and tried again by every later sitting until it speaks.
"""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from windtunnel import models
from windtunnel.environment import environment
from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, baselines
from windtunnel.study import measure, sweep
from windtunnel.study.estimate import SURVEY_S
from windtunnel.study.overlap import overlap
from windtunnel.study.plan import Cell
from windtunnel.study.quantity import number, plain
from windtunnel.training import Diverged, Recipe, Run, load, train
from windtunnel.training.folder import RunFolder

if TYPE_CHECKING:
    from windtunnel.study.sitting import Sitting

SETUP_MINUTES = 0.75  # with less than this left, a GPU would only compile


class OutOfTime(Exception):
    """The time given is over; everything is saved."""


class Making:
    """A cell in the making."""

    def __init__(self, sitting: Sitting, cell: Cell) -> None:
        self.sitting, self.cell = sitting, cell
        self.plan, self.folder, self.device = sitting.plan, sitting.folder, sitting.device
        self.world = self.plan.world(cell.world)
        self.planned = self.plan.describe(cell)
        self.draft: dict[str, Any] = {}

    def require_same(self) -> None:
        """A finished cell must be the one that the plan means."""
        self.folder.require_same("cells", f"{self.cell.name}.json", self.folder.cell(self.cell.name), self.planned)

    def make(self) -> None:
        """All of it, or as much as the time allows."""
        cell, kept = self.cell, self.folder.draft(self.cell.name)
        if kept:
            self.folder.require_same("cells", f"{cell.name}.part", kept, self.planned)
        empty = {"planned": self.planned, "seconds": {}, "diverged": [], "conditions": {}, "survey": {}, "failed": {}}
        self.draft = empty | kept
        recipe = self._at_chosen_rate()
        run = self._trained(recipe)
        self._scored(recipe, run)
        if run is not None:
            self._surveyed(run)
        record = self._record(recipe, run)
        self.folder.write_cell(cell.name, record)
        self.sitting.say(_summary(cell.name, record))

    @contextmanager
    def _timed(self, kind: str):
        """Count the seconds of a part, and keep the part."""
        tick = time.monotonic()
        yield
        self.draft["seconds"][kind] = self.draft["seconds"].get(kind, 0.0) + time.monotonic() - tick
        self.folder.write_draft(self.cell.name, self.draft)
        self.sitting.worked = True

    # --- the rate
    def _at_chosen_rate(self) -> Recipe:
        """The recipe at the rate that the sweep chose."""
        cell = self.cell
        if cell.sweep is None:
            return cell.recipe
        tried = self._tried()
        while (k := sweep.following(tried)) is not None:
            if not cell.sweeps:
                raise InputError(f"{cell.name}: must come after {cell.sweep}, whose learning rate it takes")
            self.sitting.say(f"{cell.name}: learning rate × 3^{k} at a tenth of the budget")
            place = self.folder.path / "sweeps" / f"{cell.name}-{k}"  # a kill costs no more than half a trial
            with self._timed("sweep"):
                kl = sweep.try_rate(cell.recipe, k, self.device, out=place, max_minutes=self._minutes())
            if kl is None:
                raise OutOfTime
            tried[k] = kl
            told = {str(rate): plain(value) for rate, value in tried.items()}
            self.folder.write_sweep(cell.name, {"planned": self._sweep_planned(cell), "kl_bits": told})
            shutil.rmtree(place, ignore_errors=True)
        return sweep.at_rate(cell.recipe, sweep.choose(tried))

    def _tried(self) -> dict[int, float]:
        """Exponent -> KL in bits, of the sweep that decides this cell's rate."""
        name = str(self.cell.sweep)
        kept = self.folder.sweep(name)
        if not kept:
            return {}
        owner = next((cell for cell in self.plan.cells if cell.name == name), self.cell)
        self.folder.require_same("sweeps", f"{name}.json", kept, self._sweep_planned(owner))
        return {int(k): number(kl) for k, kl in kept["kl_bits"].items()}

    def _sweep_planned(self, cell: Cell) -> dict[str, Any]:
        return {"recipe": self.plan.describe(cell)["recipe"]}

    def _minutes(self) -> float | None:
        """Left for training; out of time where a GPU would only set up."""
        self.sitting.check_time()
        left = self.sitting.minutes_left
        if left is not None and left <= (SETUP_MINUTES if self.device != "cpu" else 0.0):
            raise OutOfTime
        return left

    # --- the networks
    def _trained(self, recipe: Recipe) -> Run | None:
        """All seeds that train; those that diverge are noted and the others go on.  None if all diverge."""
        name, place = self.cell.name, self.folder.path / "runs" / self.cell.name
        while True:
            lost = self.draft["diverged"]
            seeds = tuple(seed for seed in recipe.seeds if seed not in lost)
            if not seeds:
                return None
            _leave_out(RunFolder(place), recipe.with_options(seeds=seeds))
            heading = f"{name}: {recipe.steps} steps, {len(seeds)} seed{'s' * (len(seeds) != 1)}"
            try:
                run = train(
                    recipe=recipe,
                    seeds=seeds,
                    out=place,
                    device=self.device,
                    max_minutes=self._minutes(),
                    tracker=self.sitting.watch(heading),
                )
            except Diverged as error:
                self.sitting.say(f"{name}: {error}")
                self.draft["diverged"] = [*lost, error.seed]
                self.folder.write_draft(name, self.draft)
                continue
            self.draft["seconds"] |= run.seconds()  # of all sittings, diverged seeds included: they share the folder
            self.sitting.worked = True
            if not run.finished:
                self.folder.write_draft(name, self.draft)
                raise OutOfTime
            return run

    # --- the numbers
    def _scored(self, recipe: Recipe, run: Run | None) -> None:
        draft, world = self.draft, self.world
        lost = draft["diverged"]
        guess = baselines(world.tunnel)["uniform"]
        networks: list[Predictor] = [  # in the order of the seeds, so that scores of two cells pair by seed
            guess if run is None or seed in lost else run.model(seed)  # type: ignore[misc]
            for seed in recipe.seeds
        ]
        for condition in world.conditions:
            if condition.name not in draft["conditions"]:
                self.sitting.check_time()
                with self._timed("score"):
                    scored = measure.score(networks, world.tunnel, condition, self.plan, self.device)
                    draft["conditions"][condition.name] = scored
        if "primitive" not in draft:
            with self._timed("score"):
                draft["primitive"] = measure.primitive(networks, len(lost), world, self.plan, self.device)
        if self.cell.overlap and "overlap" not in draft:
            with self._timed("score"):
                draft["overlap"] = overlap(self.cell.recipe, self.plan.episodes, self.device)

    def _surveyed(self, run: Run) -> None:
        for name, job in measure.jobs(self.cell, run, self.world.tunnel, self.plan).items():
            if name in self.draft["survey"] or name in self.draft["failed"]:
                continue
            self.sitting.check_time(SURVEY_S if self.device != "cpu" else 0.0)
            self.sitting.say(f"{self.cell.name}: {name}")
            with self._timed("survey"):
                readings = job()
                if broken := measure.failures(readings):
                    self.draft["failed"][name] = broken[0]
                else:
                    self.draft["survey"][name] = readings
            if self.device != "cpu":
                torch.cuda.empty_cache()

    def mend(self) -> None:
        """Instruments that broke down when this cell was made: once more."""
        record = self.folder.cell(self.cell.name)
        if not record.get("failed"):
            return
        run = load(self.folder.path / "runs" / self.cell.name, device=self.device)
        found = measure.jobs(self.cell, run, self.world.tunnel, self.plan)
        for name in list(record["failed"]):
            self.sitting.check_time(SURVEY_S if self.device != "cpu" else 0.0)
            self.sitting.say(f"{self.cell.name}: {name}, once more")
            tick = time.monotonic()
            readings = found[name]()
            broken = measure.failures(readings)
            if broken:
                record["failed"][name] = broken[0]
            else:
                del record["failed"][name]
                record["survey"] += readings
            spent = {k: v for k, v in record["seconds"].items() if k not in ("total", "gpu")}
            spent["survey"] = spent.get("survey", 0.0) + time.monotonic() - tick
            record["seconds"] = self.sitting.seconds(spent)
            self.folder.write_cell(self.cell.name, record)

    def _record(self, recipe: Recipe, run: Run | None) -> dict[str, Any]:
        cell, draft = self.cell, self.draft
        kept = run.recipe.seeds if run is not None else ()
        record = {
            "kind": "networks",
            "world": cell.world,
            "model": recipe.model,
            "parameters": _parameters(recipe),
            "planned": self.planned,
            "recipe": recipe.to_dict(),
            "seeds": list(recipe.seeds),
            "diverged": draft["diverged"],
            "sequences": cell.sequences,
            "tokens": cell.sequences * len(kept) * recipe.tunnel.positions,
            "seconds": self.sitting.seconds(draft["seconds"]),
            "conditions": draft["conditions"],
            "primitive": draft["primitive"],
            "survey": [reading for readings in draft["survey"].values() for reading in readings],
            "failed": draft["failed"],
            "history": _history(run),
            "environment": environment(self.device),
        }
        if cell.sweep is not None:
            tried = self._tried()
            told = {str(k): plain(kl) for k, kl in sorted(tried.items())}
            record["sweep"] = {"of": cell.sweep, "kl_bits": told, "chosen": sweep.choose(tried)}
        if "overlap" in draft:
            record["overlap"] = draft["overlap"]
        if run is not None and run.path is not None:
            for state in run.path.glob("seed-*/resume-*.safetensors"):
                state.unlink()  # its weights stay; the state to go on from is no longer needed
        return record


def _history(run: Run | None) -> dict[str, list]:
    """Seed -> [step, validation KL in bits] along the training."""
    if run is None:
        return {}
    return {str(seed): [[r["step"], plain(r["kl_bits"])] for r in run.metrics(seed)] for seed in run.recipe.seeds}


def _leave_out(folder: RunFolder, recipe: Recipe) -> None:
    """A folder that was begun with more seeds goes on with those of the recipe, from where each of them stands."""
    if folder.exists() and set(folder.recipe().seeds) > set(recipe.seeds):
        folder.create(recipe, folder.spec())


def _summary(name: str, record: dict[str, Any]) -> str:
    """What came of a cell, on one line."""
    home, share = record["conditions"]["home"], record["primitive"]
    told = [f"KL {number(home['metrics']['kl_bits']['mean']):.3g} bits" if "metrics" in home else home["missing"]]
    told += [f"{share['primitive']} {share['told']}"] if share else []
    told += [f"failed: {', '.join(record['failed'])}"] if record["failed"] else []
    told += [f"{record['seconds']['gpu']:.0f} GPU seconds"] if record["seconds"]["gpu"] else []
    return f"{name}: {'; '.join(told)}"


def _parameters(recipe: Recipe) -> int:
    with torch.device("meta"):
        network = models.build(recipe.model, recipe.tunnel, quiet=True, **recipe.model_options)
    return models.describe(network).params
