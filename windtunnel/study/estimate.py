"""How long a study will take, told before it starts; and what it will need on disk.

Rates are tokens per second of training steps on one H200, several seeds sharing the card, taken from
`benchmarks/results/h200`; those of the architectures that have no measurement there are guesses.  Cells that are done
replace them: what this machine did, it will do again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError
from windtunnel.geometry.survey import LADDER
from windtunnel.study.plan import Cell, Plan
from windtunnel.study.sweep import FIRST, SHARE

H200_TOKENS_PER_S = {"transformer": 8.0e6, "mamba": 1.8e6, "lstm": 5.2e6, "mlp": 8.0e6, "linear-attention": 1.6e6}
LARGER = 2.1  # how much slower the paper's HMM shapes are, 7.1M parameters instead of 2.67M
SETUP_S = {"mamba": 20.0, "lstm": 10.0}  # build, compile, capture
OTHER_SETUP_S = 25.0
AGAIN_S = 8.0  # the same once more, with what the compiler kept
SURVEY_S = 20.0  # one instrument on one seed
SCORE_S = 3.0  # one condition
CPU_SLOWER = 300.0  # two cores against the card, in round numbers


def training_seconds(cell: Cell, rates: Mapping[str, float] = H200_TOKENS_PER_S) -> float:
    """Seconds of training, set-up and sweep of a cell on an H200."""
    recipe = cell.recipe
    tokens = cell.sequences * recipe.tunnel.positions
    rate = rates.get(recipe.model, min(rates.values()))
    rate /= LARGER if recipe.model_options.get("preset") == "paper-hmm" else 1.0
    seconds = SETUP_S.get(recipe.model, OTHER_SETUP_S) + len(recipe.seeds) * tokens / rate
    return seconds + (len(FIRST) + 1) * (AGAIN_S + tokens / SHARE / rate) if cell.sweeps else seconds


def cell_seconds(cell: Cell, plan: Plan, rates: Mapping[str, float] = H200_TOKENS_PER_S) -> float:
    """All seconds of a cell on an H200."""
    names = [*cell.geometry, *cell.mechanism]
    surveyed = min(cell.surveyed, len(cell.recipe.seeds))
    readings = sum(1 if name == LADDER else surveyed for name in names)  # the ladder is read once, for all seeds
    scores = SCORE_S * len(plan.world(cell.world).conditions)
    return training_seconds(cell, rates) + scores + SURVEY_S * readings


def measured_rates(cells: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Tokens per second of each architecture in finished cells; the table above for the others."""
    tokens: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for cell in cells:
        if cell.get("tokens") and cell.get("seconds", {}).get("train"):
            tokens[cell["model"]] = tokens.get(cell["model"], 0.0) + cell["tokens"]
            seconds[cell["model"]] = seconds.get(cell["model"], 0.0) + cell["seconds"]["train"]
    return H200_TOKENS_PER_S | {model: tokens[model] / seconds[model] for model in tokens}


def plan_seconds(plan: Plan, done: Iterable[str] = (), rates: Mapping[str, float] = H200_TOKENS_PER_S) -> float:
    """Seconds that the cells not yet done will take on an H200."""
    done = set(done)
    return sum(cell_seconds(cell, plan, rates) for cell in plan.cells if cell.name not in done)


def duration(seconds: float) -> str:
    """In the unit a reader thinks in.

    >>> duration(42), duration(600), duration(9000), duration(300000)
    ('42 s', '10 min', '2.5 h', '3.5 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86400:.1f} days"


def plan_bytes(plan: Plan, done: Iterable[str] = ()) -> int:
    """Disk that the cells not yet done will need: weights of every rung, and two states of the cell in progress."""
    done, total, largest = set(done), 0, 0
    for cell in plan.cells:
        if cell.name in done:
            continue
        size = 4 * int(cell.recipe.model_options.get("params", 7_200_000)) * len(cell.recipe.seeds)
        total += size * max(1, cell.recipe.ladder)
        largest = max(largest, 2 * 3 * size)
    return total + largest + 2**24


def require_disk(folder: Path, needed: int) -> None:
    """One line if the disk cannot hold it."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise InputError(
            f"{folder}: {free / 2**30:.1f} GiB free: must be at least {needed / 2**30:.1f} GiB for this study"
        )
