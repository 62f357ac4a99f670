"""Sums over a stream of episodes, so that memory does not grow with their number.

Two shapes of sum cover everything a score needs: weighted sums per readout position (means and bootstrap
replicates of them), and sums per bin (calibration, strata of entropy).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor


class WeightedSums:
    """Σ w·x and Σ w over the selected readouts of all episodes, for B weightings, M metrics, K readout positions.

    The plain mean is one weighting with every weight 1; a bootstrap is B random ones.  An infinite value is counted
    apart: in a product with weight 0 it would leave NaN, where an episode that was not drawn should leave nothing.
    """

    def __init__(self, weightings: int, metrics: int, readouts: int, device: str | torch.device = "cpu") -> None:
        shape = (weightings, metrics, readouts)
        self.total = torch.zeros(shape, dtype=torch.float64, device=device)
        self.infinite = torch.zeros(shape, dtype=torch.float64, device=device)
        self.mass = torch.zeros((weightings, readouts), dtype=torch.float64, device=device)

    def add(self, weights: Float64[Tensor, "B n"], values: Float64[Tensor, "M n K"], mask: Bool[Tensor, "n K"]) -> None:
        """Add n episodes; only the readouts that `mask` selects count."""
        infinite = values.isinf() & mask
        finite = torch.where(mask & ~infinite, values, 0.0)
        self.total += _weigh(weights, finite)
        self.mass += weights @ mask.double()
        if infinite.any():
            self.infinite += _weigh(weights, infinite.double())

    def per_position(self) -> np.ndarray:
        """Means (B, M, K) over the selected episodes; NaN where no episode was selected."""
        means = self.total / self.mass[:, None, :]
        return torch.where(self.infinite > 0, torch.inf, means).cpu().numpy()

    def pooled(self) -> np.ndarray:
        """Means (B, M) over all selected readouts, each counting the same."""
        means = self.total.sum(-1) / self.mass.sum(-1, keepdim=True)
        return torch.where(self.infinite.sum(-1) > 0, torch.inf, means).cpu().numpy()


def _weigh(weights: Float64[Tensor, "B n"], values: Float64[Tensor, "M n K"]) -> Float64[Tensor, "B M K"]:
    """Σ over n as one matrix product: (B, n) times (n, M·K)."""
    metrics, count, readouts = values.shape
    flat = values.transpose(0, 1).reshape(count, metrics * readouts)
    return (weights @ flat).reshape(len(weights), metrics, readouts)


class BinnedSums:
    """Σ x and the number of values in each bin, for several columns that share their bins."""

    def __init__(self, bins: int, columns: int, device: str | torch.device = "cpu") -> None:
        self.count = torch.zeros(bins, dtype=torch.int64, device=device)
        self.total = torch.zeros((columns, bins), dtype=torch.float64, device=device)

    def add(self, bins: Int64[Tensor, " N"], *columns: Float64[Tensor, " N"]) -> None:
        """Add N values of each column, value i to bin bins[i]."""
        size = len(self.count)
        self.count += torch.bincount(bins, minlength=size)
        for row, column in zip(self.total, columns, strict=True):
            row += torch.bincount(bins, weights=column, minlength=size)

    def means(self) -> np.ndarray:
        """Mean of each column in each bin, (columns, bins); NaN in an empty bin."""
        return (self.total / self.count).cpu().numpy()
