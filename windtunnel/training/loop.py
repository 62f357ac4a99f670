"""Train: from a recipe to a run, in one sitting or in many.

What a run contains depends on its recipe alone.  However often it is stopped, killed or continued, on a CPU the final
weights are the same to the last bit, because every saved state holds all that the next step depends on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from windtunnel.environment import environment, require_device
from windtunnel.errors import InputError, require, require_int
from windtunnel.models.base import SequenceModel
from windtunnel.models.registry import Factory
from windtunnel.training.engine import Engine, out_of_memory
from windtunnel.training.files import locked
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipes import recipe_for
from windtunnel.training.run import Run
from windtunnel.training.schedule import ladder_steps
from windtunnel.training.signals import StopRequest
from windtunnel.training.trackers import Tracker, open_tracker
from windtunnel.tunnels import Tunnel

_GPU_CHUNK = 50  # graph replays between two looks at the host's wishes (stop, broken loss)

Say = Callable[[str], None]


def train(
    tunnel: Tunnel | None = None,
    model: str | Factory = "transformer",
    *,
    recipe: Recipe | None = None,
    preset: str | None = None,
    seeds: int | tuple[int, ...] | None = None,
    out: str | Path | None = None,
    device: str | None = None,
    tracker: str | Tracker = "none",
    max_minutes: float | None = None,
    earlier: bool = False,
    say: Say | None = None,
    **options: Any,
) -> Run:
    """Train a model on a tunnel and return the run.

    tunnel, model   the world, and an architecture by name or any `Callable[[Tunnel], nn.Module]`
    recipe, preset  start from this recipe, or from a named preset; by default from the committed recipe for the pair
    seeds           how many networks (seeds 0, 1, …), or which seeds
    options         any field of `Recipe`, `Optimiser` or `Schedule` (steps=, batch=, lr=, …), or of the model
                    (params=, depth=, width=, heads=, positions=, …)
    out             folder to keep the run in; giving the same call again continues it.  None: only in memory
    device          cpu or cuda; by default a GPU if there is one
    max_minutes     stop after that long with everything saved; the same call goes on from there
    earlier         if the last saved state is damaged, go on from the intact one before it
    say             told one line when something is worth a line (continuing, already finished, stopped)
    """
    say = say or (lambda line: None)
    factory = None if isinstance(model, str) else model
    if recipe is None:
        require(tunnel is not None, "tunnel", tunnel, "given when no recipe is")
        recipe = recipe_for(tunnel, model if isinstance(model, str) else _factory_name(model), preset)  # type: ignore[arg-type]
        if factory is not None:
            recipe = recipe.with_options(model_options={})  # a size in built-in terms means nothing to it
    recipe = apply_options(recipe, seeds, options)
    device = require_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if max_minutes is not None:
        require(max_minutes > 0, "max_minutes", max_minutes, "above 0")
    sitting = Sitting(recipe, factory, device, open_tracker(tracker), say, max_minutes, earlier)
    if out is None:
        return sitting.run(None)
    with locked(Path(out)):
        return sitting.run(RunFolder(out))


def apply_options(recipe: Recipe, seeds: int | tuple[int, ...] | None, options: dict[str, Any]) -> Recipe:
    """Put each option where it belongs: into the recipe's parts, or (what they do not know) into the model's."""
    known = recipe.to_dict()
    own = {*known, *known["optimiser"], *known["schedule"]} - {"tunnel", "model", "model_options", "schedule"}
    mine = {name: value for name, value in options.items() if name in own}
    theirs = {name: value for name, value in options.items() if name not in own}
    for name in theirs.keys() & {"tunnel", "model", "seed", "quiet"}:  # words that `models.build` keeps for its caller
        hint = "seeds" if name == "seed" else "an option of the recipe or the model"
        raise InputError(f"option = {name!r}: must be {hint}")
    if seeds is not None:
        if isinstance(seeds, int):
            require_int("seeds", seeds, 1)
            seeds = tuple(range(seeds))
        mine["seeds"] = seeds
    if theirs:
        size = {"params", "depth", "width", "heads", "preset", "ff_width"}
        # A given size replaces the recipe's size; it is not mixed with it.
        kept = {k: v for k, v in recipe.model_options.items() if not (size & theirs.keys() and k in size)}
        mine["model_options"] = kept | theirs
    return recipe.with_options(**mine)


def _factory_name(factory: Factory) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


@dataclass
class Sitting:
    """One call of `train`: picks up where the folder stands, and goes on until the end or a reason to stop."""

    recipe: Recipe
    factory: Factory | None
    device: str
    tracker: Tracker
    say: Say
    max_minutes: float | None
    earlier: bool
    started: float = field(default_factory=time.monotonic)
    history: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    weights: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)
    timings: list[dict[str, Any]] = field(default_factory=list)

    def run(self, folder: RunFolder | None) -> Run:
        """Train every seed that is not finished."""
        recipe = self.recipe
        if folder is not None:
            if folder.exists():
                _require_same(folder, recipe)
                if Run(recipe, path=folder.path).finished:
                    self.say(f"{folder.path} is finished ({recipe.steps} steps); nothing to do")
                    return Run(recipe, path=folder.path, device=self.device, factory=self.factory)
                self.say(f"continuing {folder.path}")
            else:
                probe = Network(recipe, recipe.seeds[0], "cpu", self.factory).model
                folder.create(recipe, probe.spec if isinstance(probe, SequenceModel) else None)
            folder.add_environment(environment(self.device))
        # A GPU takes all seeds in one step; a CPU one after the other, so that each is bit-identical to itself alone.
        together = self.device.startswith("cuda")
        groups = [recipe.seeds] if together else [(seed,) for seed in recipe.seeds]
        self.tracker.start(recipe, str(folder.path) if folder else None)
        try:
            with StopRequest() as stop:
                for seeds in groups:
                    if not self._train_group(seeds, folder, stop):
                        break
                stop.raise_if_interrupted(folder.path if folder else None)
        finally:
            self.tracker.finish()
        if folder is not None:
            return Run(recipe, path=folder.path, device=self.device, factory=self.factory)
        return Run(
            recipe,
            weights=self.weights,
            history=self.history,
            timings=self.timings,
            factory=self.factory,
            device=self.device,
        )

    def _train_group(self, seeds: tuple[int, ...], folder: RunFolder | None, stop: StopRequest) -> bool:
        """Take some seeds to the end together.  False if stopped before it; everything is saved then."""
        recipe, clock = self.recipe, time.perf_counter()
        networks = [Network(recipe, seed, self.device, self.factory) for seed in seeds]
        begun = self._resume(networks, folder)
        if begun == recipe.steps:
            return True
        try:
            engine = Engine(networks)
            setup_s, clock, step_s = time.perf_counter() - clock, time.perf_counter(), 0.0
            if begun < 0:
                self._report(networks, 0, folder, None)
                begun = 0
            rungs, step = set(ladder_steps(recipe.steps, recipe.ladder)), begun
            while step < recipe.steps and not (halted := self._should_stop(stop)):
                event = _next_event(step, recipe, rungs)
                target = min(event, step + (_GPU_CHUNK if engine.on_gpu else 1))
                tick = time.perf_counter()
                engine.advance(target - step)
                if engine.on_gpu:
                    torch.cuda.synchronize()
                step_s += time.perf_counter() - tick
                step = target
                self._check_finite(networks, folder, step, weights=step == event)
                if step % recipe.validate_every == 0 or step == recipe.steps:
                    self._report(networks, step, folder, len(networks) * recipe.batch * (step - begun) / step_s)
                if folder is not None:
                    self._save(networks, step, rungs, folder)
        except torch.cuda.OutOfMemoryError:
            raise out_of_memory(networks) from None
        else:
            halted = step < recipe.steps
        if halted and folder is not None:
            self._check_finite(networks, folder, step, weights=True)
            for network in networks:
                folder.seed(network.seed).save_state(step, network.state())
        self._time(folder, seeds, begun, step, setup_s, time.perf_counter() - clock, step_s)
        if folder is None:
            self.weights |= {network.seed: network.weights() for network in networks}
        return not halted

    def _resume(self, networks: list[Network], folder: RunFolder | None) -> int:
        """Restore the newest state that all of them have; −1 if there is none."""
        if folder is None:
            return -1
        limit: int | None = None
        while True:
            found = [folder.seed(network.seed).last_state(self.earlier, limit) for network in networks]
            steps = {-1 if state is None else state[0] for state in found}
            if len(steps) == 1:
                break
            limit = min(steps)  # a kill between two seeds' saves: go back to the state they share
        step = steps.pop()
        for network, state in zip(networks, found, strict=True):
            if state is not None:
                network.restore(state[1])
            folder.seed(network.seed).forget_after(step)
        if step >= 0:
            self.say(f"seed {', '.join(str(n.seed) for n in networks)}: from step {step} of {self.recipe.steps}")
        return step

    def _should_stop(self, stop: StopRequest) -> bool:
        late = self.max_minutes is not None and time.monotonic() - self.started > 60 * self.max_minutes
        if late:
            self.say(f"stopped after {self.max_minutes:g} minutes; the same command goes on from here")
        return late or stop.requested

    def _report(self, networks: list[Network], step: int, folder: RunFolder | None, rate: float | None) -> None:
        for network in networks:
            record = {"step": step, "loss_bits": network.take_loss_bits() if step else None, **network.validate()}
            if folder is not None:
                folder.seed(network.seed).log(record)
            else:
                self.history.setdefault(network.seed, []).append(record)
            told = {name: value for name, value in record.items() if value is not None}
            self.tracker.log(network.seed, told | ({"sequences_per_s": rate} if rate else {}))

    def _save(self, networks: list[Network], step: int, rungs: set[int], folder: RunFolder) -> None:
        for network in networks:
            place = folder.seed(network.seed)
            if step in rungs:
                place.save_weights(step, network.weights())
            if step % self.recipe.checkpoint_every == 0 or step == self.recipe.steps:
                place.save_state(step, network.state())

    def _check_finite(self, networks: list[Network], folder: RunFolder | None, step: int, weights: bool) -> None:
        """Stop at a loss that is no number; and, before anything is kept, at weights that are none."""
        for network in networks:
            broken = int(network.broken_at)
            what = f"the loss was not finite at step {broken}"
            if broken < 0 and weights and not network.finite():
                broken, what = step, f"the weights were not finite after step {step}"
            if broken >= 0:
                good = folder.seed(network.seed).last_step() if folder is not None else None
                saved = f"the last good checkpoint is step {good}" if good else "there is no checkpoint yet"
                lr = self.recipe.optimiser.lr
                raise InputError(
                    f"seed {network.seed}: {what}; {saved}; try a lower learning rate (lr is {lr:g}), "
                    "a longer warm-up, or precision float32"
                )

    def _time(self, folder: RunFolder | None, seeds: tuple[int, ...], *spans: float) -> None:
        names = ("from", "to", "setup_s", "train_s", "step_s")
        record = {"seeds": list(seeds), **dict(zip(names, spans, strict=True))}
        steps, step_s = record["to"] - record["from"], record["step_s"]
        record["sequences_per_s"] = len(seeds) * self.recipe.batch * steps / step_s if step_s else 0.0
        self.timings.append(record)
        if folder is not None:
            folder.add_timing(record)


def _next_event(step: int, recipe: Recipe, rungs: set[int]) -> int:
    """The next step at which something is logged or saved."""
    periodic = [every * (step // every + 1) for every in (recipe.validate_every, recipe.checkpoint_every)]
    return min([*periodic, *(rung for rung in rungs if rung > step), recipe.steps])


def _require_same(folder: RunFolder, recipe: Recipe) -> None:
    """A folder goes on only with the recipe it was started with; the first difference is named."""
    there, here = _flat(folder.recipe()), _flat(recipe)
    for name in here:
        if there[name] != here[name]:
            raise InputError(
                f"{folder.path}: holds a run with {name} = {there[name]!r}, not {here[name]!r}; "
                "give the same options to continue it, or another folder"
            )


def _flat(recipe: Recipe) -> dict[str, Any]:
    """A recipe's options by the names under which `train` takes them."""
    plain = recipe.to_dict()
    parts = plain.pop("optimiser") | plain.pop("schedule")
    return plain | {"optimiser": parts.pop("kind")} | parts
