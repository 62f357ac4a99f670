"""Rates of matrix products, training steps and evaluation."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from windtunnel import models
from windtunnel.fidelity import evaluate
from windtunnel.models.compiled import must_compile
from windtunnel.training.engine import Engine
from windtunnel.training.gpu_turns import turn as hold
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.clock import busy_ms, drain, seconds, seconds_each
from windtunnel.training.speed.memory import COUNTED, MEASURED, counted_bytes, held_since, start_measuring


def matrix_rate(device: str, size: int | None = None) -> float:
    """Floating-point operations per second of one large square matrix product, best of several: bfloat16 on a GPU,
    float32 on a CPU."""
    size = size or (8192 if device != "cpu" else 1024)
    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / min(seconds(partial(torch.mm, a, b), device) for _ in range(10))


AS_TRAINED = "products of the pass that trains"
"""How `work_of` counts.  Rows of older results do not say: they were counted on the path with taps, which in the last
block of a Transformer also does the positions that nobody reads."""


class Work(NamedTuple):
    """parameters           of one network
    flops_per_sequence   floating-point operations of the matrix products of one training sequence, both passes
    flops_counted        how"""

    parameters: int
    flops_per_sequence: float
    flops_counted: str = AS_TRAINED


def work_of(recipe: Recipe) -> Work:
    """Counted on the pass that trains, which leaves out what no readout depends on.

    No product may hide from the count in a library's kernel: attention goes by torch's written-out form, and an LSTM,
    which a CPU's library takes in one piece in float32 only, in float64.  (Of attention the whole square counts, as
    usual, though half of it is masked.)
    """
    model = Network(recipe, 0, "cpu").model.double()
    inputs = recipe.tunnel.sample(2).inputs
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(inputs.tokens, inputs.features, inputs.readout).sum().backward()
    return Work(models.describe(model).params, counter.get_total_flops() / 2)


def engine_for(recipe: Recipe, device: str, seeds: int = 1) -> Engine:
    """Networks of the first seeds, ready to advance together (on a GPU compiled and captured), two steps taken.

    Where compilation fails there is no engine: nothing is measured that is not what training would run."""
    recipe = recipe.with_options(steps=1_000_000, seeds=tuple(range(seeds)))  # the table of rates must not end
    with must_compile():
        engine = Engine([Network(recipe, seed, device) for seed in recipe.seeds])
        engine.advance(2)
    drain(device)
    return engine


def training_rate(
    recipe: Recipe, device: str, about_s: float, seeds: int = 1, turn: Path | None = None
) -> dict[str, Any]:
    """Sequences per second of whole training steps (sampling, forward, backward, optimiser) of some seeds together,
    over about that many seconds (on a CPU, of each seed); memory; the seconds it took to build, compile and capture;
    and on a GPU the share of the time in which a kernel runs.

    turn  file of the turns that other measurements on this card take: steps are counted while it is held
    """
    before = 0 if device == "cpu" else start_measuring(device)
    start = time.perf_counter()
    engine = engine_for(recipe, device, seeds)
    setup = time.perf_counter() - start
    with nullcontext() if turn is None else hold(turn):
        if device == "cpu":  # several seeds meet at the end of a burst, in training about once a second
            each = seconds_each(engine.advance, device, about_s * seeds, bursts=max(2, 12 // seeds))
        else:
            each = seconds_each(engine.advance, device, about_s)
        busy_s = 0.0 if device == "cpu" else busy_ms(partial(engine.advance, 1), device) / 1e3
    if device != "cpu":
        memory, kind = held_since(before, device), MEASURED
    else:
        memory, kind = seeds * counted_bytes(engine.networks[0]), COUNTED
    return {
        "seeds": seeds,
        "batch": recipe.batch,
        "sequences_per_s": recipe.batch * seeds / each,
        "ms_per_step": 1e3 * each,
        "setup_s": setup,
        "memory_mib": memory / 2**20,
        "memory_kind": kind,
        **({"busy_share": busy_s / each} if busy_s else {}),
    }


def evaluation_rate(recipe: Recipe, device: str, about_s: float, episodes: int | None = None) -> dict[str, Any]:
    """Episodes per second of `evaluate`: sampling, the network's predictions, all metrics and their intervals."""
    count = episodes or (512 if device == "cpu" else 65_536)
    model = models.build(recipe.model, recipe.tunnel, **recipe.model_options)
    model = cast(nn.Module, model).to(device).eval()

    def score(times: int) -> None:
        for number in range(times):
            evaluate(model, recipe.tunnel, episodes=count, seed=number)

    score(1)
    each = seconds_each(score, device, about_s)
    return {"episodes_per_call": count, "episodes_per_s": count / each}
