"""One network in training: weights, optimiser, average, step number; and what one step does.

Everything a step reads or writes is a tensor on the device (the step number and the learning-rate table too), so a GPU
can replay the whole step from a captured graph without asking the host anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.fidelity.metrics import kl_bits, model_entropy_bits
from windtunnel.fidelity.predictor import Predictor, checked_log_probs, evaluation_mode
from windtunnel.models.adapt import require_fair
from windtunnel.models.build import seeded
from windtunnel.models.compiled import specialised
from windtunnel.models.registry import Factory, is_ours
from windtunnel.training import same_code
from windtunnel.training.batch_halves import in_halves, one_thread, worth_halving
from windtunnel.training.batch_stages import Stage, stage_at
from windtunnel.training.optimiser import Stepper, finish_together
from windtunnel.training.recipe import Recipe
from windtunnel.training.schedule import rate_table
from windtunnel.tunnels import STREAMS, Source
from windtunnel.tunnels.checking import is_foreign

_TRAIN = STREAMS.index("train")
_NOISE = len(STREAMS)  # a stream that no episode comes from: what a model of one's own draws while it trains
VALIDATION_SEED = 0  # all networks are validated on the same episodes


Batch = tuple[Tensor, Tensor | None, Tensor, Tensor]
"""Tokens, features, readout, and the target of the loss."""


class Network:
    """A seed of a recipe, somewhere in its training."""

    def __init__(self, recipe: Recipe, seed: int, device: str, factory: str | Factory | None = None) -> None:
        self.recipe, self.seed, self.device, self.factory = recipe, seed, torch.device(device), factory
        built = models.build(factory or recipe.model, recipe.tunnel, seed=seed, **recipe.model_options)
        self.model: nn.Module = built.to(device)
        self.stepper = Stepper(self.model, recipe.optimiser)
        self.parameters = self.stepper.parameters
        self.rates = rate_table(recipe.schedule, recipe.steps).to(device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)  # nats, since the last report
        self.loss_count = torch.zeros((), dtype=torch.int64, device=device)
        self.broken_at = torch.full((), -1, dtype=torch.int64, device=device)  # first step whose loss was not finite
        self.average = [p.detach().clone() for p in self.parameters] if recipe.optimiser.average else None
        self._forward, self._sample = self.model.forward, self._draw
        # On a GPU the seed is a tensor: one compiled sampler then serves all seeds.
        self._key: int | Tensor = seed if self.device.type == "cpu" else torch.tensor(seed, device=device)
        # Ours are tested to be causal, and to draw nothing while they train.  What a function of the user's returns may
        # do either, a subclass of ours as well.
        self._ours = is_ours(recipe.model, factory)
        self._on_cpu, self._compiled = self.device.type == "cpu", False
        self.threads = torch.get_num_threads()  # CPU threads that one step may use
        self.enter(recipe.stages[0])

    def enter(self, stage: Stage) -> None:
        """From now on, batches of that stage."""
        self.stage = stage
        self._halved = self._single_threaded and worth_halving(stage.batch, self.recipe.tunnel.positions)

    @property
    def _single_threaded(self) -> bool:
        """Does each operation run on one thread?  Not in the user's own modules: they cannot be halved."""
        return self._ours and self._on_cpu and not self._compiled

    def compile(self) -> None:
        """Fuse the forward pass and the sampler; both still give the same numbers, up to rounding."""
        self._forward = models.compiled(self.model)
        self._sample = specialised(self._draw)
        self._compiled, self._halved = True, False

    def sample(self) -> Batch:
        """The batch of this step, always fresh."""
        return self._sample(self.stage.until(self.step), self._key)

    def _draw(self, first: Tensor, seed: int | Tensor) -> Batch:
        """As many episodes as the stage has in a batch, from number `first` on: compiled once for every size."""
        tunnel = self.recipe.tunnel
        numbers = first + torch.arange(self.stage.batch, device=first.device)
        episodes = tunnel.episodes(tunnel.draw(Source(seed, _TRAIN, numbers)), torch.float32)
        target = episodes.labels if self.recipe.supervision == "labels" else episodes.posterior
        return episodes.inputs.tokens, episodes.inputs.features, episodes.inputs.readout, target

    def loss(self) -> Tensor:
        """Mean cross-entropy in nats on this step's fresh batch."""
        return self._loss(self.sample())

    def _loss(self, batch: Batch, part: slice = slice(None)) -> Tensor:
        """The share of some episodes in that mean; all of them by default."""
        tokens, features, readout, target = batch
        half = self.recipe.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            logits = self._forward(tokens[part], None if features is None else features[part], readout)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), target[part].flatten(0, 1))
        return loss if len(logits) == len(tokens) else loss * (len(logits) / len(tokens))

    def _backward(self) -> Tensor:
        """The gradient of every parameter on this step's batch; returns the loss."""
        loss = self.loss()
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()
        if not self._ours:
            for parameter in self.parameters:  # an embedding of one's own may ask for sparse gradients
                if parameter.grad is not None and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
        return loss.detach()

    def _backward_in_halves(self) -> Tensor:
        """The same on a CPU, one half of the batch and the other, on two threads if there are two."""
        batch = self.sample()

        def work(part: slice) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            loss = self._loss(batch, part)
            return loss.detach(), torch.autograd.grad(loss, self.parameters, allow_unused=True)

        (loss, gradients), (other_loss, others) = in_halves(work, self.stage.batch, self.threads)
        for parameter, gradient, other in zip(self.parameters, gradients, others, strict=True):
            parameter.grad = gradient if gradient is None or other is None else gradient.add_(other)
        return loss + other_loss

    def _threads(self) -> AbstractContextManager[None]:
        return one_thread() if self._single_threaded else nullcontext()

    def _noise(self) -> AbstractContextManager[None]:
        """What a model of one's own draws at this step (dropout), on a CPU: the same after a resume, and another for
        every seed.  torch takes 32 bits to start from, so seed and step are mixed into one word.

        On a GPU it is neither: there it comes from torch's own generator, which nothing here seeds or saves.
        """
        if self._ours or not self._on_cpu:
            return nullcontext()
        return seeded(int(Source(self.seed, _NOISE, self.step[None]).bits(site=0, count=1)))

    def advance(self) -> None:
        """One step.  Waits for a GPU only where the batch grows, to hear which step it is."""
        if len(self.recipe.stages) > 1:
            self.enter(stage_at(self.recipe.stages, int(self.step)))
        with self._threads():
            self.begin_step()
            finish_step([self])

    def begin_step(self) -> None:
        """What a step does alone: gradient, bookkeeping, the weights that AdamW moves."""
        with self._noise():
            loss = self._backward_in_halves() if self._halved else self._backward()
        with torch.no_grad():
            value = loss.double()
            self.broken_at.copy_(torch.where(value.isfinite() | (self.broken_at >= 0), self.broken_at, self.step))
            self.loss_sum += value
            self.loss_count += 1
        self.stepper.begin(self.share())

    def share(self) -> float | Tensor:
        """This step's learning rate, as a share of its peak."""
        share = self.rates.gather(0, self.step[None])[0]
        return share if self.device.type == "cuda" else float(share)

    def take_loss_bits(self) -> float:
        """Mean training loss in bits since the last call."""
        mean = float(self.loss_sum) / max(1, int(self.loss_count))
        self.loss_sum.zero_()
        self.loss_count.zero_()
        return mean / math.log(2.0)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """KL and per-sequence entropy error in bits on the validation stream, of the weights that would be kept."""
        with self._noise(), self._threads():
            if not self._ours:  # again, as fresh weights may hide it: a head of zeros says the same whatever it reads
                require_fair(cast(models.SequenceModel, self.model), self.recipe.tunnel, self.recipe.model)
            return self._scores()

    def _scores(self) -> dict[str, float]:
        recipe = self.recipe
        self._swap_average()
        try:
            kl, entropy, count = 0.0, 0.0, 0
            chunk = min(1024, recipe.validation_episodes)
            with evaluation_mode([self.model]):
                for start in range(0, recipe.validation_episodes, chunk):
                    size = min(chunk, recipe.validation_episodes - start)
                    batch = recipe.tunnel.sample(size, VALIDATION_SEED, "validation", self.device, start=start)
                    log_q = checked_log_probs(cast(Predictor, self.model), batch.inputs, recipe.tunnel)
                    kl += float(kl_bits(batch.posterior, log_q).sum())
                    entropy += float((model_entropy_bits(log_q) - batch.entropy_bits).abs().sum())
                    count += batch.labels.numel()
        finally:
            self._swap_average()
        return {"kl_bits": kl / count, "entropy_mae_bits": entropy / count}

    def _swap_average(self) -> None:
        """Exchange raw and averaged weights (nothing, where the recipe does not average); a second call undoes it."""
        if self.average is None:
            return
        for parameter, mean in zip(self.parameters, self.average, strict=True):
            parameter.data, mean.data = mean.data, parameter.data

    def finite(self) -> bool:
        """Is all that training moves finite?  A buffer need not be: that of a causal mask is −∞ above the diagonal.

        Waits for the device, so it is asked only before something is kept.
        """
        moved = [*self.parameters, *self.stepper.state().values(), *(self.average or ()), self.loss_sum]
        return bool(torch.stack([value.isfinite().all() for value in moved]).all())

    # --- what is saved
    def weights(self) -> dict[str, Tensor]:
        """The weights to keep (averaged, where the recipe averages), by name; copies."""
        self._swap_average()
        found = {name: value.detach().clone().contiguous() for name, value in self.model.state_dict().items()}
        self._swap_average()
        return found

    def predictions(self, kept: bool) -> str:
        """A few, by which changed code is found out (`same_code`): of the weights to keep, or as training has them.
        Nothing where model and tunnel are ours."""
        if self._ours and not is_foreign(self.recipe.tunnel):
            return ""
        if not kept:
            return same_code.predictions(self.model, self.recipe.tunnel)
        self._swap_average()
        try:
            return same_code.predictions(self.model, self.recipe.tunnel)
        finally:
            self._swap_average()

    def state(self) -> dict[str, Tensor]:
        """All that the next step depends on, by name; live tensors."""
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        found |= {f"optimiser.{name}": value for name, value in self.stepper.state().items()}
        if self.average is not None:
            found |= {f"average.{i}": value for i, value in enumerate(self.average)}
        return found | {"step": self.step, "loss_sum": self.loss_sum, "loss_count": self.loss_count}

    @torch.no_grad()
    def restore(self, saved: dict[str, Tensor]) -> None:
        """Continue from a saved state, in place."""
        live = self.state()
        if set(live) != set(saved):
            odd = sorted(set(live) ^ set(saved))[0]
            raise InputError(f"checkpoint field {odd!r}: must be in both the checkpoint and the recipe's network")
        for name, value in live.items():
            if value.shape != saved[name].shape:
                shapes = f"{tuple(saved[name].shape)}: must be {tuple(value.shape)}"
                raise InputError(f"checkpoint field {name} has shape {shapes} for this recipe")
            value.copy_(saved[name])


@torch.no_grad()
def finish_step(networks: Sequence[Network]) -> None:
    """What networks of one recipe do together at the end of a step: the matrices that Muon moves; then the averages."""
    finish_together([network.stepper for network in networks], [network.share() for network in networks])
    for network in networks:
        if network.average is not None:
            weight = 1.0 - network.recipe.optimiser.average
            torch._foreach_lerp_(network.average, network.parameters, weight)  # pyright: ignore[reportPrivateImportUsage]
        network.step += 1
