"""The whole survey of a run: every instrument of both rooms on every seed, and dynamics over its checkpoints.

    found = inspect(run, only=["keys", "ablate"])
    save_survey(found, run.path);  load_survey(run.path)

`Survey.entries` keeps, beside each measurement, which instrument and which seed it belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from windtunnel.environment import environment
from windtunnel.errors import InputError, require_int
from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.ladder_survey import dynamics
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.survey import INSTRUMENTS as GEOMETRY
from windtunnel.geometry.survey import LADDER, guarded
from windtunnel.mechanism.survey import INSTRUMENTS as MECHANISM
from windtunnel.training import Run
from windtunnel.tunnels.random import check_seed

INSTRUMENTS: dict[str, Callable] = {**GEOMETRY, **MECHANISM}
NAMES = (*INSTRUMENTS, LADDER)
EPISODES, UNTRAINED = 128, 5


@dataclass(frozen=True)
class Entry:
    """One line of a survey: which instrument, which seed (None: all of the run), and what it found."""

    instrument: str
    seed: int | None
    found: Measurement | Missing


@dataclass(frozen=True)
class Survey:
    """What a survey found, and how it was made.

    settings     episodes, seed, stream, untrained, instruments; recipe, folder name and step of the run
    seconds      {"instrument, seed 0": s, …}
    environment  versions, device, commit
    """

    settings: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, str]:
        """What could not be measured, each said once: name -> why."""
        return {e.found.name: e.found.reason for e in self.entries if isinstance(e.found, Missing)}

    def measurements(self, instrument: str | None = None) -> Iterator[tuple[Entry, Measurement]]:
        """Those of one instrument, or all."""
        for entry in self.entries:
            if isinstance(entry.found, Measurement) and instrument in (None, entry.instrument):
                yield entry, entry.found


def selected(only: Iterable[str] | None) -> tuple[list[str], list[Missing]]:
    """The instruments asked for, in the order they run, and a line for each name that is none."""
    if only is None:
        return list(NAMES), []
    asked = [only] if isinstance(only, str) else list(only)
    wanted = [name for name in NAMES if name in asked]
    allowed = f"no such instrument: must be one of {', '.join(NAMES)}"
    if not wanted:
        raise InputError(f"only = {','.join(asked)!r}: must name at least one of {', '.join(NAMES)}")
    return wanted, [Missing(name, allowed) for name in asked if name not in NAMES]


def inspect(
    run: Run,
    *,
    only: Iterable[str] | None = None,
    episodes: int = EPISODES,
    seed: int = 0,
    untrained: int = UNTRAINED,
    progress: Callable[[str, int, int], None] | None = None,
) -> Survey:
    """Survey every network of a run, where the run was loaded to.

    only       names from NAMES; all if None.  An unknown one is told as missing, unless nothing else is left
    episodes   how many to draw from the test stream of `seed`
    untrained  how many untrained twins serve as a null
    progress   told before each instrument starts: its name, how many are done, how many there are
    """
    wanted, strangers = selected(only)
    require_int("episodes", episodes, 2)
    require_int("untrained", untrained, 0)
    check_seed(seed, "seed")
    networks = dict(zip(run.recipe.seeds, run.models))  # a run without weights is refused here
    world = run.tunnel.sample(episodes, seed=seed, stream="test")
    settings = {"episodes": episodes, "seed": seed, "stream": "test", "untrained": untrained, "instruments": wanted}
    survey = Survey(
        settings | {"recipe": run.recipe.to_dict(), "run": run.path.name if run.path else None, "step": run.steps},
        [Entry(missing.name, None, missing) for missing in strangers],
        environment=environment(run.device),
    )
    plan = [(of_seed, name) for of_seed in networks for name in wanted if name != LADDER]
    total = len(plan) + (LADDER in wanted)

    def measure(name: str, of_seed: int | None, instrument: Callable, *arguments: Any) -> None:
        title = name if of_seed is None else f"{name}, seed {of_seed}"
        if progress is not None:
            progress(title, len(survey.seconds), total)
        start = time.perf_counter()
        survey.entries.extend(Entry(name, of_seed, one) for one in guarded(name, instrument, *arguments))
        survey.seconds[title] = time.perf_counter() - start

    twins: dict[int, list] = {}
    for of_seed, name in plan:
        if of_seed not in twins:
            twins = {of_seed: untrained_twins(networks[of_seed], untrained)}
            if run.device.startswith("cuda"):
                torch.cuda.empty_cache()
        measure(name, of_seed, INSTRUMENTS[name], networks[of_seed], run.tunnel, world, twins[of_seed])
    if LADDER in wanted:
        measure(LADDER, None, dynamics, run, world)
    return survey
