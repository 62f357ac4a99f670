"""Urn baselines: what can be had without counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from windtunnel.fidelity.baselines.common import Baseline
from windtunnel.fidelity.predictor import Predictor
from windtunnel.tunnels.episodes import Inputs
from windtunnel.tunnels.urn import Urn, predictive


@dataclass(frozen=True)
class LastDraw(Baseline):
    """The exact belief of one who saw only the last draw o_t: (α + [v = o_t]) / (V α + 1)."""

    kind: ClassVar = Urn
    tunnel: Urn

    @property
    def reads(self) -> tuple[str, ...]:
        """The prior."""
        return ("concentration",)

    def _predict(self, inputs: Inputs) -> Tensor:
        """(n, K, V) natural log."""
        last = torch.nn.functional.one_hot(inputs.tokens[:, inputs.readout], self.tunnel.symbols)
        return torch.log(predictive(last, self.tunnel.concentration))


def urn_baselines(tunnel: Urn) -> dict[str, Predictor]:
    """Name -> predictor."""
    return {"last-observation": LastDraw(tunnel)}
