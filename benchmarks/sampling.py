"""Episodes per second, sampled with their exact posteriors.

    python benchmarks/sampling.py [--device cuda] [--json benchmarks/results/sampling.json]

Beside the tensor sampler runs the plain way to do it: NumPy, one sequence at a time, a draw and a forward update per
step.  Both are timed in the same run, several times in alternation, and the ratio of medians is what counts; absolute
times on a shared CPU mean little.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

import numpy as np
import torch
from common import save

from windtunnel.environment import environment, require_device
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel

WORLDS: dict[str, Tunnel] = {
    "hmm": HMM(),
    "hmm rotating": HMM(dynamics="rotating"),
    "hmm released": HMM(prior="released"),
    "bijection": Bijection(),
    "bijection replacement": Bijection(replacement=True),
    "recall": Recall(),
}


def numpy_episode(rng: np.random.Generator, states: int = 5, symbols: int = 5, length: int = 20):
    """One HMM episode and its filtering beliefs, the plain way."""
    transition = rng.dirichlet(np.ones(states), size=states)
    emission = rng.dirichlet(np.ones(symbols), size=states)
    state = int(rng.integers(states))
    belief = np.full(states, 1.0 / states)
    observations, beliefs = np.empty(length, dtype=int), np.empty((length, states))
    for t in range(length):
        if t:
            state = int(np.searchsorted(np.cumsum(transition[state]), rng.random()))
            state = min(state, states - 1)
            belief = belief @ transition
        symbol = min(int(np.searchsorted(np.cumsum(emission[state]), rng.random())), symbols - 1)
        belief = belief * emission[:, symbol]
        belief = belief / belief.sum()
        observations[t], beliefs[t] = symbol, belief
    return transition, emission, observations, beliefs


def seconds(work, device: str) -> float:
    """Wall-clock seconds of one call, the device drained before and after."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Episodes per second, sampled with their exact posteriors.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--episodes", type=int, default=None, help="per call (default 32768 on a CPU, 1048576 on a GPU)"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", default=None, help="also write the table here")
    options = parser.parse_args()
    device = require_device(options.device)
    count = options.episodes or (32_768 if device == "cpu" else 1_048_576)

    rng = np.random.default_rng(0)
    plain, times = [], {name: [] for name in WORLDS}
    for repeat in range(options.repeats + 1):  # the first round warms up and is not counted
        plain.append(seconds(lambda: [numpy_episode(rng) for _ in range(200)], "cpu") / 200)
        for name, tunnel in WORLDS.items():
            size = count // 8 if name == "recall" else count
            dtype = torch.float64 if device == "cpu" else torch.float32
            taken = seconds(partial(tunnel.sample, size, seed=repeat, device=device, dtype=dtype), device)
            times[name].append(taken / size)
    reference = 1.0 / statistics.median(plain[1:])
    rows = [{"tunnel": "hmm, NumPy, one at a time", "episodes_per_s": reference, "ratio": 1.0}]
    for name, taken in times.items():
        rate = 1.0 / statistics.median(taken[1:])
        rows.append({"tunnel": name, "episodes_per_s": rate, "ratio": rate / reference})
    for row in rows:
        print(f"{row['tunnel']:28s} {row['episodes_per_s']:14,.0f} episodes/s {row['ratio']:10.1f} ×")
    save(options.json, {"environment": environment(device), "episodes_per_call": count, "rows": rows})


if __name__ == "__main__":
    main()
