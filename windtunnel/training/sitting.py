"""A sitting: one call of `train`, which picks up where the run folder stands and goes on.

What a run contains depends on its recipe alone.  However often it is stopped, killed or continued, on a CPU the final
weights are the same to the last bit, because every saved state holds all that the next step depends on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from windtunnel.environment import environment
from windtunnel.errors import InputError, Unregistered
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.models.registry import Factory, is_ours
from windtunnel.training.engine import Engine, out_of_memory
from windtunnel.training.failures import Diverged, diverged, require_finite, users_code
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.preflight import Shape, rehearse
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipe_differences import differences
from windtunnel.training.run import Run
from windtunnel.training.schedule import ladder_steps
from windtunnel.training.signals import StopRequest
from windtunnel.training.standing import Standing
from windtunnel.training.stopwatch import Stopwatch
from windtunnel.training.trackers import StepTracker, Tracker
from windtunnel.training.unused_folder import clear, untrained
from windtunnel.tunnels.checking import is_foreign

_GPU_CHUNK = 50  # graph replays between two looks at the host's wishes (stop, broken loss)
_LOOK_S = 1.0  # seconds between two such looks where seeds train side by side on a CPU, and wait for each other

Say = Callable[[str], None]


@dataclass
class Sitting:
    """One call of `train`: picks up where the folder stands, and goes on until the end or a reason to stop.

    shape   of the model, for a new folder
    """

    recipe: Recipe
    factory: Factory | None
    device: str
    tracker: Tracker
    say: Say
    max_minutes: float | None
    earlier: bool
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    shape: Shape = field(default_factory=Shape)
    started: float = field(default_factory=time.monotonic)
    history: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    weights: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)
    timings: list[dict[str, Any]] = field(default_factory=list)

    def run(self, folder: RunFolder | None) -> Run:
        """Train every seed that is not finished."""
        recipe = self.recipe
        if folder is not None:
            folder.forget_temporary()
            if folder.exists() and not self._starts_over(folder):
                standing = self._standing(folder)
                standing.require_listed()
                run = Run(recipe, path=folder.path, device=self.device, factory=self.factory)
                if standing.complete(self.factory) and run.finished:
                    self._require_same_code(run)
                    self.say(f"{folder.path} is finished ({recipe.steps} steps); nothing to do{self._hint(folder)}")
                    return run
                self.say(f"continuing {folder.path} from step {standing.summary()}{self._hint(folder)}")
            else:
                folder.require_known()
                folder.create(recipe, *self.shape)
            folder.add_environment(environment(self.device))
        groups = self._standing(folder).groups(self._most_together())
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

    def _standing(self, folder: RunFolder | None) -> Standing:
        return Standing(self.recipe, folder, self.earlier, self.say)

    @property
    def _built_in(self) -> bool:
        """Are model and tunnel ours?"""
        return is_ours(self.recipe.model, self.factory) and not is_foreign(self.recipe.tunnel)

    def _require_same_code(self, run: Run) -> None:
        """Raise where a finished run of the user's own code is asked for with other code; who has no code at all (a
        plugin is missing) may still have the run."""
        with suppress(Unregistered):
            for seed in () if self._built_in else self.recipe.seeds:
                run.model(seed)

    def _hint(self, folder: RunFolder) -> str:
        """Where no predictions were saved that could tell, only the name is kept: who has edited the code knows."""
        begun = [place for seed in self.recipe.seeds if (place := folder.seed(seed)).begun()]
        if self._built_in or all(place.predictions(place.last_step() or 0, "resume") for place in begun):
            return ""
        return f" (if the code of {self.recipe.model} has changed since, use another folder)"

    def _starts_over(self, folder: RunFolder) -> bool:
        """Is the folder another recipe's, of which no step was trained?  Then it is cleared for this one.

        Anything else that differs is refused: a folder goes on only with the recipe it was started with.
        """
        told = differences(folder.stored_recipe(), self.recipe)
        if not told:
            return False
        if not untrained(folder):
            raise InputError(
                f"{folder.path}: holds a run with {told}; give the same options to continue it, or another folder"
            )
        self.shape = rehearse(self.recipe, self.factory)  # before anything changes
        clear(folder)
        self.say(f"{folder.path} was started with {told}, but no step was trained: starting over")
        return True

    def _train_group(self, seeds: tuple[int, ...], folder: RunFolder | None, stop: StopRequest) -> bool:
        """Take some seeds to the end together.  False if stopped before it; everything is saved then.

        On a CPU a seed that breaks does not keep its companions from their end: it is told when they are there.
        """
        try:
            return self._train_together(seeds, folder, stop)
        except Diverged as error:
            others = tuple(seed for seed in seeds if seed != error.seed)
            if self.device == "cpu" and folder is not None and others and not error.at_once:
                with suppress(Diverged):  # the first is told
                    self._train_group(others, folder, stop)
            raise

    def _train_together(self, seeds: tuple[int, ...], folder: RunFolder | None, stop: StopRequest) -> bool:
        watch = Stopwatch(self._timing_sink(folder), seeds, self.recipe.sequences)
        networks = [Network(self.recipe, seed, self.device, self.factory) for seed in seeds]
        begun = self._standing(folder).restore(networks)
        try:
            step = self._advance(networks, begun, folder, stop, watch)
        except torch.cuda.OutOfMemoryError:
            step = None  # leave this block first: the error still holds on to the tensors of the failed step
        if step is None:
            raise out_of_memory(networks)
        halted = step < self.recipe.steps
        if halted and folder is not None:
            require_finite(networks, folder, step, weights=True)
            for network in networks:
                folder.seed(network.seed).save_state(
                    step, network.state(), self.recipe, network.predictions(kept=False)
                )
        watch.tell(step)
        if folder is None:
            self.weights |= {network.seed: network.weights() for network in networks}
        return not halted

    def _advance(
        self, networks: list[Network], begun: int, folder: RunFolder | None, stop: StopRequest, watch: Stopwatch
    ) -> int:
        """Step until the end or a reason to stop; returns the step reached."""
        with users_code(networks, max(begun, 0), folder):
            engine = Engine(networks)
        watch.ready(max(begun, 0))
        with self.turn():
            watch.resume()  # to wait for a turn is nobody's work
            return self._steps(engine, begun, folder, stop, watch)

    def _steps(self, engine: Engine, begun: int, folder: RunFolder | None, stop: StopRequest, watch: Stopwatch) -> int:
        recipe, networks = self.recipe, engine.networks
        if begun < 0:
            self._report(networks, 0, folder, None)
        rungs, step = set(ladder_steps(recipe.steps, recipe.ladder)), max(begun, 0)
        chunk = _GPU_CHUNK if engine.on_gpu else 1
        while step < recipe.steps and not self._should_stop(stop):
            event = _next_event(step, recipe, rungs)
            target = min(event, step + chunk)
            with watch.stepping(), users_code(networks, step, folder):
                engine.advance(target - step)
                if engine.on_gpu:
                    torch.cuda.synchronize()
            if not engine.on_gpu and len(networks) > 1:  # one step in the beginning, to see how long it takes
                chunk = max(1, int(_LOOK_S * (target - step) / watch.last_s))
            step = target
            self._tell(networks, step)
            require_finite(networks, folder, step, weights=step == event)
            if step % recipe.validate_every == 0 or step == recipe.steps:
                self._report(networks, step, folder, watch.sequences_per_s(step))
            if folder is not None:
                self._save(networks, step, rungs, folder)
                if step % recipe.checkpoint_every == 0:
                    watch.tell(step)
        return step

    def _tell(self, networks: list[Network], step: int) -> None:
        if isinstance(self.tracker, StepTracker):
            for network in networks:
                self.tracker.advance(network.seed, step)

    def _timing_sink(self, folder: RunFolder | None) -> Callable[[dict[str, Any]], None]:
        def sink(record: dict[str, Any]) -> None:
            self.timings.append(record)
            if folder is not None:
                folder.add_timing(record)

        return sink

    def _most_together(self) -> int | None:
        """How many seeds may advance together; None: any number.  On a CPU no more than there are threads; modules and
        tunnels of the user's own one by one, as they may draw from torch's generator, which threads would share."""
        if self.device.startswith("cuda"):
            return None
        return torch.get_num_threads() if self._built_in else 1

    def _should_stop(self, stop: StopRequest) -> bool:
        late = self.max_minutes is not None and time.monotonic() - self.started > 60 * self.max_minutes
        if late:
            self.say(f"stopped after {self.max_minutes:g} minutes; run the same command again to resume")
        return late or stop.requested

    def _report(self, networks: list[Network], step: int, folder: RunFolder | None, rate: float | None) -> None:
        """Validate each, keep that and tell it; rate: sequences/s of all together."""
        for network in networks:
            loss_bits = network.take_loss_bits() if step else None
            try:
                with users_code([network], step, folder):
                    record = {"step": step, "loss_bits": loss_bits, **network.validate()}
            except NotNumbers:  # weights may be finite, and too large for what is computed with them
                what = f"the predictions were not finite {f'after step {step}' if step else 'before any step'}"
                raise diverged(network, folder, what, step) from None
            if folder is not None:
                folder.seed(network.seed).log(record)
            else:
                self.history.setdefault(network.seed, []).append(record)
            told = {name: value for name, value in record.items() if value is not None}
            self.tracker.log(network.seed, told | ({"sequences_per_s": rate / len(networks)} if rate else {}))

    def _save(self, networks: list[Network], step: int, rungs: set[int], folder: RunFolder) -> None:
        for network in networks:
            place = folder.seed(network.seed)
            if step in rungs:
                place.save_weights(step, network.weights(), self.recipe, network.predictions(kept=True))
            if step % self.recipe.checkpoint_every == 0 or step == self.recipe.steps:
                place.save_state(step, network.state(), self.recipe, network.predictions(kept=False))


def _next_event(step: int, recipe: Recipe, rungs: set[int]) -> int:
    """The next step at which something is logged or saved."""
    periodic = [every * (step // every + 1) for every in (recipe.validate_every, recipe.checkpoint_every)]
    return min([*periodic, *(rung for rung in rungs if rung > step), recipe.steps])
