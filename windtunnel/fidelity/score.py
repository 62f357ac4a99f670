"""The result of an evaluation: every distance with its interval, and what it was measured on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from windtunnel.fidelity.calibration import ByEntropy, Calibration, calibration_table, entropy_table
from windtunnel.fidelity.intervals import Estimate, Scale, t_interval
from windtunnel.fidelity.printing import resolved
from windtunnel.fidelity.tally import GAP, MEASURED, ExactTally, NetworkTally
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

Where = str | Callable[[Episodes], Tensor] | None

OUT_OF_REACH = "accuracy is above that of the exact belief, which no honest predictor can exceed: does it read ahead?"
"""Told beside a score that is `out_of_reach`."""


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """How far R networks are from the exact belief.  K readouts; errors in bits where the name says so.

    kl_bits               KL(exact ‖ model), mean over the selected readouts: the headline
    entropy_mae_bits      per-sequence entropy error: mean of |H_model − H_exact|
    curve_mae_bits        averaged-curve entropy error: |mean H_model − mean H_exact| per position, averaged over
                          positions.  Errors of opposite sign cancel, and sampling biases it upward (its `floor`)
    tv                    total variation
    excess_log_loss_bits  log-loss on the sampled labels less that of the exact belief
    accuracy              share of labels that are the top class
    exact_accuracy        the same for the exact belief: the ceiling
    entropy_yardstick_bits  entropy_mae_bits of the best constant per position (first 20,000 episodes): the score of
                          knowing only the position
    exact_entropy_curve   (K,) mean exact entropy, bits; NaN at readouts outside the selection
    model_entropy_curve   (R, K) mean model entropy, bits
    calibration           reliability table and expected calibration error, against the exact posterior
    by_entropy            errors stratified by the exact entropy
    tunnel, episodes, seed, stream, where, positions   what was scored; positions are readout indices or None for all
    """

    kl_bits: Estimate
    entropy_mae_bits: Estimate
    curve_mae_bits: Estimate
    tv: Estimate
    excess_log_loss_bits: Estimate
    accuracy: Estimate
    exact_accuracy: float
    entropy_yardstick_bits: float
    exact_entropy_curve: np.ndarray
    model_entropy_curve: np.ndarray
    calibration: Calibration
    by_entropy: ByEntropy
    tunnel: Tunnel
    episodes: int
    seed: int
    stream: str
    where: Where = None
    positions: tuple[int, ...] | None = None

    @property
    def subset(self) -> str:
        """In words, which readouts the averages run over."""
        named = self.where if isinstance(self.where, str) else getattr(self.where, "__name__", "a given mask")
        parts = [f"where {named}"] if self.where is not None else []
        if self.positions is not None:
            parts.append("readouts " + _runs(self.positions))
        return ", ".join(parts) or "all readouts"

    @property
    def out_of_reach(self) -> bool:
        """Does some network's accuracy lie above the exact belief's by more than chance allows (4 standard errors)?

        Readouts of one sequence may all be right or wrong together, so each sequence counts as one draw.  Always False
        for readouts that a function selects, as it may select by the truth.
        """
        if callable(self.where):
            return False
        selected = self.calibration.count[0].sum() / self.tunnel.classes
        draws = selected / len(self.positions or range(self.tunnel.readouts))
        best = float(self.accuracy.per_seed.max())
        pooled = (best + self.exact_accuracy) / 2
        return best - self.exact_accuracy > 4 * math.sqrt(max(0.0, 2 * pooled * (1 - pooled) / draws))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON.  NaN (nothing was selected there) becomes None; infinity becomes the string "inf"."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _RETOLD}
        return _plain(
            fields
            | {
                "tunnel": {"type": type(self.tunnel).__name__, **_tunnel_fields(self.tunnel)},
                "subset": self.subset,
                "expected_calibration_error": self.calibration.expected_error,
                "calibration": self.calibration.rows(),
                "by_entropy": self.by_entropy.rows(),
            }
        )

    def __repr__(self) -> str:
        return f"<Score KL {self.kl_bits} bits on {self.tunnel}, {self.subset}, {self.episodes:,} episodes>"

    def __str__(self) -> str:
        networks = len(self.kl_bits.per_seed)
        who = "1 network" if networks == 1 else f"{networks} networks"
        floor = f"sampling alone gives {resolved(self.curve_mae_bits.floor or 0.0):#.2g}"
        yardstick = f"constant entropy scores {resolved(self.entropy_yardstick_bits):#.3g}"
        lines = [
            f"{self.tunnel}",
            f"{self.episodes} {self.stream} episode{'s' * (self.episodes != 1)}, seed {self.seed}, {self.subset};"
            f" {who}, 95% interval over {self.kl_bits.over}",
            f"  KL(exact‖model)    {self.kl_bits} bits",
            f"  entropy error      {self.entropy_mae_bits} bits per sequence ({yardstick})",
            f"  curve error        {self.curve_mae_bits} bits ({floor})",
            f"  total variation    {self.tv}",
            f"  excess log-loss    {self.excess_log_loss_bits} bits",
            f"  accuracy           {self.accuracy} (exact belief {self.exact_accuracy:#.3g})",
            f"  calibration error  {resolved(self.calibration.expected_error):#.3g}",
        ]
        return "\n".join(lines + ([f"  {OUT_OF_REACH}"] if self.out_of_reach else []))


_RETOLD = ("tunnel", "where", "calibration", "by_entropy")  # fields that to_dict tells in its own way


def score_fields(tunnel: Tunnel, exact: ExactTally, networks: list[NetworkTally], episodes: int) -> dict[str, Any]:
    """Everything in a `Score` that comes out of the tallies."""
    gaps = np.stack([tally.sums.per_position()[0, GAP] for tally in networks])
    scales: dict[str, Scale] = {"excess_log_loss_bits": "linear", "accuracy": "linear"}
    estimates = {
        name: _mean_estimate(networks, metric, scales.get(name, "log"), episodes)
        for metric, name in enumerate(MEASURED)
        if metric != GAP
    }
    return {
        **estimates,
        "curve_mae_bits": _curve_estimate(networks, episodes),
        "exact_accuracy": exact.accuracy,
        "entropy_yardstick_bits": exact.yardstick_bits,
        "exact_entropy_curve": exact.entropy_curve,
        "model_entropy_curve": exact.entropy_curve + gaps,
        "calibration": calibration_table([tally.reliability for tally in networks]),
        "by_entropy": entropy_table([tally.strata for tally in networks], tunnel.classes),
    }


def _mean_estimate(networks: list[NetworkTally], metric: int, scale: Scale, episodes: int) -> Estimate:
    """Mean over all selected readouts."""
    per_seed = np.array([tally.sums.pooled()[0, metric] for tally in networks])
    per_position = np.stack([tally.sums.per_position()[0, metric] for tally in networks]).mean(0)
    bootstrap = networks[0].bootstrap
    interval = None if bootstrap is None else bootstrap.interval(bootstrap.sums.pooled()[:, metric])
    return _estimate(per_seed, per_position, interval, scale, episodes)


def _curve_estimate(networks: list[NetworkTally], episodes: int) -> Estimate:
    """Mean over positions of |mean gap|.

    Sampling biases the value upward (its `floor` says by how much), and resampling biases a replicate once more by
    about the same.  That second bias is taken off, so that the interval has the value's own.
    """
    gaps = np.abs(np.stack([tally.sums.per_position()[0, GAP] for tally in networks]))
    bootstrap = networks[0].bootstrap
    interval = None
    if bootstrap is not None:
        drawn = np.abs(bootstrap.sums.per_position()[:, GAP])
        drawn = drawn[~np.isnan(drawn).all(axis=1)]  # a replicate of a tiny selection may have drawn none of it
        replicates = np.nanmean(drawn, axis=1)
        interval = bootstrap.interval(np.maximum(replicates - (replicates.mean() - np.nanmean(gaps)), 0.0))
    floor = float(np.nanmean([tally.gap_floor for tally in networks]))
    return _estimate(np.nanmean(gaps, axis=1), gaps.mean(0), interval, "log", episodes, floor)


def _estimate(
    per_seed: np.ndarray,
    per_position: np.ndarray,
    interval: tuple[float, float] | None,
    scale: Scale,
    episodes: int,
    floor: float | None = None,
) -> Estimate:
    mean = float(per_seed.mean())
    if interval is None:
        low, high, scale = t_interval(per_seed, scale)
        return Estimate(mean, low, high, per_position, per_seed, "seeds", scale, episodes, floor)
    return Estimate(mean, *interval, per_position, per_seed, "sequences", "linear", episodes, floor)


def _runs(indices: tuple[int, ...]) -> str:
    """(3, 4, 5, 9) as `3–5, 9`."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1][1:] = [index]
        else:
            runs.append([index])
    return ", ".join("–".join(map(str, run)) for run in runs)


def _tunnel_fields(tunnel: Tunnel) -> dict[str, Any]:
    fields = dataclasses.fields(tunnel) if dataclasses.is_dataclass(tunnel) else ()
    return {f.name: getattr(tunnel, f.name) for f in fields}


def _plain(value: Any) -> Any:
    """Dicts, lists, strings, numbers and None only."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)
