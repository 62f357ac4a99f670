"""Baselines that need no tunnel of a certain kind, and the small shared pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from windtunnel.tunnels.episodes import Inputs


@dataclass(frozen=True)
class Uniform:
    """Every outcome equally likely, whatever the inputs say."""

    classes: int

    def log_probs(self, inputs: Inputs) -> Tensor:
        """(n, K, C) of log(1/C)."""
        shape = (len(inputs), len(inputs.readout), self.classes)
        return torch.full(shape, -math.log(self.classes), dtype=torch.float64, device=inputs.tokens.device)


def uniform_over(mask: Tensor) -> Tensor:
    """Log-probabilities uniform over the True entries of the last axis (over all, where there is none)."""
    mask = mask | ~mask.any(-1, keepdim=True)
    weights = mask.double()
    return torch.log(weights / weights.sum(-1, keepdim=True))
