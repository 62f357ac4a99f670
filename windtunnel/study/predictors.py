"""Predictors that have one primitive and lack others, used as reference points in the primitives table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from windtunnel.fidelity.baselines.common import uniform_over
from windtunnel.tunnels import Bijection, Inputs, Recall, Urn
from windtunnel.tunnels.recall import value_counts
from windtunnel.tunnels.urn import predictive


@dataclass(frozen=True)
class Lookup:
    """Binding and nothing else: a key that was shown gets its value, any other key a uniform guess."""

    tunnel: Bijection | Recall

    def log_probs(self, inputs: Inputs) -> Tensor:
        """(n, K, V) natural log."""
        if isinstance(self.tunnel, Recall):
            stored, shown, queries = self.tunnel.read(inputs)
            return uniform_over(value_counts(stored, shown, queries, self.tunnel.values, torch.float64) > 0)
        symbols = self.tunnel.symbols
        keys = inputs.tokens[:, inputs.readout]
        values = torch.nn.functional.one_hot(inputs.tokens[:, inputs.readout[:-1] + 1] - symbols, symbols)
        same = (keys[:, :, None] == keys[:, None, :-1]).tril(-1)  # (n, K, K − 1): an earlier pair with this key
        return uniform_over(torch.einsum("nkj,njv->nkv", same.double(), values.double()) > 0)


@dataclass(frozen=True)
class Counter:
    """Accumulation and nothing else: counts draws, whatever their order.  Exact for an urn."""

    tunnel: Urn

    def log_probs(self, inputs: Inputs) -> Tensor:
        """(n, K, V) natural log."""
        draws = torch.nn.functional.one_hot(inputs.tokens[:, inputs.readout], self.tunnel.symbols)
        return torch.log(predictive(draws.cumsum(1), self.tunnel.concentration))
