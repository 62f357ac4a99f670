"""Time to fidelity: seconds of training until a network is within so many bits of exact inference.

The clock runs while the network takes steps, and only then: set-up (building, compiling, capturing) is told apart, and
validation stops the clock.  Looking often would reward luck, since the first of many noisy scores to pass a target is
a lucky one; so a pass is believed only if the same weights also pass on many more episodes of the test stream.

Seeds train one after the other, never together in one graph: the time is what one network alone needs.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from windtunnel import models
from windtunnel.errors import require
from windtunnel.fidelity import evaluate
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.clock import drain, seconds

TARGETS_BITS = (1e-2, 1e-3, 1e-4)


def time_to_fidelity(
    recipe: Recipe,
    seed: int,
    device: str,
    targets_bits: tuple[float, ...] = TARGETS_BITS,
    every_s: float = 0.25,
    confirm_episodes: int = 20_000,
) -> dict[str, Any]:
    """Train one seed until the smallest target is passed or its steps are over.

    every_s           seconds of training between two validations: the resolution of the result
    confirm_episodes  of the test stream, on which a pass must be repeated

    The result: `seed`; `setup_s`; `seconds` and `steps` of all training done; `curve`, a list of
    [seconds, step, validation KL in bits]; `passed`, which maps a target (as a string) to the seconds, step and
    confirmed KL at its first pass.  A target that was not reached is not in it.
    """
    require(len(targets_bits) > 0 and min(targets_bits) > 0, "targets", targets_bits, "numbers of bits above 0")
    require(every_s > 0, "every_s", every_s, "above 0")
    start = time.perf_counter()
    network = Network(recipe, seed, device)
    engine = Engine([network])
    drain(device)
    setup_s = time.perf_counter() - start

    spent, step, stride = 0.0, 0, 1
    curve: list[list[float]] = []
    passed: dict[str, dict[str, float]] = {}
    waiting = sorted(targets_bits, reverse=True)
    while step < recipe.steps and waiting:
        stride = min(stride, recipe.steps - step)
        taken = seconds(lambda: engine.advance(stride), device)  # noqa: B023
        spent, step = spent + taken, step + stride
        stride = max(1, min(2 * stride, round(stride * every_s / taken)))  # doubled at most: the first step is slow
        kl = network.validate()["kl_bits"]
        curve.append([spent, step, kl])
        if kl > waiting[0] or not kl >= 0.0:
            continue
        confirmed = _confirmed_kl_bits(network, confirm_episodes)
        while waiting and max(kl, confirmed) <= waiting[0]:
            passed[f"{waiting.pop(0):g}"] = {"seconds": spent, "step": step, "kl_bits": confirmed}
    return {"seed": seed, "setup_s": setup_s, "seconds": spent, "steps": step, "curve": curve, "passed": passed}


@torch.no_grad()
def _confirmed_kl_bits(network: Network, episodes: int) -> float:
    """KL on the test stream of the weights that would be kept (averaged, where the recipe averages)."""
    recipe = network.recipe
    model = models.build(network.factory or recipe.model, recipe.tunnel, quiet=True, **recipe.model_options)
    model.load_state_dict(network.weights())
    return evaluate(model.to(network.device).eval(), recipe.tunnel, episodes=episodes, stream="test").kl_bits.mean
