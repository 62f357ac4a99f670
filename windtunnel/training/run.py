"""What training leaves: networks, their history, and the folder that holds both."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from windtunnel import models, tunnels
from windtunnel.environment import require_device
from windtunnel.errors import InputError, Unregistered, require_choice
from windtunnel.models.adapt import parameter_name
from windtunnel.models.registry import Factory
from windtunnel.training.files import require_path
from windtunnel.training.folder import RunFolder
from windtunnel.training.recipe import Recipe
from windtunnel.training.same_code import require_same
from windtunnel.tunnels import Tunnel


class Run:
    """A trained recipe.  `run.models[i]` is the network of seed `run.recipe.seeds[i]`; `evaluate(run)` scores them.

    path     its folder, or None for a run kept only in memory
    steps    steps taken by the least advanced seed; `finished` once that is all of them
    sha256   checksums of the given weights where they were read from a file, one for each seed
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        path: Path | None = None,
        weights: dict[int, dict[str, Tensor]] | None = None,
        history: dict[int, list[dict[str, Any]]] | None = None,
        timings: list[dict[str, Any]] | None = None,
        factory: str | Factory | None = None,
        device: str = "cpu",
        step: int | None = None,
        sha256: Sequence[str] = (),
    ) -> None:
        self.recipe, self.path, self.device = recipe, path, device
        self._weights, self._history, self._timings = weights, history or {}, timings or []
        self._factory, self._step, self._sha256 = factory, step, list(sha256)
        self._as_it_stands = False  # whether `models` may be of different steps, as `at_hand` gives them

    @property
    def tunnel(self) -> Tunnel:
        """The world it was trained in."""
        return self.recipe.tunnel

    @property
    def folder(self) -> RunFolder:
        """Its folder on disk."""
        if self.path is None:
            raise InputError("run: must have been trained with out=… to have a folder")
        return RunFolder(self.path)

    def __repr__(self) -> str:
        """On one line: what was trained where, by which recipe, and how far."""
        recipe, seeds = self.recipe, len(self.recipe.seeds)
        world = _kind(recipe.tunnel)
        by = f" ({recipe.name})" if recipe.name not in ("", f"{world}-{recipe.model}") else ""
        step, where = self.steps if self._step is None else self._step, f", {self.path}" if self.path else ""
        given = sorted({self._weights_step(seed) for seed in self.recipe.seeds})
        weights = "" if given == [step] else f" (weights of step {' and '.join(map(str, given))})"
        told = f"{seeds} seed{'s' * (seeds != 1)}, step {step} of {recipe.steps}{weights}{where}"
        return f"<Run of {recipe.model} on {world}{by}: {told}>"

    @cached_property
    def models(self) -> list[nn.Module]:
        """One network per seed, in evaluation mode, with the last weights (or those of `load(…, step=…)`).

        Seeds of an unfinished run may stand at different steps: then there are none, as a score over such seeds would
        be of nothing in particular.  `at_hand` gives them as they stand.
        """
        networks = [self.model(seed, self._step) for seed in self.recipe.seeds]  # one without weights says so
        if self._step is None and not self._as_it_stands:
            self._require_one_step()
        return networks

    def _require_one_step(self) -> None:
        """Raise where the seeds' last weights are of different steps; warn where all are older than the run."""
        steps = {seed: self._weights_step(seed) for seed in self.recipe.seeds}
        oldest = min(steps.values())
        if len({*steps.values()}) > 1:
            shared = set.intersection(*(set(self.ladder(seed)) for seed in steps))
            instead = f", or load those of one step: load(…, step={max(shared)})" if shared else ""
            told = f"step {', '.join(f'{step} for seed {seed}' for seed, step in steps.items())}"
            must = "the seeds' last weights must be from one step, but are from"
            raise InputError(f"{self.path}: {must} {told}: continue training{instead}")
        if oldest < self.steps:
            told = f"{self.path}: is at step {self.steps}, but its last weights are from step {oldest}"
            warnings.warn(told, stacklevel=4)

    def _weights_step(self, seed: int) -> int:
        """The step whose weights `models` gives of a seed; 0 where there are none."""
        if self._step is not None or self.path is None:
            return self._step or self._steps_of(seed)
        return (self.ladder(seed) or [0])[-1]

    def model(self, seed: int, step: int | None = None) -> nn.Module:
        """The network of one seed, as it was at a step of the ladder (default: the last)."""
        if self._weights is not None and step is None:
            if seed not in self._weights:
                raise InputError(f"run: seed {seed} has no weights yet")
            weights, saved, step = self._weights[seed], "", self._step or 0
        else:
            rungs = self.folder.seed(seed).ladder()
            if not rungs:
                raise InputError(f"{self.path}: seed {seed} has no weights yet")
            step = rungs[-1] if step is None else step
            weights, saved = self.folder.seed(seed).weights(step), self.folder.seed(seed).predictions(step)
        spec = self.folder.spec() if self.path is not None and self._factory is None else None
        if spec is not None:
            network: nn.Module = models.from_spec(spec)
        else:
            made_by = self._factory or self.recipe.model
            if isinstance(made_by, str) and made_by not in models.names():
                raise Unregistered(
                    f"{self.path or 'run'}: its architecture {made_by!r} must be registered first: "
                    "windtunnel.models.register or load(…, model=…), or on the command line --plugin MODULE"
                )
            network = models.build(made_by, self.tunnel, **self.recipe.model_options)
        require_fitting(network, weights, f"{self.path or 'run'}: the weights of seed {seed}")
        network.load_state_dict(weights)
        network.to(self.device).eval()
        require_same(saved, network, self.tunnel, self.recipe.model, self.path or Path(), step)
        return network

    def checksums(self) -> list[str]:
        """SHA-256 of the files that hold the weights of `models`, in their order and without reading them.

        Empty for a run that was only kept in memory (unless whoever made it said more), and where weights are missing.
        """
        if self.path is None:
            return self._sha256
        found = [self.folder.seed(seed).checksum(self._step) for seed in self.recipe.seeds]
        return [sha256 for sha256 in found if sha256 is not None]

    def at_hand(self) -> Run:
        """The same run with only those of its seeds whose weights (of the step asked for) can be loaded now; without a
        step asked for, the last of each, whatever their steps."""
        seeds = tuple(seed for seed in self.recipe.seeds if self._has_weights(seed))
        if not seeds:
            self.model(self.recipe.seeds[0], self._step)  # says why
        copied = copy(self)
        copied.recipe, copied._as_it_stands = self.recipe.with_options(seeds=seeds), True
        copied.__dict__.pop("models", None)  # cached, and of all seeds
        return copied

    def _has_weights(self, seed: int) -> bool:
        if self.path is None:
            return seed in (self._weights or {})
        rungs = self.ladder(seed)
        return bool(rungs) if self._step is None else self._step in rungs

    def ladder(self, seed: int | None = None) -> list[int]:
        """Steps whose weights are kept."""
        return self.folder.seed(self.recipe.seeds[0] if seed is None else seed).ladder()

    def metrics(self, seed: int | None = None) -> list[dict[str, Any]]:
        """Training history of one seed: records with step, loss_bits, kl_bits, entropy_mae_bits.

        seed  one of `run.recipe.seeds`; by default the first alone, not all seeds

        A history that was cut short is an error, as its last record would not say where the run stands.
        """
        seed = self.recipe.seeds[0] if seed is None else seed
        if self.path is None:
            return self._history.get(seed, [])
        place = self.folder.seed(seed)
        if damage := place.cut_short(self.recipe):
            raise InputError(f"{damage}; `{shlex.join(['windtunnel', 'evaluate', str(self.path)])}` scores the weights")
        return place.metrics()

    @property
    def steps(self) -> int:
        """Steps that every seed has taken; on disk, those that it could resume from."""
        return min(self._steps_of(seed) for seed in self.recipe.seeds)

    def _steps_of(self, seed: int) -> int:
        if self.path is not None:
            return self.folder.seed(seed).last_step() or 0
        records = self.metrics(seed)
        return records[-1]["step"] if records else 0

    @property
    def finished(self) -> bool:
        """Has every seed taken all of its steps?"""
        return self.steps == self.recipe.steps

    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds of training and of set-up (building, compiling, capturing), over all sittings."""
        records = self._timings if self.path is None else self.folder.timings()
        return {kind: sum(record[f"{kind}_s"] for record in records) for kind in ("train", "setup")}


def require_fitting(network: nn.Module, weights: dict[str, Tensor], what: str) -> None:
    """Raise in one line, with the first tensor that differs, where weights are of another model."""
    has = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in weights.items()}
    for name in (*has, *given):
        if has.get(name) != given.get(name):
            called = parameter_name(network, name)
            told = f"{called} is {given.get(name, 'missing')} in the file and {has.get(name, 'missing')} in the model"
            raise InputError(f"{what} must fit its model, but do not: {told}; has its code changed?")


def _kind(tunnel: Tunnel) -> str:
    """The name a tunnel is registered by; of one that is not, its class."""
    return next((name for name in tunnels.names() if tunnels.get(name) is type(tunnel)), type(tunnel).__name__)


def load(
    path: str | Path, *, step: int | None = None, device: str | torch.device = "cpu", model: Factory | None = None
) -> Run:
    """Open a run folder.

    step   load the weights of this step of the ladder instead of the last
    model  the function that builds the model, for a run of your own architecture that is not registered
    """
    folder = RunFolder(require_path("path", path))
    recipe = folder.recipe()
    if step is not None:
        require_choice("step", step, sorted({rung for seed in recipe.seeds for rung in folder.seed(seed).ladder()}))
    return Run(recipe, path=folder.path, device=require_device(device), step=step, factory=model)
