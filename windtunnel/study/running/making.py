"""One cell: choose the rate (if it sweeps), train all seeds, score them under every condition, apply the instruments.

What an unfinished cell has so far is kept after every part.  A seed that diverges is left out of the run folder and the
others go on from where they stand.  What was begun on another machine, whose networks are not here, is begun anew, and
so is a run that has lost its list of checkpoints (`unlisted`).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windtunnel import models
from windtunnel.environment import environment
from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, baselines
from windtunnel.json_numbers import from_json, to_json
from windtunnel.models.build import count_built_in
from windtunnel.models.registry import is_built_in
from windtunnel.study.folder.discard import delete_discarded, discard
from windtunnel.study.plan import Cell
from windtunnel.study.running import measure
from windtunnel.study.running.inspecting import Inspecting
from windtunnel.study.running.overlap import overlap
from windtunnel.study.running.pause import OutOfTime
from windtunnel.study.running.rate import Rate
from windtunnel.study.running.unlisted import put_aside
from windtunnel.study.share import Share
from windtunnel.training import Diverged, Recipe, Run, train
from windtunnel.training.folder import RunFolder

if TYPE_CHECKING:
    from windtunnel.study.running.sitting import Sitting


class Making:
    """A cell in the making."""

    def __init__(self, sitting: Sitting, cell: Cell) -> None:
        self.sitting, self.cell = sitting, cell
        self.plan, self.folder, self.device = sitting.plan, sitting.folder, sitting.device
        self.world = self.plan.world(cell.world)
        self.planned = self.plan.describe(cell)
        self.inspecting, self.rate = Inspecting(sitting, cell), Rate(sitting, cell)
        self.draft: dict[str, Any] = {}

    def require_same(self) -> None:
        """A finished cell must be the one that the plan means."""
        self.folder.require_same("cells", f"{self.cell.name}.json", self.folder.cell(self.cell.name), self.planned)

    def make(self) -> None:
        """All of it, or as much as the time allows."""
        cell = self.cell
        delete_discarded(self.folder.run(cell.name).parent)
        self.draft = self._begun()
        recipe, run = self._networks()
        if self.sitting.scope.train_only:
            return
        self._scored(recipe, run)
        if run is not None:
            self.inspecting.read(run, self.draft)
        record = self._record(recipe, run)
        self.folder.write_cell(cell.name, record)
        self.sitting.say(_summary(cell.name, record))
        for state in self.folder.run(cell.name).glob("seed-*/resume-*.safetensors"):
            state.unlink()  # the weights stay; the state to go on from is no longer needed

    def _empty(self) -> dict[str, Any]:
        empty = {"planned": self.planned, "seconds": {}, "diverged": [], "conditions": {}}
        return empty | {"survey": {}, "surveyed": {}, "failed": {}}

    def _begun(self) -> dict[str, Any]:
        """What is kept of this cell, if its networks are here as well: numbers of two trainings never mix."""
        name, kept = self.cell.name, self.folder.draft(self.cell.name)
        empty = self._empty()
        if kept:
            self.folder.require_same("cells", f"{name}.part", kept, self.planned)
        if lost := put_aside(self.folder.run(name)):
            self.sitting.say(lost)
            self.folder.write_draft(name, empty)
            return empty
        if not kept:
            return empty
        if self.inspecting.here or not (kept["conditions"] or kept["diverged"]):
            return empty | kept
        self.sitting.say(f"{name}: was begun elsewhere, and its networks are not here: restarted")
        self.folder.write_draft(name, empty)
        return empty

    @contextmanager
    def _timed(self, kind: str):
        """Count the seconds of a part, and keep the part."""
        tick = time.monotonic()
        yield
        self.draft["seconds"][kind] = self.draft["seconds"].get(kind, 0.0) + time.monotonic() - tick
        self.folder.write_draft(self.cell.name, self.draft)
        self.sitting.keep_time()

    # --- the networks
    def _networks(self) -> tuple[Recipe, Run | None]:
        """The recipe at its rate and the networks trained by it; a rate that breaks gives way to the next best."""
        while True:
            recipe = self.rate.chosen()
            run = self._trained(recipe)
            lost = self.draft["diverged"]
            if not self.rate.breaks(lost):
                return recipe, run
            self.sitting.say(f"{self.cell.name}: {len(lost)} of {len(recipe.seeds)} seeds diverged: another rate")
            place = RunFolder(self.folder.run(self.cell.name))
            spent = sum(record["train_s"] for record in place.timings())
            discard(place.path)  # first: what another rate trained must not be found here
            self.rate.give_up(lost, spent)
            self.draft = self._empty()
            self.folder.write_draft(self.cell.name, self.draft)

    def _trained(self, recipe: Recipe) -> Run | None:
        """All seeds that train; those that diverge are noted and the others go on.  None if all diverge, or so many
        that the rate must change."""
        name, place = self.cell.name, self.folder.run(self.cell.name)
        while True:
            lost = self.draft["diverged"]
            seeds = tuple(seed for seed in recipe.seeds if seed not in lost)
            if not seeds:
                return None
            _leave_out(RunFolder(place), recipe.with_options(seeds=seeds))
            heading = f"training {name}: {recipe.steps} steps, {len(seeds)} seed{'s' * (len(seeds) != 1)}"
            try:
                run = train(
                    recipe=recipe,
                    seeds=seeds,
                    out=place,
                    device=self.device,
                    max_minutes=self.sitting.minutes_to_train(),
                    tracker=self.sitting.watch(heading),
                    turn=self.sitting.stepping,
                )
            except Diverged as error:
                if error.at_once:  # no result of training, and no rate would change it
                    raise InputError(f"{name}: {error}") from None
                self.sitting.say(f"{name}: {error.found}")
                self.draft["diverged"] = [*lost, error.seed]
                self.folder.write_draft(name, self.draft)
                if self.rate.breaks(self.draft["diverged"]):
                    return None
                continue
            self.draft["seconds"] |= run.seconds()  # of all sittings, diverged seeds included: they share the folder
            self.sitting.keep_time()
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

    def _record(self, recipe: Recipe, run: Run | None) -> dict[str, Any]:
        cell, draft = self.cell, self.draft
        kept = run.recipe.seeds if run is not None else ()
        spent = {"survey": sum(draft["surveyed"].values())} | ({"sweep": self.rate.seconds} if cell.sweeps else {})
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
            "seconds": self.sitting.seconds(draft["seconds"], spent),
            "conditions": draft["conditions"],
            "primitive": draft["primitive"],
            "survey": [reading for readings in draft["survey"].values() for reading in readings],
            "surveyed": draft["surveyed"],
            "failed": draft["failed"],
            "history": _history(run),
            "environment": environment(self.device),
        }
        if rate := self.rate.record():
            record["sweep"] = rate
        if "overlap" in draft:
            record["overlap"] = draft["overlap"]
        return record


def _history(run: Run | None) -> dict[str, list]:
    """Seed -> [step, validation KL in bits] along the training.  Claims are decided by it: one that was cut short stops
    the cell, rather than leave a seed out without a word."""
    if run is None:
        return {}
    return {str(seed): [[r["step"], to_json(r["kl_bits"])] for r in run.metrics(seed)] for seed in run.recipe.seeds}


def _leave_out(folder: RunFolder, recipe: Recipe) -> None:
    """A folder that was begun with more seeds goes on with those of the recipe, from where each of them stands."""
    if folder.exists() and set(folder.recipe().seeds) > set(recipe.seeds):
        folder.create(recipe, folder.spec(), folder.parameters())


def _summary(name: str, record: dict[str, Any]) -> str:
    """What came of a cell, on one line: the KL at all readouts, then the share of the primitive."""
    home, share = record["conditions"]["home"], record["primitive"]
    kl = f"KL {from_json(home['metrics']['kl_bits']['mean']):.3g} bits at all readouts" if "metrics" in home else ""
    told = [kl or home["missing"]]
    told += [str(Share.of_record(share))] if share else []
    told += [f"failed: {', '.join(record['failed'])}"] if record["failed"] else []
    told += [", ".join(f"{kind} {s:.0f} s" for kind, s in record["seconds"].items() if kind != "gpu")]
    return f"{name}: {'; '.join(told)}"


def _parameters(recipe: Recipe) -> int:
    """A built-in model is counted without its weights; one of somebody's own is looked at as it is built."""
    model, tunnel, options = recipe.model, recipe.tunnel, recipe.model_options
    if is_built_in(model):
        return count_built_in(model, tunnel, **options)
    return models.describe(models.build(model, tunnel, **options)).params
