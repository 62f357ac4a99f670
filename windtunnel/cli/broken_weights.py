"""Weights that predict no numbers: whose they are, and why."""

from __future__ import annotations

from pathlib import Path

from windtunnel.errors import InputError
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.training import Run


def no_numbers(
    error: NotNumbers, folder: Path, subject: Run, step: int | None = None, length: int | None = None, hint: str = ""
) -> InputError:
    """Whose weights predict no numbers, and why: for an own run that is not the fault of its class.

    Training cannot go past such weights.  So it diverged there if it did not finish; else it is the length, or an
    episode that training did not meet.

    step, length  as they were asked for
    hint          how the command takes earlier weights, where it does: `--step`
    """
    seeds = [seed for seed, network in zip(subject.recipe.seeds, subject.models) if network is error.predictor]
    if not seeds or subject.path is None:  # a baseline of somebody's tunnel, or a shipped network
        return error
    seed, rungs = seeds[0], subject.ladder(seeds[0])
    step = rungs[-1] if step is None else step
    told = f"{folder}: the weights of step {step}, seed {seed}, predict NaN"
    if subject.folder.seed(seed).last_step() == subject.recipe.steps:
        return InputError(f"{told} on these episodes" if length is None else f"{told} at length {length}")
    told += " because training diverged: a lower learning rate in another folder may help"
    earlier = [rung for rung in rungs if rung < step] if hint else []
    return InputError(told + (f", `{hint} {earlier[-1]}` takes earlier weights" if earlier else ""))
