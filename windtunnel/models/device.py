"""The device on which a network's weights live."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn


def device_of(model: nn.Module, otherwise: Tensor | None = None) -> torch.device:
    """The device of a network's weights, or of its buffers.  One without either computes where its inputs are: on the
    device of `otherwise`, or on the CPU.

    >>> nowhere = torch.empty(0, device="meta")
    >>> device_of(nn.Linear(2, 2), nowhere), device_of(nn.Identity(), nowhere)
    (device(type='cpu'), device(type='meta'))
    """
    nowhere = torch.device("cpu") if otherwise is None else otherwise.device
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), nowhere)
