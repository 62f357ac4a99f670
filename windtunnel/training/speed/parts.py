"""Where the time of one training step goes.

Growing pieces of the step are timed (sampling; and the forward pass; and the backward pass; and the optimiser), in
turns so that a busy machine hits all alike, and the differences are the parts.  On a GPU each piece is captured as a
graph of its own, as training does with the whole.

What no part can tell is added beside them: on a GPU the time in which no kernel runs (launch gaps); on a CPU the same
step with a batch of 1, which does next to no arithmetic and so costs what Python and the calls cost.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from windtunnel.training.batch_halves import in_halves
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.clock import busy_ms, drain, seconds
from windtunnel.training.speed.rates import engine_for

PARTS = ("sampling", "forward", "backward", "optimiser")


def step_parts(recipe: Recipe, device: str, about_s: float) -> dict[str, Any]:
    """Milliseconds of each part of a step of one seed, of the whole, and of what lies between (see above)."""
    network = engine_for(recipe, device).networks[0]  # on a GPU: compiled and warm
    pieces = _pieces(network)
    if device != "cpu":
        pieces = {name: captured(piece) for name, piece in pieces.items()}
    else:
        pieces["calls"] = _pieces(Network(network.recipe.with_options(batch=1), 0, device))["optimiser"]
    times = _in_turns(pieces, device, about_s)
    row: dict[str, Any] = {"batch": recipe.batch, "ms_per_step": 1e3 * times["optimiser"]}
    before = 0.0
    for part in PARTS:  # noise may make a piece faster than the one it contains: then its addition is 0
        row[f"{part}_ms"] = 1e3 * max(0.0, times[part] - before)
        before = max(before, times[part])
    if device != "cpu":
        row["gaps_ms"] = max(0.0, row["ms_per_step"] - busy_ms(pieces["optimiser"], device))
    else:
        row["calls_ms"] = 1e3 * times["calls"]
    return row


def _pieces(network: Network) -> dict[str, Callable[[], object]]:
    """Each piece contains the one before it; the last is a whole step.  On a CPU in halves, as the step itself."""

    def forward() -> object:
        batch = network.sample()
        if not network._halved:
            return network._loss(batch)
        return in_halves(lambda part: network._loss(batch, part), network.recipe.batch, network.threads)

    pieces: dict[str, Callable[[], object]] = {
        "sampling": network.sample,
        "forward": forward,
        "backward": network._backward_in_halves if network._halved else network._backward,
        "optimiser": network.advance,
    }
    return {name: partial(_on_its_threads, network, piece) for name, piece in pieces.items()}


def _on_its_threads(network: Network, piece: Callable[[], object]) -> object:
    with network._threads():
        return piece()


def captured(piece: Callable[[], object]) -> Callable[[], object]:
    """A graph of the piece, to be replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            piece()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        piece()
    return graph.replay


def _in_turns(pieces: dict[str, Callable[[], object]], device: str, about_s: float) -> dict[str, float]:
    """Seconds per call of each: on a GPU the median, on a (shared) CPU the lower quartile of many turns."""
    for piece in pieces.values():
        piece()
    once = sum(seconds(piece, device) for piece in pieces.values())
    repeat = 10 if device != "cpu" else 1  # a single replay is too short for the host's clock
    turns = max(4, min(200, int(about_s / (once * repeat))))
    times: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(turns):
        for name, piece in pieces.items():
            times[name].append(seconds(lambda piece=piece: [piece() for _ in range(repeat)], device) / repeat)
    if device != "cpu":
        return {name: statistics.median(taken) for name, taken in times.items()}
    return {name: statistics.quantiles(taken, n=4)[0] for name, taken in times.items()}


def operations(recipe: Recipe, device: str, steps: int = 3, most: int = 16) -> list[dict[str, Any]]:
    """The most expensive kernels (GPU) or operators (CPU) of a step, by the time spent in themselves.

    On a CPU those of the calling thread: where a batch is worked on in halves, of one half.
    """
    engine = engine_for(recipe, device)
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (device != "cpu")
    with torch.profiler.profile(activities=kinds) as profile:
        engine.advance(steps)
        drain(device)
    field = "self_device_time_total" if device != "cpu" else "self_cpu_time_total"
    spent = sorted(((getattr(event, field), event.count, event.key) for event in profile.key_averages()), reverse=True)
    total = sum(time_us for time_us, _, _ in spent) or 1.0
    return [
        {"operation": name, "ms": time_us / steps / 1e3, "share": time_us / total, "calls": count / steps}
        for time_us, count, name in spent[:most]
    ]
