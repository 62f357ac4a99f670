"""Where on its scale a model goes wrong: by the probability it states, and by how uncertain the exact belief is.

Calibration is usually measured against sampled outcomes.  Here the exact posterior is known, so each stated
probability is held against the probability it should have been, and no outcome noise enters.  Calibration alone
is weak (a model that always states the class marginal is calibrated); the headline stays the KL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from windtunnel.fidelity.accumulate import BinnedSums

RELIABILITY_BINS = 15
ENTROPY_BINS = 8
POINT_MASS_BITS = 1e-9  # entropy below this is a point mass up to rounding


def reliability_bin(q: Float64[Tensor, "..."]) -> Int64[Tensor, "..."]:
    """Which of the equal-width bins of [0, 1] a stated probability falls in; 1 belongs to the last."""
    return (q * RELIABILITY_BINS).long().clamp(0, RELIABILITY_BINS - 1)


def entropy_stratum(entropy: Float64[Tensor, "..."], classes: int) -> Int64[Tensor, "..."]:
    """Stratum of an exact entropy in bits: 0 for a point mass, then equal-width bins up to log2 C."""
    fraction = entropy / math.log2(classes)
    return torch.where(entropy < POINT_MASS_BITS, 0, 1 + (fraction * ENTROPY_BINS).long().clamp(0, ENTROPY_BINS - 1))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Reliability table of R networks over all (episode, readout, class) triples, binned by stated probability.

    edges  (16,) bin edges
    count  (R, 15) triples in each bin
    model  (R, 15) mean stated probability; NaN in an empty bin
    exact  (R, 15) mean exact probability of the same triples
    """

    edges: np.ndarray
    count: np.ndarray
    model: np.ndarray
    exact: np.ndarray

    @property
    def expected_error_per_seed(self) -> np.ndarray:
        """(R,) expected calibration error of each network: Σ over bins of share · |model − exact|."""
        share = self.count / self.count.sum(1, keepdims=True)
        return np.nansum(share * np.abs(self.model - self.exact), axis=1)

    @property
    def expected_error(self) -> float:
        """Expected calibration error, mean over networks.  Never pooled first: opposite faults would cancel."""
        return float(self.expected_error_per_seed.mean())

    def rows(self) -> list[dict[str, float]]:
        """One row per bin that holds something, networks pooled."""
        count = self.count.sum(0)
        pooled = [np.nansum(self.count * x, axis=0) / np.maximum(count, 1) for x in (self.model, self.exact)]
        columns = zip(self.edges[:-1], self.edges[1:], count, *pooled, strict=True)
        names = ("low", "high", "count", "model", "exact")
        return [dict(zip(names, map(float, row), strict=True)) for row in columns if row[2] > 0]


@dataclass(frozen=True, eq=False)
class ByEntropy:
    """Errors of R networks where the exact belief is a point mass, and in bands of its entropy.

    edges             (10,) stratum i runs from edges[i] to edges[i + 1] bits; stratum 0 is the point masses
    share             (9,) fraction of the readouts
    kl_bits, entropy_mae_bits, tv   (R, 9) means; NaN where a stratum is empty
    """

    edges: np.ndarray
    share: np.ndarray
    kl_bits: np.ndarray
    entropy_mae_bits: np.ndarray
    tv: np.ndarray

    def rows(self) -> list[dict[str, float]]:
        """One row per stratum that holds something, mean over networks."""
        means = [x.mean(0) for x in (self.kl_bits, self.entropy_mae_bits, self.tv)]
        columns = zip(self.edges[:-1], self.edges[1:], self.share, *means, strict=True)
        names = ("low_bits", "high_bits", "share", "kl_bits", "entropy_mae_bits", "tv")
        return [dict(zip(names, map(float, row), strict=True)) for row in columns if row[2] > 0]


def calibration_table(networks: list[BinnedSums]) -> Calibration:
    """From one sum per network whose columns are (model, exact) probabilities."""
    means = np.stack([sums.means() for sums in networks])
    count = np.stack([sums.count.cpu().numpy() for sums in networks])
    return Calibration(np.linspace(0.0, 1.0, RELIABILITY_BINS + 1), count, means[:, 0], means[:, 1])


def entropy_table(networks: list[BinnedSums], classes: int) -> ByEntropy:
    """From one sum per network whose columns are (kl, |entropy gap|, tv)."""
    means = np.stack([sums.means() for sums in networks])
    count = networks[0].count.cpu().numpy()  # the exact entropy is the same for every network
    edges = np.concatenate([[0.0], np.linspace(0.0, math.log2(classes), ENTROPY_BINS + 1)])
    return ByEntropy(edges, count / count.sum(), means[:, 0], means[:, 1], means[:, 2])
