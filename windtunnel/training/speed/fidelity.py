"""Time to fidelity: seconds of training until a network is within so many bits of exact inference.

The clock runs while the network takes steps, and only then: set-up (building, compiling, capturing) is told apart, and
validation stops the clock.  Looking often would reward luck, since the first of many noisy scores to pass a target is
a lucky one; so a pass is believed only if the same weights also pass on many more validation episodes, of another seed.
The test stream decides nothing: weights that passed are scored on it once, and that is the KL that is told.

Seeds train one after the other, never together in one graph: the time is what one network alone needs.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from windtunnel import models
from windtunnel.errors import require
from windtunnel.fidelity import evaluate
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.models.compiled import must_compile
from windtunnel.training.batch_stages import stage_at
from windtunnel.training.engine import Engine
from windtunnel.training.network import VALIDATION_SEED, Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.clock import drain, seconds

TARGETS_BITS = (1e-2, 1e-3, 1e-4)
TEST_SEED = 1


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
    confirm_episodes  of the validation stream, on which a pass must be repeated; and of the test stream

    The result: `seed`; `setup_s`; `seconds` and `steps` of all training done; `curve`, a list of
    [seconds, step, validation KL in bits]; `passed`, which maps a target (as a string) to the seconds and step of its
    first pass, and to the KL of those weights: `confirmed_kl_bits` on the validation stream, `kl_bits` on the test
    stream.  A target that was not reached is not in it.  `diverged`: did it end because it was no longer a number?
    """
    possible = [0 < target < math.inf for target in targets_bits]
    require(len(possible) > 0 and all(possible), "targets", targets_bits, "numbers of bits above 0")
    require(every_s > 0, "every_s", every_s, "above 0")
    start = time.perf_counter()
    with must_compile():
        network = Network(recipe, seed, device)
        engine = Engine([network])
    drain(device)
    setup_s = time.perf_counter() - start

    spent, step, stride, diverged = 0.0, 0, 1, False
    curve: list[list[float]] = []
    passed: dict[str, dict[str, float]] = {}
    waiting = sorted({*targets_bits}, reverse=True)
    while step < recipe.steps and waiting:
        stage = stage_at(recipe.stages, step)
        ends = [later.first_step for later in recipe.stages if later.first_step > step]
        stride = min(stride, min(ends, default=recipe.steps) - step)  # a step of a larger batch takes longer
        taken = seconds(lambda: engine.advance(stride), device)  # noqa: B023
        spent, step = spent + taken, step + stride
        stride = max(1, min(2 * stride, round(stride * every_s / taken)))  # doubled at most: the first step is slow
        stride = max(1, stride * stage.batch // stage_at(recipe.stages, step).batch)
        kl = _validated_kl_bits(network)
        diverged = kl is None
        if kl is None:  # nothing it does from here on can pass
            break
        curve.append([spent, step, kl])
        if kl > waiting[0]:
            continue
        confirmed = _kl_bits(network, confirm_episodes, "validation", VALIDATION_SEED + 1)
        reached = [target for target in waiting if max(kl, confirmed) <= target]
        if reached:
            told = {"seconds": spent, "step": step, "confirmed_kl_bits": confirmed}
            told["kl_bits"] = _kl_bits(network, confirm_episodes, "test", TEST_SEED)
            passed |= {f"{target:g}": dict(told) for target in reached}
            waiting = waiting[len(reached) :]
    found = {"seed": seed, "setup_s": setup_s, "seconds": spent, "steps": step}
    return found | {"curve": curve, "passed": passed, "diverged": diverged}


def _validated_kl_bits(network: Network) -> float | None:
    """KL on the validation stream; None once loss, weights or predictions are no longer numbers."""
    if int(network.broken_at) >= 0 or not network.finite():
        return None
    try:
        kl = network.validate()["kl_bits"]
    except NotNumbers:
        return None
    return kl if math.isfinite(kl) else None


@torch.no_grad()
def _kl_bits(network: Network, episodes: int, stream: str, seed: int) -> float:
    """KL on a stream of the weights that would be kept (averaged, where the recipe averages)."""
    recipe = network.recipe
    model = models.build(network.factory or recipe.model, recipe.tunnel, **recipe.model_options)
    model.load_state_dict(network.weights())
    model.to(network.device).eval()
    return evaluate(model, recipe.tunnel, episodes=episodes, stream=stream, seed=seed).kl_bits.mean
