"""Recall baseline: knows which values were stored, not where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from windtunnel.fidelity.baselines.common import Baseline, uniform_over
from windtunnel.fidelity.predictor import Predictor
from windtunnel.tunnels.episodes import Inputs
from windtunnel.tunnels.recall import Recall


@dataclass(frozen=True)
class StoredValues(Baseline):
    """Uniform over the distinct values shown in the store, the same for every query.

    With noise the truth may never have been shown, so there the histogram of showings is mixed with the uniform
    distribution by the channel itself: (1 − p) · share of showings + p / V.
    """

    kind: ClassVar = Recall
    tunnel: Recall

    @property
    def reads(self) -> tuple[str, ...]:
        """Where the store ends, which tokens are values, and the channel."""
        return ("pairs", "repeats", "keys", "noise")

    def _predict(self, inputs: Inputs) -> Tensor:
        """(n, M, V) natural log."""
        _, shown, queries = self.tunnel.read(inputs)
        counts = torch.nn.functional.one_hot(shown, self.tunnel.values).sum(1)
        if self.tunnel.noise > 0:
            share = counts.double() / counts.sum(-1, keepdim=True)
            log_probs = torch.log((1.0 - self.tunnel.noise) * share + self.tunnel.noise / self.tunnel.values)
        else:
            log_probs = uniform_over(counts > 0)
        return log_probs[:, None].expand(-1, queries.shape[1], -1)


def recall_baselines(tunnel: Recall) -> dict[str, Predictor]:
    """Name -> predictor."""
    return {"stored-values": StoredValues(tunnel)}
