"""What a score cannot say in one number: entropy, KL and calibration along the sequence, and the way there.

Everything is measured on the test stream, seed 1: the episodes of `evaluate`'s defaults, or the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from windtunnel.errors import InputError
from windtunnel.fidelity import Score, baselines, evaluate_all
from windtunnel.json_numbers import to_json
from windtunnel.models import describe
from windtunnel.report.subjects import Subject
from windtunnel.study.quantity import Quantity
from windtunnel.tunnels import Tunnel

EPISODES = 4096  # as many as `evaluate` takes, so that both say the same number
# Positions × parameters scored without a GPU: seconds; a network of the paper's size gets fewer episodes.
CPU_WORK = 2e10
CPU_LEAST = 8_000  # positions that any network gets
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


def how_many(tunnel: Tunnel, device: str, parameters: int) -> int:
    """Episodes to score: `evaluate`'s own, but fewer of long ones and for large networks without a GPU.

    >>> from windtunnel.tunnels import HMM, Bijection
    >>> how_many(Bijection(symbols=8, length=8), "cpu", 50_000), how_many(HMM(), "cpu", 2_670_000)
    (4096, 266)
    """
    if device != "cpu":
        return EPISODES
    return int(np.clip(max(CPU_LEAST, CPU_WORK / max(1, parameters)) // tunnel.positions, 64, EPISODES))


def scored_on(curves: Mapping[str, Any]) -> str:
    """`the first 266 of evaluate's 4,096 test episodes`; nothing where it is all of them."""
    count = curves["episodes"]
    return f"the first {count:,} of evaluate's {EPISODES:,} test episodes" if count < EPISODES else ""


def curves(subject: Subject, device: str = "cpu") -> dict[str, Any]:
    """Plain data: one list over readouts for each seed and baseline; calibration of all seeds together.

    kl_bits      mean and interval;  kl_per_position, model_entropy   one list of K numbers for each seed
    calibration  rows of low, high, count, model, exact
    """
    known, size = baselines(subject.tunnel), describe(subject.networks[0]).params
    episodes = how_many(subject.tunnel, device, size)
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
        "calibration_error": to_json(float(np.mean([score.calibration.expected_error for score in own]))),
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
            str(seed): [[r["step"], to_json(r["kl_bits"])] for r in run.metrics(seed)] for seed in subject.seeds
        }
    except InputError as error:  # a damaged history costs itself alone: the networks are looked into all the same
        found |= {"points": {}, "missing": str(error)}
    return found


def _numbers(values: Any) -> list[float | str | None]:
    return [to_json(float(f"{v:.6g}")) for v in np.asarray(values, dtype=float).ravel()]
