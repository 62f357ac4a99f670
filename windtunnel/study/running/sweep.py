"""Each architecture's own learning rate, found on other data and other seeds than the final ones.

Rates are the recipe's times 3^k.  First k = −1, 0, 1, each at a tenth of the steps, but at least 200 (after 100 no
network had found binding, and the choice was noise); while the chosen or the lowest is at the edge the next rate beyond
it is tried as well, up to k = ±3.  The best has the lowest KL on the validation stream, but not by a hair: each
threefold step up must lower it by a third, each step down by 2%.  Short trials flatter high rates, because they stand
at their peak so briefly: of seven cells that took one for less, one did worse than at its own rate, and in three
networks broke (`docs/log.md`).  Where the recipe's own rate has not begun to learn, its KL still that of a uniform
guess, one that has owes nothing.  A rate that diverges has lost, in a trial or in most of the final seeds (see `rate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from windtunnel.training import Diverged, Recipe, train

FIRST = (0, -1, 1)
FARTHEST = 3
SHARE, LEAST_STEPS = 10, 200
UP, DOWN = 1.5, 1.02  # what a step away from the recipe's own rate must lower the KL by
BEGUN = 0.9  # of the uniform guess's KL: at or below it something has been learnt
SEED = 1000  # no final seed is so large


def at_rate(recipe: Recipe, k: int) -> Recipe:
    """The recipe with its learning rates times 3^k."""
    factor = 3.0**k
    return recipe.with_options(lr=recipe.optimiser.lr * factor, muon_lr=recipe.optimiser.muon_lr * factor)


def trial_steps(recipe: Recipe) -> int:
    """Steps of one trial."""
    return min(recipe.steps, max(LEAST_STEPS, recipe.steps // SHARE))


def short(recipe: Recipe) -> Recipe:
    """Few of the steps, warm-up shrunk with them to at most a fifth, one seed that no final run uses."""
    steps = trial_steps(recipe)
    warmup = min(recipe.schedule.warmup * steps // recipe.steps, steps // 5)
    every = {"validate_every": steps, "checkpoint_every": max(1, steps // 2), "ladder": 0}
    return recipe.with_options(steps=steps, warmup=warmup, seeds=(SEED,), name=f"{recipe.name} sweep", **every)


def following(tried: Mapping[int, float], guess: float) -> int | None:
    """The next k to try, from the KL in bits of those tried and of a uniform guess; None when there is none left.

    Those chosen and lowest must have a neighbour on either side; where nothing has begun to learn, the lowest is noise.

    >>> following({}, 1.0), following({0: 0.1, -1: 0.2, 1: 0.3}, 1.0), following({0: 0.1, -1: 0.2, 1: 0.05}, 1.0)
    (0, None, 2)
    >>> following({0: 0.1, -1: 0.2, 1: 0.09}, 1.0), following({0: 1.0, -1: 1.01, 1: 0.99}, 1.0)
    (2, None)
    """
    for k in FIRST:
        if k not in tried:
            return k
    lowest = min(tried, key=lambda k: (tried[k], abs(k)))
    edges = [choose(tried, guess)] + ([lowest] if tried[lowest] <= BEGUN * guess else [])
    for best in edges:
        for neighbour in (best - 1, best + 1):
            if neighbour not in tried and abs(neighbour) <= FARTHEST:
                return neighbour
    return None


def choose(tried: Mapping[int, float], guess: float) -> int:
    """The k with the lowest KL, steps up and down at their price; the recipe's own rate if all diverged.

    guess  KL in bits of a uniform guess, where every network starts

    >>> choose({0: 8.0, -1: 8.01, 1: 7.99}, 8.0), choose({0: 0.5, -1: 0.4, 1: 0.4}, 8.0)
    (0, -1)
    >>> choose({0: 0.5, 1: 0.3, 2: 0.25}, 8.0), choose({0: 0.005, 1: 0.004}, 8.0)
    (1, 0)
    >>> choose({0: 7.7, -1: 8.0, 1: 6.3}, 8.0), choose({0: 6.9, -1: 8.0, 1: 6.3}, 8.0)
    (1, 0)
    """
    begun = BEGUN * guess
    free = tried.get(0, math.inf) > begun

    def price(k: int) -> float:
        if free and tried[k] <= begun:
            return 1.0
        return UP**k if k > 0 else DOWN**-k

    best = min(tried, key=lambda k: (tried[k] * price(k), abs(k)))
    return best if math.isfinite(tried[best]) else 0


def try_rate(recipe: Recipe, k: int, device: str, train: Callable = train, **options: Any) -> float | None:
    """KL in bits on the validation stream after a short training; infinite if it diverged.  A model that gives no
    numbers with its first weights is refused.

    options  of `train`: a folder to go on from, minutes to stop after.  None: stopped before its end
    """
    try:
        run = train(recipe=at_rate(short(recipe), k), device=device, **options)
    except Diverged as error:
        if error.at_once:  # no rate would change it
            raise
        return math.inf
    if not run.finished:
        return None
    kl = float(run.metrics()[-1]["kl_bits"])
    return kl if math.isfinite(kl) else math.inf
