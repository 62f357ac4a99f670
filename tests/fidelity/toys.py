"""A tunnel whose input *is* its belief, and predictors that are wrong by exactly what a test asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs

ERRORS = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "excess_log_loss_bits")
ESTIMATES = (*ERRORS, "accuracy")


@dataclass(frozen=True)
class Shown(Tunnel):
    """Each readout's belief is an independent Dirichlet(1) draw, shown as the features of its own position."""

    classes: int = 4
    readouts: int = 6
    vocabulary = 1
    primitives = ()
    hypotheses_log2 = math.inf

    @property
    def feature_width(self) -> int:
        return self.classes

    @property
    def positions(self) -> int:
        return self.readouts

    def draw(self, source) -> dict[str, Tensor]:
        belief = source.dirichlet(0, 1.0, self.readouts, self.classes)
        return {"belief": belief.permute(2, 0, 1), "uniform": source.uniform(1, self.readouts).T}

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        belief = latent["belief"].to(dtype)
        labels = (latent["uniform"][..., None] > belief.cumsum(-1)[..., :-1]).sum(-1)
        readout = torch.arange(self.readouts, device=belief.device)
        inputs = Inputs(torch.zeros_like(labels), belief, readout)
        return Episodes(inputs, labels, belief, latent)

    def subsets(self, episodes: Episodes) -> dict[str, Tensor]:
        sure = episodes.posterior.amax(-1) > 0.5
        return {"sure": sure, "unsure": ~sure}


class Reads:
    """log q = a function of the belief that `Shown` shows; the exact belief itself unless told otherwise."""

    def __init__(self, log_q: Callable[[Tensor], Tensor] = torch.log) -> None:
        self.log_q = log_q

    def log_probs(self, inputs: Inputs) -> Tensor:
        assert inputs.features is not None
        return self.log_q(inputs.features)


def tempered(power: float) -> Reads:
    """q ∝ p^power: above 1 overconfident, below 1 underconfident, 0 uniform."""
    return Reads(lambda p: torch.log_softmax(power * p.log(), -1))


class Network(nn.Module):
    """A module whose dropout would show in the result, and which remembers the mode it was called in."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(2, 2).eval()
        self.fails = fails
        self.called_in_training: list[bool] = []

    def log_probs(self, inputs: Inputs) -> Tensor:
        self.called_in_training.append(self.training or self.dropout.training)
        if self.fails:
            raise RuntimeError("broken inside")
        assert inputs.features is not None
        return torch.log_softmax(self.dropout(inputs.features.log()), -1)
