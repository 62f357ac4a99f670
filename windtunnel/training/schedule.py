"""The learning rate of every step, as one table: a captured step looks it up, and so does a plain one."""

from __future__ import annotations

import torch
from jaxtyping import Float32
from torch import Tensor

from windtunnel.training.recipe import Recipe, Schedule


def rate_table(schedule: Schedule, steps: int) -> Float32[Tensor, " steps"]:
    """Share of the peak learning rate at step 0 … steps − 1.

    Warm-up rises in a line and reaches 1 at step `warmup`; the fall covers the last `decay_share` of the steps and
    would reach the floor one step after the last, so that no step is wasted at rate 0.
    """
    step = torch.arange(steps, dtype=torch.float64)
    rise = ((step + 1) / (schedule.warmup + 1)).clamp_max(1.0)
    if schedule.decay == "none" or schedule.decay_share == 0:
        return rise.float()
    length = max(1.0, schedule.decay_share * steps)
    progress = ((step - (steps - length)) / length).clamp(0.0, 1.0)
    if schedule.decay == "cosine":
        fall = 0.5 * (1.0 + torch.cos(torch.pi * progress))
    else:
        fall = 1.0 - progress
    return (rise * (schedule.floor + (1.0 - schedule.floor) * fall)).float()


def never_peaks(recipe: Recipe) -> bool:
    """Is the warm-up longer than the whole training, which then ends before the rate has come to its peak?"""
    return recipe.schedule.warmup > recipe.steps


def shortened(warmup: int, steps: int) -> int:
    """The warm-up of a recipe, where the training is to have fewer steps than that.

    >>> shortened(50, 800), shortened(50, 20)
    (50, 2)
    """
    return steps // 10 if warmup > steps else warmup


def ladder_steps(steps: int, rungs: int) -> list[int]:
    """Log-spaced steps from 1 to the last, the last always among them.

    >>> ladder_steps(1000, 4)
    [1, 10, 100, 1000]
    """
    if rungs < 2:
        return [steps]
    return sorted({round(steps ** (rung / (rungs - 1))) for rung in range(rungs)})
