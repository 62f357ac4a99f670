"""What a score cannot say in one number: entropy, KL and calibration along the sequence, and the way there.

Everything is measured on the test stream, seed 1: the episodes of `evaluate`'s defaults.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.errors import InputError
from windtunnel.fidelity import Score, baselines, evaluate_all
from windtunnel.report.subjects import Subject
from windtunnel.study.quantity import Quantity, plain
from windtunnel.tunnels import Tunnel

EPISODES = 1024
CPU_TOKENS = 8_000  # positions scored without a GPU: seconds for a network of the paper's size; the interval says it
SEED = 1
SCALE = (
    "uniform",
    "last-observation",
    "set-complement",
    "familiarity",
    "stored-values",
    "window-1",
    "window-2",
    "window-4",
    "t-blind",
)
"""Baselines drawn as a scale, where a tunnel has them."""


def references(names: Any) -> list[str]:
    """Those of the names that serve as a scale, in order."""
    return [name for name in SCALE if name in names]


def how_many(tunnel: Tunnel, device: str) -> int:
    """Episodes to score: fewer of long ones without a GPU."""
    return EPISODES if device != "cpu" else int(np.clip(CPU_TOKENS // tunnel.positions, 64, EPISODES))


def curves(subject: Subject, device: str = "cpu") -> dict[str, Any]:
    """Plain data: one list over readouts for each seed and baseline; calibration of all seeds together.

    kl_bits      mean and interval;  kl_per_position, model_entropy   one list of K numbers for each seed
    calibration  rows of low, high, count, model, exact
    """
    known, episodes = baselines(subject.tunnel), how_many(subject.tunnel, device)
    scale = {f"base: {name}": known[name] for name in references(known)}
    networks = {f"seed: {seed}": network for seed, network in zip(subject.seeds, subject.networks)}
    found = evaluate_all(
        {**networks, **scale},
        subject.tunnel,
        episodes=episodes,
        seed=SEED,
        device=device,
    )
    own = [found[name] for name in networks]
    return {
        "episodes": episodes,
        "seed": SEED,
        "kl_bits": _over_seeds(own),
        "kl_per_position": [_numbers(score.kl_bits.per_position) for score in own],
        "exact_entropy": _numbers(own[0].exact_entropy_curve),
        "model_entropy": [_numbers(score.model_entropy_curve[0]) for score in own],
        "calibration": _calibration(own),
        "calibration_error": plain(float(np.mean([score.calibration.expected_error for score in own]))),
        "baselines": {name[6:]: _numbers(found[name].kl_bits.per_position) for name in scale},
    }


def _over_seeds(scores: list[Score]) -> dict[str, Any]:
    if len(scores) > 1:
        return Quantity.of_seeds([score.kl_bits.mean for score in scores], "log").to_dict()
    kl = scores[0].kl_bits
    return Quantity(kl.mean, kl.low, kl.high, "sequences").to_dict()


def _calibration(scores: list[Score]) -> list[dict[str, float]]:
    """The reliability rows of all networks, weighted by how often each bin was used."""
    bins: dict[tuple[float, float], np.ndarray] = {}
    for score in scores:
        for row in score.calibration.rows():
            sums = bins.setdefault((row["low"], row["high"]), np.zeros(3))
            sums += np.array([1.0, row["model"], row["exact"]]) * row["count"]
    return [
        {"low": low, "high": high, "count": s[0], "model": s[1] / s[0], "exact": s[2] / s[0]}
        for (low, high), s in sorted(bins.items())
    ]


def history(subject: Subject) -> dict[str, Any] | None:
    """KL on the validation stream along training; None for a network without a run.

    seconds  of all seeds together;  points  {seed: [[step, kl_bits], …]};  missing  why there are none, if so
    """
    if subject.run is None:
        return None
    run = subject.run
    found: dict[str, Any] = {"seconds": run.seconds()["train"], "steps": run.steps, "batch": run.recipe.batch}
    try:
        found["points"] = {
            str(seed): [[r["step"], plain(r["kl_bits"])] for r in run.metrics(seed)] for seed in subject.seeds
        }
    except InputError as error:  # a damaged history costs itself alone: the networks are looked into all the same
        found |= {"points": {}, "missing": str(error)}
    return found


def _numbers(values: Any) -> list[float | str | None]:
    return [plain(float(f"{v:.6g}")) for v in np.asarray(values, dtype=float).ravel()]
