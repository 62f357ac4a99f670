"""How long a study will take, told before it starts; and what it will need on disk.

Rates are tokens per second of training steps on one H200, several seeds sharing the card, and set-up seconds, from
`benchmarks/results/h200` where there is a file (`reach/`).  Those of linear attention, and other seconds below that
name no file, are guesses.  Cells that are done replace them: what this machine did, it will do again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from windtunnel.errors import InputError
from windtunnel.geometry.instruments import LADDER
from windtunnel.mechanism.survey import NAMES
from windtunnel.models.build import count_built_in
from windtunnel.models.registry import is_built_in
from windtunnel.study.plan import Cell, Plan
from windtunnel.study.running.surveying import job_names
from windtunnel.study.running.sweep import FIRST, trial_steps
from windtunnel.training import Recipe
from windtunnel.tunnels import HMM, Recall

H200_TOKENS_PER_S = {"transformer": 9.0e6, "mamba": 3.1e6, "lstm": 6.2e6, "mlp": 9.0e6, "linear-attention": 1.6e6}
LARGER = 1.9  # how much slower the paper's HMM shapes are, 7.1M parameters instead of 2.67M
LONGER = 2.1  # how much slower softmax attention is on recall's 416 positions
SETUP_S = {"transformer": 33.0, "mamba": 25.0, "lstm": 13.0, "mlp": 37.0}  # build, compile, capture
OTHER_SETUP_S = 35.0
AGAIN_S = 3.0  # the same once more, with what the compiler kept (`results/paper/sweeps`)
SCORE_S = 3.0  # one condition
INSTRUMENT_S = {"keys": 2.5, "alignment": 0.7, "values": 5.3, "beliefs": 14, "lens": 0.9, "clusters": 8, LADDER: 17}
INSTRUMENT_S |= {"ablate": 4.7, "heads": 7, "ranges": 0.7, "late": 0.4, "patch": 0.7, "dose": 0.3, "swap": 2}
INSTRUMENT_S |= {"roles": 3.4, "flip": 0.8, "exchange": 0.1, "shift": 0.1}
"""One instrument on one network, 128 episodes of bijection (`dynamics`: all seeds); `h200/instruments.json`, but for
clusters and dynamics, which are from the cells of the study."""
SURVEY_TOKENS = 128 * 39  # of those episodes
OF_ATTENTION = ("keys", "alignment", "heads")  # over at once in a network without attention
OWN_PARAMETERS = 7_200_000  # of a model of somebody's own, which is not built to ask: as the largest of the paper
CPU_SLOWER = 300.0  # two cores against the card, in round numbers


@dataclass(frozen=True)
class Known:
    """What cells that are done have taught.

    rates        (architecture, world) -> tokens per second of training, at the size that is compared
    instruments  (instrument, architecture, world) -> seconds on one network, the median
    """

    rates: Mapping[tuple[str, str], float] = field(default_factory=dict)
    instruments: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Iterable[Mapping[str, Any]]) -> Known:
        """From their records."""
        rates: dict[tuple[str, str], float] = {}
        took: dict[tuple[str, str, str], list[float]] = {}
        for cell in (one for one in cells if one.get("kind") == "networks"):
            who = cell["model"], cell["world"]
            if cell["tokens"] and cell["seconds"].get("train") and not _larger(cell["recipe"]["model_options"]):
                rates[who] = cell["tokens"] / cell["seconds"]["train"]
            jobs = job_names(dict.fromkeys(NAMES, len(cell["seeds"])), cell["seeds"])
            for name, spent in cell["surveyed"].items():
                if name in jobs:
                    took.setdefault((jobs[name][0], *who), []).append(spent)
        return cls(rates, {where: median(spent) for where, spent in took.items()})


GUESSED = Known()


def _larger(shape: Mapping[str, Any]) -> bool:
    return shape.get("preset") == "paper-hmm"


def training_seconds(cell: Cell, known: Known = GUESSED) -> float:
    """Seconds of training, set-up and sweep of a cell on an H200."""
    recipe = cell.recipe
    tokens = cell.sequences * recipe.tunnel.positions
    rate = H200_TOKENS_PER_S.get(recipe.model, min(H200_TOKENS_PER_S.values()))
    rate /= LONGER if recipe.model == "transformer" and isinstance(recipe.tunnel, Recall) else 1.0
    rate = known.rates.get((recipe.model, cell.world), rate) / (LARGER if _larger(recipe.model_options) else 1.0)
    seconds = SETUP_S.get(recipe.model, OTHER_SETUP_S) + len(recipe.seeds) * tokens / rate
    trial = tokens * trial_steps(recipe) / recipe.steps
    return seconds + (len(FIRST) + 1) * (AGAIN_S + trial / rate) if cell.sweeps else seconds


def instrument_seconds(name: str, cell: Cell, plan: Plan, known: Known = GUESSED) -> float:
    """Seconds of one instrument on one network of a cell."""
    model, tunnel = cell.recipe.model, plan.world(cell.world).tunnel
    measured = known.instruments.get((name, model, cell.world))
    if measured is not None:
        return measured
    attends = model in ("transformer", "linear-attention")
    if (name in OF_ATTENTION and not attends) or (name == "clusters" and not isinstance(tunnel, HMM)):
        return 0.0
    return INSTRUMENT_S.get(name, 5) * max(1.0, plan.episodes_of(cell) * tunnel.positions / SURVEY_TOKENS)


def _survey_seconds(instruments: Mapping[str, int], cell: Cell, plan: Plan, known: Known) -> float:
    networks = len(cell.recipe.seeds)
    count = {name: 1 if name == LADDER else min(seeds, networks) for name, seeds in instruments.items()}
    return sum(times * instrument_seconds(name, cell, plan, known) for name, times in count.items())


def cell_seconds(cell: Cell, plan: Plan, known: Known = GUESSED) -> float:
    """Seconds of a cell on an H200 until it is finished: training, scores, and the instruments that claims read."""
    scores = SCORE_S * len(plan.world(cell.world).conditions)
    return training_seconds(cell, known) + scores + _survey_seconds(cell.instruments, cell, plan, known)


def beside_seconds(cell: Cell, plan: Plan, known: Known = GUESSED) -> float:
    """Seconds of the rest of its survey."""
    return _survey_seconds(cell.beside, cell, plan, known)


def plan_seconds(plan: Plan, known: Known = GUESSED, *, beside: bool = False) -> float:
    """Seconds of all cells and baselines on an H200; with the rest of the surveys, if asked for."""
    baselines = sum(SCORE_S * len(world.conditions) for world in plan.worlds)
    cells = sum(cell_seconds(cell, plan, known) for cell in plan.cells)
    return baselines + cells + (sum(beside_seconds(cell, plan, known) for cell in plan.cells) if beside else 0.0)


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


def disk_bytes(cells: Sequence[Cell]) -> int:
    """Disk that these cells will need: weights of every rung, and two states of the cell in progress."""
    total, largest = 0, 0
    for cell in cells:
        size = 4 * _parameters(cell.recipe) * len(cell.recipe.seeds)
        total += size * max(1, cell.recipe.ladder)
        largest = max(largest, 2 * 3 * size)
    return total + largest + 2**24


def _parameters(recipe: Recipe) -> int:
    """As asked for; else counted, or for a model of somebody's own guessed."""
    options = recipe.model_options
    if "params" in options:
        return int(options["params"])
    return count_built_in(recipe.model, recipe.tunnel, **options) if is_built_in(recipe.model) else OWN_PARAMETERS


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
