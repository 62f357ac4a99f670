"""Shares as they are measured: KL sums by sequence while others read, and intervals by resampling the sequences."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from windtunnel.fidelity.bootstrap import percentile_interval
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import checked_log_probs, evaluation_mode
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share
from windtunnel.study.trials import Trial
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.episodes import Episodes

REPLICATES = 1000
MOST_WEIGHTS = 2**23  # of the bootstrap, held at a time


class Sharing:
    """Sums KLs by sequence while others read (it is a `Watch` of `evaluate_parts`), and reads with B itself."""

    def __init__(self, tunnel: Tunnel, asked: Trial) -> None:
        self.tunnel, self.asked = tunnel, asked
        self.readouts: list[np.ndarray] = []
        self.bases: dict[str, list[np.ndarray]] = {name: [] for name in asked.without}
        self.sums: dict[str, dict[int, list[np.ndarray]]] = {}
        self.batch: Episodes
        self.mask: Bool[Tensor, "n K"]

    def begin(self, batch: Episodes) -> None:
        """The next episodes, of which all candidates for B say what they think."""
        self.batch, self.mask = batch, self.asked.readouts(self.tunnel, batch)
        self.readouts.append(self.mask.sum(1).cpu().numpy().astype(float))
        with evaluation_mode(self.asked.without.values()):
            for name, base in self.asked.without.items():
                self.bases[name].append(self._lost(checked_log_probs(base, batch.inputs, self.tunnel)))

    def add(self, subject: str, index: int, log_q: Float64[Tensor, "n K C"]) -> None:
        """What network number `index` of a subject says about them."""
        self.sums.setdefault(subject, {}).setdefault(index, []).append(self._lost(log_q))

    def _lost(self, log_q: Float64[Tensor, "n K C"]) -> np.ndarray:
        """(n,) bits, summed over the readouts that count."""
        return torch.where(self.mask, kl_bits(self.batch.posterior, log_q), 0.0).sum(1).cpu().numpy()

    def share(self, subject: str) -> Share:
        """Of one of those whose networks were added."""
        bases = {name: np.concatenate(parts) for name, parts in self.bases.items()}
        base = min(bases, key=lambda name: bases[name].sum())
        own = np.stack([np.concatenate(parts) for parts in self.sums[subject].values()])  # (networks, episodes)
        with np.errstate(divide="ignore", invalid="ignore"):  # B may lose nothing, or a network infinitely much
            return _share(self.asked, own, bases[base], np.concatenate(self.readouts), base)


def _share(asked: Trial, own: np.ndarray, of_base: np.ndarray, readouts: np.ndarray, base: str) -> Share:
    """From KL sums per sequence, own (networks, n) and B's (n,), and the readouts they run over (n,)."""
    per_seed = 1.0 - own.sum(1) / of_base.sum()
    draws = _bootstrap(own, of_base)
    if len(per_seed) > 1:
        share = Quantity.of_seeds(per_seed)
    else:
        alone = len(of_base) == 1  # one sequence bounds nothing
        ends = (-math.inf, math.inf) if alone else percentile_interval(draws[0])
        share = Quantity(float(per_seed[0]), *ends, "sequences")
    total = readouts.sum()
    kl, bits = float(own.sum(1).mean() / total), float(of_base.sum() / total)
    seeds, errors = tuple(map(float, per_seed)), tuple(map(float, draws.std(1)))
    return Share(asked.primitive, share, kl, base, bits, seeds, per_seed_error=errors, where=asked.where)


def _bootstrap(own: np.ndarray, of_base: np.ndarray) -> np.ndarray:
    """(networks, replicates) shares over resampled sequences, drawn together for all networks and B.

    So many replicates at a time that their weights take some tens of megabytes: that changes no draw.
    """
    count, generator = len(of_base), np.random.Generator(np.random.Philox(0))
    even, drawn = np.full(count, 1 / count), []
    endless = np.isinf(own)  # apart: times a weight of 0 it would be NaN, where a sequence that is not drawn is nothing
    finite = np.where(endless, 0.0, own)
    block = max(1, MOST_WEIGHTS // count)
    for start in range(0, REPLICATES, block):
        weights = generator.multinomial(count, even, min(block, REPLICATES - start)).astype(float)
        lost = np.where(endless @ weights.T > 0, np.inf, finite @ weights.T)
        drawn.append(1.0 - lost / (weights @ of_base))
    return np.concatenate(drawn, 1)
