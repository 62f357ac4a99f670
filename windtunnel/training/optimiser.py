"""From a recipe's optimiser to a `Stepper`: AdamW for all weights, or Muon for the matrices in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.training.adamw import AdamW
from windtunnel.training.muon import Muon, step_together
from windtunnel.training.recipe import Optimiser


class Stepper:
    """Moves the weights of one network.  `step(share)` takes the learning rate as a share of its peak: a float on a
    CPU, a tensor inside a captured graph."""

    def __init__(self, network: nn.Module, options: Optimiser) -> None:
        self.options = options
        self.parameters = trainable(network)
        self.on_gpu = self.parameters[0].is_cuda
        matrices = matrices_of(network) if options.kind == "muon" else []
        taken = {id(matrix) for matrix in matrices}
        decayed = {id(weight) for weight in _decayed(network)}
        rest = [p for p in self.parameters if id(p) not in taken]
        self.muon = None
        if matrices:
            dtype = torch.bfloat16 if self.on_gpu else torch.float32
            self.muon = Muon(matrices, options.momentum, options.weight_decay, dtype)
        weights, others = ([p for p in rest if (id(p) in decayed) is decays] for decays in (True, False))
        self.adamw = AdamW([(weights, options.weight_decay), (others, 0.0)], options.betas)

    def step(self, share: float | Tensor) -> None:
        """Clip, then move every weight."""
        self.begin(share)
        finish_together([self], [share])

    @torch.no_grad()
    def begin(self, share: float | Tensor) -> None:
        """Clip, and move the weights that AdamW moves."""
        if self.options.clip > 0:
            nn.utils.clip_grad_norm_(self.parameters, self.options.clip, foreach=True)
        self.adamw.step(share * self.options.lr)

    def state(self) -> dict[str, Tensor]:
        """Everything the next step depends on beside weights and step number; live tensors by name."""
        found: dict[str, Tensor] = {}
        index = {id(p): i for i, p in enumerate(self.parameters)}
        for parameter, values in self.adamw.state.items():
            for name, value in values.items():
                found[f"adamw.{index[id(parameter)]}.{name}"] = value
        if self.muon is not None:
            found |= {f"muon.{i}": momentum for i, momentum in enumerate(self.muon.state)}
        return found


def trainable(network: nn.Module) -> list[Tensor]:
    """The parameters that are moved; one line where there is none, or one that no optimiser here can move."""
    found: dict[str, Tensor] = {field: p for field, p in network.named_parameters() if p.requires_grad}
    name = getattr(network, "name", type(network).__name__)
    if not found:
        raise InputError(f"model {name}: must have parameters to train")
    for field, parameter in found.items():
        if parameter.is_complex():
            instead = "must be real; torch.view_as_complex makes a complex number of two real ones"
            raise InputError(f"model {name}: parameter {field} is {parameter.dtype}: {instead}")
    return list(found.values())


def finish_together(steppers: Sequence[Stepper], shares: Sequence[float | Tensor]) -> None:
    """Move the matrices that Muon moves, of all networks of a recipe at once."""
    muons = [stepper.muon for stepper in steppers if stepper.muon is not None]
    if muons:
        rates = [share * stepper.options.muon_lr for stepper, share in zip(steppers, shares, strict=True)]
        step_together(muons, rates)


def matrices_of(network: nn.Module) -> list[Tensor]:
    """The weight matrices between embedding and head: those of linear maps but for one called so, and all of recurrent
    layers (LSTM, GRU, RNN)."""
    found: list[Tensor] = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and name.split(".")[-1] not in ("head", "features"):
            found.append(module.weight)
        elif isinstance(module, nn.RNNBase):
            found += [p for label, p in module.named_parameters() if label.startswith("weight")]
    return list({id(matrix): matrix for matrix in found if matrix.requires_grad}.values())  # tied ones once


def _decayed(network: nn.Module) -> list[Tensor]:
    """Weights that decay: of linear maps, embeddings and recurrent layers.  Not biases, norms, convolutions or state
    matrices."""
    modules = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Embedding | nn.RNNBase)]
    named = [pair for module in modules for pair in module.named_parameters(recurse=False)]
    return [parameter for name, parameter in named if name.startswith("weight")]
