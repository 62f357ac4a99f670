"""Everything that is summed while episodes stream by: once for the exact belief, once for each network."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from windtunnel.fidelity import calibration, metrics
from windtunnel.fidelity.accumulate import BinnedSums, WeightedSums
from windtunnel.fidelity.bootstrap import PoissonBootstrap
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

# What is summed at each readout, in this order.  `entropy_gap_bits` is signed: its mean per position is the
# distance between the two entropy curves, where over- and underconfidence on different sequences cancel.
MEASURED = ("kl_bits", "entropy_mae_bits", "entropy_gap_bits", "tv", "excess_log_loss_bits", "accuracy")
GAP = MEASURED.index("entropy_gap_bits")

RESERVOIR = 20_000  # episodes whose exact entropies are kept: a median, unlike a mean, needs the values themselves
EXPECTED_ABS_NORMAL = math.sqrt(2.0 / math.pi)  # E|z| of a standard normal, about 0.8


def measure(
    episodes: Episodes, exact_entropy: Float64[Tensor, "n K"], log_q: Float64[Tensor, "n K C"]
) -> Float64[Tensor, "M n K"]:
    """All of MEASURED at every readout."""
    p, labels = episodes.posterior, episodes.labels
    gap = metrics.model_entropy_bits(log_q) - exact_entropy
    excess = metrics.excess_log_loss_bits(p, log_q, labels)
    tv = metrics.total_variation(p, log_q)
    return torch.stack([metrics.kl_bits(p, log_q), gap.abs(), gap, tv, excess, metrics.accuracy(log_q, labels)])


class ExactTally:
    """The exact belief's own numbers: its entropy curve, its accuracy, and the constant-entropy yardstick."""

    def __init__(self, tunnel: Tunnel, device: str | torch.device) -> None:
        self.sums = WeightedSums(1, 2, tunnel.readouts, device)
        self.reservoir: list[np.ndarray] = []
        self.kept = 0

    def add(self, episodes: Episodes, entropy: Float64[Tensor, "n K"], mask: Bool[Tensor, "n K"]) -> None:
        """Count the next episodes: entropy of the exact belief in bits, at the readouts that the mask selects."""
        right = metrics.accuracy(episodes.posterior, episodes.labels)
        self.sums.add(_ones(mask), torch.stack([entropy, right]), mask)
        room = RESERVOIR - self.kept
        if room > 0:
            kept = torch.where(mask, entropy, torch.nan)[:room].cpu().numpy()
            self.reservoir.append(kept)
            self.kept += len(kept)

    @property
    def entropy_curve(self) -> np.ndarray:
        """(K,) mean exact entropy in bits at each readout; NaN where nothing is selected."""
        return self.sums.per_position()[0, 0]

    @property
    def accuracy(self) -> float:
        """Accuracy of the exact belief's most probable class: no predictor's is higher, but for luck
        with the sampled labels."""
        return float(self.sums.pooled()[0, 1])

    @property
    def yardstick_bits(self) -> float:
        """Per-sequence entropy error of the best constant per position, its median, on the first 20,000 episodes."""
        entropy = np.concatenate(self.reservoir)
        entropy = entropy[:, ~np.isnan(entropy).all(0)]
        return float(np.nanmean(np.abs(entropy - np.nanmedian(entropy, axis=0)))) if entropy.size else math.nan

    @property
    def empty(self) -> bool:
        """Whether no readout of any episode was selected."""
        return self.sums.mass.sum().item() == 0


class NetworkTally:
    """One network's sums.  With `bootstrap_seed`, also those of bootstrap replicates over sequences."""

    def __init__(self, tunnel: Tunnel, device: str | torch.device, bootstrap_seed: int | None) -> None:
        self.classes = tunnel.classes
        self.sums = WeightedSums(1, len(MEASURED), tunnel.readouts, device)
        self.gap_moments = WeightedSums(1, 2, tunnel.readouts, device)
        self.gap_shift: Tensor | None = None
        self.reliability = BinnedSums(calibration.RELIABILITY_BINS, 2, device)
        self.strata = BinnedSums(1 + calibration.ENTROPY_BINS, 3, device)
        self.bootstrap = None
        if bootstrap_seed is not None:
            self.bootstrap = PoissonBootstrap(len(MEASURED), tunnel.readouts, seed=bootstrap_seed, device=device)

    def add(
        self,
        episodes: Episodes,
        entropy: Float64[Tensor, "n K"],
        log_q: Float64[Tensor, "n K C"],
        mask: Bool[Tensor, "n K"],
    ) -> None:
        """Count the next episodes: exact entropy in bits and predictions as natural logs, where the mask selects."""
        values = measure(episodes, entropy, log_q)
        self.sums.add(_ones(mask), values, mask)
        if self.bootstrap is not None:
            self.bootstrap.add(values, mask)

        # A variance from Σx and Σx² cancels badly unless x is near 0, so x is taken from the first episode's value.
        if self.gap_shift is None:
            self.gap_shift = values[GAP, 0].clone()
        gap = values[GAP] - self.gap_shift
        self.gap_moments.add(_ones(mask), torch.stack([gap, gap**2]), mask)

        p, q = episodes.posterior[mask].flatten(), log_q[mask].exp().flatten()
        self.reliability.add(calibration.reliability_bin(q), q, p)
        stratum = calibration.entropy_stratum(entropy[mask], self.classes)
        kl, entropy_error, tv = (values[MEASURED.index(name)][mask] for name in ("kl_bits", "entropy_mae_bits", "tv"))
        self.strata.add(stratum, kl, entropy_error, tv)

    @property
    def gap_floor(self) -> np.ndarray:
        """(K,) expected |mean entropy gap| in bits if its true mean were 0: 0.8 σ / √n at each readout."""
        mean, square = self.gap_moments.per_position()[0]
        count = self.gap_moments.mass[0].cpu().numpy()
        with np.errstate(invalid="ignore", divide="ignore"):  # readouts that nothing selects: 0 / 0, NaN as wanted
            return EXPECTED_ABS_NORMAL * np.sqrt(np.maximum(square - mean**2, 0.0) / count)


def _ones(mask: Bool[Tensor, "n K"]) -> Float64[Tensor, "1 n"]:
    """The weighting of a plain mean."""
    return torch.ones((1, len(mask)), dtype=torch.float64, device=mask.device)
