"""Episodes per second, sampled with their exact posteriors.

    python benchmarks/sampling.py [--device cuda] [--json benchmarks/results/sampling.json]

Beside the tensor sampler runs the plain way to do it: NumPy, one sequence at a time, `rng.choice` and a forward update
per step; and the same with the draws tuned by hand (cumulative sums and a search).  All are timed in the same run,
several times in alternation, and the ratios of medians are what counts; absolute times on a shared CPU mean little.
"""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import torch
from common import Parser, place, run, save, whole

from windtunnel.environment import environment, require_device
from windtunnel.training.speed.cases import WORLDS
from windtunnel.training.speed.clock import seconds
from windtunnel.training.speed.sampling import by_choice, by_search, numpy_episode


def repeatedly(work, *arguments, times: int = 200) -> None:
    """Do it that many times."""
    for _ in range(times):
        work(*arguments)


def main() -> None:
    parser = Parser(description="Episodes per second, sampled with their exact posteriors.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--episodes", type=whole(1), default=None, help="per call (default 65536 on a CPU, 1048576 on a GPU)"
    )
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--json", type=place, default=None, help="also write the table here")
    options = parser.parse_args()
    device = require_device(options.device)
    count = options.episodes or (65_536 if device == "cpu" else 1_048_576)

    rng = np.random.default_rng(0)
    references = {"hmm, NumPy, one at a time": by_choice, "the same, draws tuned by hand": by_search}
    times: dict[str, list[float]] = {name: [] for name in (*references, *WORLDS)}
    for repeat in range(options.repeats + 1):  # the first round warms up and is not counted
        for name, draw in references.items():
            times[name].append(seconds(partial(repeatedly, numpy_episode, rng, draw), "cpu") / 200)
        for name, tunnel in WORLDS.items():
            size = max(1, count // 8) if name == "recall" else count
            dtype = torch.float64 if device == "cpu" else torch.float32
            taken = seconds(partial(tunnel.sample, size, seed=repeat, device=device, dtype=dtype), device)
            times[name].append(taken / size)
    rates = {name: 1.0 / statistics.median(taken[1:]) for name, taken in times.items()}
    plain, tuned = (rates[name] for name in references)
    rows = [
        {"tunnel": name, "episodes_per_s": rate, "over_plain": rate / plain, "over_tuned": rate / tuned}
        for name, rate in rates.items()
    ]
    for row in rows:
        ratios = f"{row['over_plain']:9.1f} × plain NumPy {row['over_tuned']:8.1f} × tuned NumPy"
        print(f"{row['tunnel']:30s} {row['episodes_per_s']:13,.0f} episodes/s {ratios}")
    save(options.json, {"environment": environment(device), "episodes_per_call": count, "rows": rows})


if __name__ == "__main__":
    run(main)
