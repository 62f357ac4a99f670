"""The baseline that needs no tunnel of a certain kind, what all others share, and the small pieces."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from windtunnel.errors import keep_whole_number, require, shown
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Inputs, require_inputs


@dataclass(frozen=True)
class Uniform:
    """Every outcome equally likely, whatever the inputs say."""

    classes: int

    def __post_init__(self) -> None:
        keep_whole_number(self, "classes", 1)

    def log_probs(self, inputs: Inputs) -> Tensor:
        """(n, K, C) of log(1/C)."""
        require_inputs(inputs)
        shape = (len(inputs), len(inputs.readout), self.classes)
        return torch.full(shape, -math.log(self.classes), dtype=torch.float64, device=inputs.tokens.device)


@dataclass(frozen=True)
class Baseline(ABC):
    """A predictor that knows one kind of tunnel; what it is made for and what it is given to read are checked here.

    A subclass says which kind, narrows the type of `tunnel` to it, names what it `reads` of it, and writes `_predict`.
    """

    tunnel: Tunnel
    kind: ClassVar[type[Tunnel]]

    def __post_init__(self) -> None:
        require(isinstance(self.tunnel, self.kind), "tunnel", self.tunnel, f"a tunnel of the kind {self.kind.__name__}")

    @property
    def sizes(self) -> Tunnel:
        """What it can read, by the names that a network has for its sizes: `evaluate` refuses another tunnel's."""
        return self.tunnel

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The fields of its tunnel that its predictions depend on, beyond the sizes."""

    def require_fit(self, tunnel: Tunnel) -> None:
        """Raise unless it predicts for this tunnel what it would if it were made for it.  (A longer one will do.)"""
        kind = self.kind.__name__
        require(isinstance(tunnel, self.kind), "tunnel", tunnel, f"of the baseline's kind, {kind}")
        for field in self.reads:
            own, found = getattr(self.tunnel, field), getattr(tunnel, field)
            require(own == found, f"the baseline's {field}", own, f"the tunnel's {shown(found)}")

    def log_probs(self, inputs: Inputs) -> Tensor:
        """(n, K, C) natural log."""
        require_inputs(inputs)
        return self._predict(inputs)

    @abstractmethod
    def _predict(self, inputs: Inputs) -> Tensor:
        """The same, of what are inputs for certain."""


def uniform_over(mask: Tensor) -> Tensor:
    """Log-probabilities uniform over the True entries of the last axis (over all, where there is none)."""
    mask = mask | ~mask.any(-1, keepdim=True)
    weights = mask.double()
    return torch.log(weights / weights.sum(-1, keepdim=True))
