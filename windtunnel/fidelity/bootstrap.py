"""How well one network is known: a bootstrap over the sequences that it was scored on."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from windtunnel.errors import require
from windtunnel.fidelity.accumulate import WeightedSums
from windtunnel.fidelity.intervals import CONFIDENCE


class PoissonBootstrap:
    """A bootstrap over sequences in one pass: each sequence enters each replicate Poisson(1) times.

    Resampling n sequences with replacement draws each about Poisson(1) times; drawing those counts independently
    needs no list of sequences, so memory does not grow with n.  Counts are drawn in episode order from one
    generator, so how the stream is cut into chunks does not matter.
    """

    def __init__(
        self,
        metrics: int,
        readouts: int,
        *,
        replicates: int = 500,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        # Two 16-bit draws come from one 32-bit word; an odd row would leave half a word behind at each chunk's end.
        require(replicates > 0 and replicates % 2 == 0, "replicates", replicates, "even and positive")
        self.replicates = replicates
        self.sequences = 0  # of which some readout was selected
        self.generator = np.random.Generator(np.random.Philox(seed))
        self.sums = WeightedSums(replicates, metrics, readouts, device)

    def add(self, values: Float64[Tensor, "M n K"], mask: Bool[Tensor, "n K"]) -> None:
        """Add the next n episodes."""
        words = self.generator.integers(0, 1 << 16, size=(values.shape[1], self.replicates), dtype=np.uint16)
        weights = torch.from_numpy(_POISSON_OF_WORD[words]).to(values.device)
        self.sums.add(weights.double().T, values, mask)
        self.sequences += int(mask.any(1).sum())

    def interval(self, replicates: np.ndarray) -> tuple[float, float]:
        """Of a statistic, from its value in each replicate (B,).  A single sequence has no spread, hence no interval:
        every replicate that drew it says the same, which is not certainty."""
        return percentile_interval(replicates) if self.sequences > 1 else (math.nan, math.nan)


def _poisson_table() -> np.ndarray:
    """Poisson(1) by inverse CDF of a 16-bit word: eight times faster than numpy's sampler, exact to 2^-16."""
    cumulative = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(20)])
    return np.searchsorted(cumulative, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON_OF_WORD = _poisson_table()


def percentile_interval(replicates: np.ndarray) -> tuple[float, float]:
    """The central 95% of (B,) bootstrap replicates.  Replicates that drew nothing (NaN) are left out."""
    ordered = np.sort(replicates[~np.isnan(replicates)])
    if not len(ordered):
        return math.nan, math.nan
    # Order statistics rather than interpolated quantiles, because replicates may be infinite.
    last, tail = len(ordered) - 1, 0.5 - CONFIDENCE / 2
    return float(ordered[math.floor(tail * last)]), float(ordered[math.ceil((1 - tail) * last)])
