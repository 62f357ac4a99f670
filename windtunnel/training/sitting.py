"""A sitting: one call of `train`, which picks up where the run folder stands and goes on.

What a run contains depends on its recipe alone.  However often it is stopped, killed or continued, on a CPU the final
weights are the same to the last bit, because every saved state holds all that the next step depends on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from windtunnel.accidents import accident, is_of_memory
from windtunnel.environment import environment
from windtunnel.errors import InputError
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.models.registry import Factory, is_ours
from windtunnel.training.engine import Engine, out_of_memory
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import lost_list
from windtunnel.training.network import Network
from windtunnel.training.preflight import Shape, rehearse
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipe_differences import differences
from windtunnel.training.run import Run
from windtunnel.training.schedule import ladder_steps
from windtunnel.training.seed_folder import SeedFolder
from windtunnel.training.signals import StopRequest
from windtunnel.training.stopwatch import Stopwatch
from windtunnel.training.trackers import StepTracker, Tracker
from windtunnel.training.unused_folder import clear, untrained
from windtunnel.tunnels.checking import is_foreign

_GPU_CHUNK = 50  # graph replays between two looks at the host's wishes (stop, broken loss)
_LOOK_S = 1.0  # seconds between two such looks where seeds train side by side on a CPU, and wait for each other

Say = Callable[[str], None]


class Diverged(InputError):
    """Loss, weights or predictions of one seed were no longer numbers.

    seed     whose
    found    what was found and what is left, without the advice, which a study follows by itself
    at_once  with the first weights: the model gives no numbers, whatever the learning rate
    """

    def __init__(self, found: str, seed: int, advice: str = "", at_once: bool = False) -> None:
        super().__init__(f"{found}; {advice}" if advice else found)
        self.found, self.seed, self.at_once = found, seed, at_once


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
                self._require_listed(folder)
                if self._has_all_weights(folder) and Run(recipe, path=folder.path).finished:
                    self.say(f"{folder.path} is finished ({recipe.steps} steps); nothing to do{self._own()}")
                    return Run(recipe, path=folder.path, device=self.device, factory=self.factory)
                standing = self._standing(folder)
                self.say(f"continuing {folder.path} from step {standing}{self._own()}")
            else:
                folder.require_known()
                folder.create(recipe, *self.shape)
            folder.add_environment(environment(self.device))
        groups = self._groups(folder)
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

    @property
    def _ours(self) -> bool:
        return is_ours(self.recipe.model, self.factory)

    def _own(self) -> str:
        """Of code that is not ours only the name is kept: who has edited it knows."""
        return "" if self._ours else f" (if the code of {self.recipe.model} has changed since, use another folder)"

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

    def _require_listed(self, folder: RunFolder) -> None:
        """Raise where what was trained is not this recipe's, or not listed; with `earlier` it is listed again."""
        for seed in self.recipe.seeds if self.earlier else ():
            place = folder.seed(seed)
            if lost_list(place, self.recipe):
                for path in place.list_again(self.recipe):
                    self.say(f"seed {seed}: a file of another recipe or seed is set aside as {path.name}")
                left = place.last_step() is not None
                then = "is rebuilt from the files" if left else "there is no state to resume from: it starts over"
                self.say(f"seed {seed}: its list of checkpoints was lost, and {then}")
        folder.recipe()

    def _standing(self, folder: RunFolder) -> str:
        """The step that training goes on from, or where seeds stand at different ones the first and the last of them;
        and how many seeds are finished."""
        every = [max(0, folder.seed(seed).resume_step(self.earlier)) for seed in self.recipe.seeds]
        steps = [step for step in every if step < self.recipe.steps] or every  # those at the end may lack their weights
        told = " to ".join(map(str, sorted({min(steps), max(steps)}))) + f" of {self.recipe.steps}"
        ended = len(every) - len(steps)
        return told + f" ({ended} of {len(every)} seeds are finished)" * bool(ended)

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
        begun = self._resume(networks, folder)
        if begun == self.recipe.steps:
            return True
        try:
            step = self._advance(networks, begun, folder, stop, watch)
        except torch.cuda.OutOfMemoryError:
            step = None  # leave this block first: the error still holds on to the tensors of the failed step
        if step is None:
            raise out_of_memory(networks)
        halted = step < self.recipe.steps
        if halted and folder is not None:
            self._check_finite(networks, folder, step, weights=True)
            for network in networks:
                folder.seed(network.seed).save_state(step, network.state(), self.recipe)
        watch.tell(step)
        if folder is None:
            self.weights |= {network.seed: network.weights() for network in networks}
        return not halted

    def _advance(
        self, networks: list[Network], begun: int, folder: RunFolder | None, stop: StopRequest, watch: Stopwatch
    ) -> int:
        """Step until the end or a reason to stop; returns the step reached."""
        with self._at_work(networks, max(begun, 0), folder):
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
            with watch.stepping(), self._at_work(networks, step, folder):
                engine.advance(target - step)
                if engine.on_gpu:
                    torch.cuda.synchronize()
            if not engine.on_gpu and len(networks) > 1:  # one step in the beginning, to see how long it takes
                chunk = max(1, int(_LOOK_S * (target - step) / watch.last_s))
            step = target
            self._tell(networks, step)
            self._check_finite(networks, folder, step, weights=step == event)
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

    def _groups(self, folder: RunFolder | None) -> list[tuple[int, ...]]:
        """Seeds that advance together: those that stand at the same step, as a seed never goes back for the sake of
        another; on a CPU no more than there are threads.  One that is finished is left alone.

        Modules and tunnels of the user's own go one by one there: they may draw from torch's generator, which threads
        would share.
        """
        standing: dict[int, list[int]] = {}
        for seed in self.recipe.seeds:
            step = -1 if folder is None else folder.seed(seed).resume_step(self.earlier)
            standing.setdefault(step, []).append(seed)
        standing.pop(self.recipe.steps, None)
        groups = [tuple(seeds) for _, seeds in sorted(standing.items(), reverse=True)]
        if self.device.startswith("cuda"):
            return groups
        most = torch.get_num_threads() if self._ours and not is_foreign(self.recipe.tunnel) else 1
        return [seeds[first : first + most] for seeds in groups for first in range(0, len(seeds), most)]

    def _has_all_weights(self, folder: RunFolder) -> bool:
        """Has every finished seed its last weights?  Those that were lost are made again from the state of that step;
        where that is damaged as well, `earlier` goes back behind it."""
        steps, complete = self.recipe.steps, True
        for seed in self.recipe.seeds:
            place = folder.seed(seed)
            if place.last_step() != steps or place.has_weights(steps):
                continue
            state = place.last_state(self.earlier)
            if state is None or state[0] != steps:
                complete = False
                continue
            network = Network(self.recipe, seed, "cpu", self.factory)
            network.restore(state[1])
            place.save_weights(steps, network.weights(), self.recipe)
            self.say(f"seed {seed}: the weights of step {steps} were missing or damaged, and are recreated")
        return complete

    def _resume(self, networks: list[Network], folder: RunFolder | None) -> int:
        """Restore the state of each, all of one step; −1 if there is none."""
        if folder is None:
            return -1
        steps = set()
        for network in networks:
            place = folder.seed(network.seed)
            state = place.last_state(self.earlier)
            step = -1 if state is None else state[0]
            if damage := place.cut_short(self.recipe, step):
                self.say(f"{damage}; continuing without the missing part")
            if state is not None:
                network.restore(state[1])
            steps.add(step)
            place.forget_after(step)
        (step,) = steps
        if step >= 0 and len(self.recipe.seeds) > 1:
            self.say(f"seed {', '.join(str(n.seed) for n in networks)}: from step {step} of {self.recipe.steps}")
        return step

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
                with self._at_work([network], step, folder):
                    record = {"step": step, "loss_bits": loss_bits, **network.validate()}
            except NotNumbers:  # weights may be finite, and too large for what is computed with them
                what = f"the predictions were not finite {f'after step {step}' if step else 'before any step'}"
                raise self._diverged(network, folder, what, step) from None
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
                place.save_weights(step, network.weights(), self.recipe)
            if step % self.recipe.checkpoint_every == 0 or step == self.recipe.steps:
                place.save_state(step, network.state(), self.recipe)

    def _check_finite(self, networks: list[Network], folder: RunFolder | None, step: int, weights: bool) -> None:
        """Stop at a loss that is no number; and, before anything is kept, at weights that are none."""
        for network in networks:
            broken = int(network.broken_at)
            what = f"the loss was not finite at step {broken}"
            if broken < 0 and weights and not network.finite():
                broken, what = step, f"the weights were not finite after step {step}"
            if broken >= 0:
                raise self._diverged(network, folder, what, broken)

    @contextmanager
    def _at_work(self, networks: list[Network], step: int, folder: RunFolder | None) -> Iterator[None]:
        """Around what a model and a tunnel do.  Those of the user's own may fail at the full batch alone, or late: that
        is told in one line.  The step is the last known to have ended, as a GPU that has failed cannot be asked."""
        try:
            yield
        except (InputError, torch.cuda.OutOfMemoryError, BrokenPipeError):
            raise
        except (Exception, SystemExit) as error:
            if is_of_memory(error) or (self._ours and not is_foreign(self.recipe.tunnel)):
                raise  # the latter is a mistake of ours, to be seen whole
            saved = "nothing was saved"
            if folder is not None:
                saved = _saved(folder.seed(networks[0].seed), step + 1)  # no saved number is to blame
            whose = f"model {self.recipe.model} on {type(self.recipe.tunnel).__name__}"
            told = f"{whose}: training failed after step {step} ({accident(error)}); {saved}"
            raise InputError(told) from error

    def _diverged(self, network: Network, folder: RunFolder | None, what: str, step: int) -> Diverged:
        saved = "there is no checkpoint" if folder is None else _saved(folder.seed(network.seed), step)
        found = f"seed {network.seed}: {what}; {saved}"
        if step == 0:  # what is computed with the first weights no learning rate has touched
            advice = "the model itself is the cause: check its initial weights and its forward"
            halved = self.recipe.precision != "float32"
            return Diverged(found, network.seed, advice + "; precision float32 may help" * halved, at_once=True)
        where = "" if folder is None else "in another folder "  # this one goes on with its own recipe alone
        advice = f"try {where}a lower learning rate (lr is {self.recipe.optimiser.lr:g}), a longer warm-up, or"
        return Diverged(found, network.seed, f"{advice} precision float32")


def _saved(place: SeedFolder, broken: int) -> str:
    """What there is on disk of a seed that broke at a step.

    All that was saved before that step gave a loss that was a number.  What was saved at that very step is suspect: its
    own loss, the one that broke, was computed afterwards.
    """
    state, rungs = place.last_step(), place.ladder()
    if state is not None:
        return f"the last {'good ' * (state < broken)}checkpoint is step {state}"
    if rungs:
        suspect = ", which may predict NaN" * (rungs[-1] >= broken)
        return f"there is no checkpoint to resume from, and the last weights kept are from step {rungs[-1]}{suspect}"
    return "there is no checkpoint yet"


def _next_event(step: int, recipe: Recipe, rungs: set[int]) -> int:
    """The next step at which something is logged or saved."""
    periodic = [every * (step // every + 1) for every in (recipe.validate_every, recipe.checkpoint_every)]
    return min([*periodic, *(rung for rung in rungs if rung > step), recipe.steps])
