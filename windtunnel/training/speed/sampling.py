"""Episodes per second, sampled with their exact posteriors; and the plain way to do it, for comparison.

The plain way is NumPy, one sequence at a time, `rng.choice` and a forward update per step; or the same with the draws
tuned by hand (cumulative sums and a search).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from windtunnel.models.compiled import must_compile, specialised
from windtunnel.training.speed.clock import seconds_each
from windtunnel.tunnels import STREAMS, Source, Tunnel

Draw = Callable[[np.random.Generator, np.ndarray], int]


def sampling_rate(tunnel: Tunnel, device: str, about_s: float, episodes: int | None = None) -> dict[str, Any]:
    """On a CPU `tunnel.sample` as a user calls it, in float64; on a GPU the fused sampler of a training step, in
    float32."""
    count = episodes or (65_536 if device == "cpu" else 1_048_576)
    count = count if tunnel.positions < 100 else max(1, count // 8)
    once = partial(_fused(tunnel, device), count) if device != "cpu" else partial(tunnel.sample, count)

    def draw(times: int) -> None:
        for number in range(times):
            once(number)

    with must_compile():
        draw(2)
    return {"episodes_per_call": count, "episodes_per_s": count / seconds_each(draw, device, about_s)}


def _fused(tunnel: Tunnel, device: str) -> Callable[[int, int], tuple[Tensor | None, ...]]:
    """The sampler as one compiled function (count, seed) -> tokens, features, labels, posterior."""

    def draw(seed: Tensor, numbers: Tensor) -> tuple[Tensor | None, ...]:
        episodes = tunnel.episodes(tunnel.draw(Source(seed, STREAMS.index("train"), numbers)), torch.float32)
        return episodes.inputs.tokens, episodes.inputs.features, episodes.labels, episodes.posterior

    fast = specialised(draw)

    def call(count: int, seed: int) -> tuple[Tensor | None, ...]:
        return fast(torch.tensor(seed, device=device), torch.arange(count, device=device))

    return call


def numpy_rate(draw: Draw, about_s: float) -> float:
    """Episodes per second of the plain way."""
    rng = np.random.default_rng(0)

    def several(times: int) -> None:
        for _ in range(times):
            numpy_episode(rng, draw)

    several(10)
    return 1.0 / seconds_each(several, "cpu", about_s)


def numpy_episode(
    rng: np.random.Generator, draw: Draw, states: int = 5, symbols: int = 5, length: int = 20
) -> tuple[np.ndarray, ...]:
    """One HMM episode and its filtering beliefs (length, states), the plain way."""
    transition = rng.dirichlet(np.ones(states), size=states)
    emission = rng.dirichlet(np.ones(symbols), size=states)
    state = int(rng.integers(states))
    belief = np.full(states, 1.0 / states)
    observations, beliefs = np.empty(length, dtype=int), np.empty((length, states))
    for t in range(length):
        if t:
            state = draw(rng, transition[state])
            belief = belief @ transition
        symbol = draw(rng, emission[state])
        belief = belief * emission[:, symbol]
        belief = belief / belief.sum()
        observations[t], beliefs[t] = symbol, belief
    return transition, emission, observations, beliefs


def by_choice(rng: np.random.Generator, row: np.ndarray) -> int:
    """A draw as NumPy offers it."""
    return int(rng.choice(len(row), p=row))


def by_search(rng: np.random.Generator, row: np.ndarray) -> int:
    """A draw tuned by hand."""
    return min(int(np.searchsorted(np.cumsum(row), rng.random())), len(row) - 1)
