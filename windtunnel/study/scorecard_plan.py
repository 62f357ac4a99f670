"""What a scorecard trains: each architecture in one small world per primitive, and once more where that was too short.

Worlds and recipe are those of the quick study, in which networks of this size learn what they can within minutes; an
architecture of your own has the same budget.  Nothing runs here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from windtunnel.errors import InputError, require, require_choice
from windtunnel.models.registry import names
from windtunnel.study import quick_plan
from windtunnel.study.plan import Cell, Plan, World, references_name
from windtunnel.study.share import Share
from windtunnel.study.trials import trial_of
from windtunnel.study.worlds import WORLDS as PAPER
from windtunnel.training.start import apply_options

PRESET = "scorecard"
STEPS, LONGER = 600, 4
AGAIN = "-longer"
"""At the end of a cell's name: the second chance of the one that is called so without it."""
WORLDS = tuple(World(world.name, world.tunnel) for world in quick_plan.WORLDS)
"""Accumulation, transport, binding; at home alone."""
EPISODES = 2048


def plan(models: Sequence[str], worlds: Sequence[World], steps: int, seeds: int | Sequence[int], end: str = "") -> Plan:
    """Every model in every world, the first model first; `end` is that of the cells' names."""
    cells = [_cell(world, model, steps, seeds, end) for model in models for world in worlds]
    return Plan(PRESET, tuple(worlds), tuple(cells), episodes=EPISODES, gpu=False)


def _cell(world: World, model: str, steps: int, seeds: int | Sequence[int], end: str) -> Cell:
    name = cell_name(world.name, model) + end
    return Cell(
        name, world.name, apply_options(quick_plan.small(world.tunnel, model), seeds, {"steps": steps, "name": name})
    )


def cell_name(world: str, model: str) -> str:
    """That of a model's first chance."""
    return f"{world}-{model}"


def wants_longer(share: Share) -> bool:
    """Might more training change it?  Not where the primitive is realised, nor where it is worth nothing (void)."""
    return share.state not in ("realised", "void")


def require_models(models: object) -> list[str]:
    """The architectures by name, one name by itself too; raise unless all are known and differ."""
    listed = [models] if isinstance(models, str) else _several(models)
    own = "wt.models.register(name, factory) gives one to an architecture of your own"
    named = len(listed) > 0 and all(isinstance(name, str) for name in listed)
    require(named, "models", models, f"one or more names, such as 'transformer' ({own})")
    for name in listed:
        require_choice("model", name, names())
    twice = [name for name, count in Counter(listed).items() if count > 1]
    require(not twice, "models", ", ".join(twice), "given once each")
    return listed


def require_worlds(worlds: object) -> tuple[World, ...]:
    """Raise unless each of them tests another primitive."""
    listed, paper = _several(worlds), [world.name for world in PAPER]
    ok = len(listed) > 0 and all(isinstance(world, World) for world in listed)
    require(ok, "worlds", worlds, "one or more windtunnel.study.plan.World")
    tested = []
    for world in listed:
        primitive = getattr(trial_of(world.tunnel), "primitive", None)
        fits = primitive is not None and primitive not in tested
        require(fits, f"world {world.name}", world.tunnel, "a tunnel that tests a primitive which no other world tests")
        allowed = f"another name than those of the full-size study ({', '.join(paper)}), whose claims read its cells"
        require(world.name not in paper, "world", world.name, allowed)
        tested.append(primitive)
    return tuple(listed)


def _several(given: object) -> list[Any]:
    return list(given) if isinstance(given, Sequence) else []


def require_apart(models: Sequence[str], worlds: Sequence[World]) -> None:
    """Raise where two things would be kept under one name, such as a model called references."""
    kept = [references_name(world.name) for world in worlds]
    for model in models:
        kept += [cell_name(world.name, model) + end for world in worlds for end in ("", AGAIN)]
    for name, count in Counter(kept).items():
        if count > 1:
            raise InputError(f"models = {', '.join(models)}: must have other names, {name} would be two things")
