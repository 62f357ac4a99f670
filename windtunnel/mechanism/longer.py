"""Can a network of your own read inputs of another length?  Asked before an instrument gives it any.

It may break down there: that is how it was built, not an accident, and another try would end alike.  On a GPU an index
out of range stops the process for good, and nothing more could be measured in it.  So a copy on the CPU is asked first,
and its answer counts if it can read what the network was made for.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import cast

import torch
from torch import nn

from windtunnel.accidents import accident
from windtunnel.errors import InputError
from windtunnel.fidelity.predictor import Predictor, checked_log_probs
from windtunnel.models import SequenceModel
from windtunnel.models.device import device_of
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs

FEW = 2  # episodes that are tried


class Reader:
    """A network, and what it reads at home."""

    def __init__(self, model: nn.Module, tunnel: Tunnel, episodes: Episodes) -> None:
        self.model, self.tunnel, self.inputs = model, tunnel, episodes[:FEW].inputs

    def require(self, tunnel: Tunnel, episodes: Episodes) -> None:
        """Raise, in words for the user, where it breaks down on episodes of this tunnel.  Networks of this package
        need not be asked: they refuse by themselves."""
        if isinstance(self.model, SequenceModel):
            return
        inputs = episodes[:FEW].inputs
        for network in filter(None, (self._copy, self.model)):
            try:
                _read(network, tunnel, inputs)
            except (InputError, torch.cuda.OutOfMemoryError):
                raise
            except Exception as error:
                what = f"the network cannot read inputs of length {tunnel.readouts}"
                raise InputError(f"{what}: {accident(error)}") from error

    @cached_property
    def _copy(self) -> nn.Module | None:
        """The network on the CPU; None where it is there already, or where the copy cannot read what it should."""
        if device_of(self.model).type == "cpu":
            return None
        try:
            copy = on_cpu(self.model)
            _read(copy, self.tunnel, self.inputs)
        except Exception:  # a GPU may do what a CPU, or a copy, cannot
            return None
        return copy


def on_cpu(model: nn.Module) -> nn.Module:
    """A copy on the CPU; the weights are copied there, and not on the GPU first."""
    memo: dict[int, object] = {id(p): nn.Parameter(p.detach().cpu(), p.requires_grad) for p in model.parameters()}
    memo |= {id(buffer): buffer.detach().cpu() for buffer in model.buffers()}
    return deepcopy(model, memo).cpu()


def _read(network: nn.Module, tunnel: Tunnel, inputs: Inputs) -> None:
    checked_log_probs(cast(Predictor, network), inputs.to(device_of(network)), tunnel)
