"""What a study runs: worlds, cells, and the conditions under which each network is scored.

A *world* is a tunnel with its conditions; a *cell* is a recipe in a world, with the instruments to apply.  A plan is
data: nothing runs here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from windtunnel.errors import require_choice
from windtunnel.training import Recipe
from windtunnel.tunnels import Tunnel, to_dict


@dataclass(frozen=True)
class Condition:
    """A way to score a network.

    changes  fields of the tunnel that differ from home, e.g. {"length": 50}
    beyond   only the readouts from this one on: those past the trained length
    where    a named subset of the readouts, e.g. "seen"
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    beyond: int | None = None
    where: str | None = None

    def tunnel(self, home: Tunnel) -> Tunnel:
        """The tunnel to score on."""
        return replace(home, **self.changes)  # type: ignore[type-var]

    @property
    def positions(self) -> slice | None:
        return None if self.beyond is None else slice(self.beyond, None)


HOME = Condition("home")


@dataclass(frozen=True)
class World:
    """A tunnel and the conditions under which its networks are scored, home first."""

    name: str
    tunnel: Tunnel
    conditions: tuple[Condition, ...] = (HOME,)


def references_name(world: str) -> str:
    """What the baselines of a world are kept as, beside its cells."""
    return f"{world}-references"


@dataclass(frozen=True)
class Cell:
    """A recipe in a world.

    recipe           with its final seeds
    instruments      name -> how many of the seeds it is applied to: what claims read; the cell is finished with these
    beside           the rest of its survey, in the same form: added to the finished cell as time allows, while its
                     networks are here
    survey_episodes  that the instruments look at; None: the plan's
    sweep            the cell whose learning-rate sweep decides the rate: its own name, or another's; None: as in the
                     recipe
    overlap          count how many test worlds were also trained on
    """

    name: str
    world: str
    recipe: Recipe
    instruments: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, int] = field(default_factory=dict)
    survey_episodes: int | None = None
    sweep: str | None = None
    overlap: bool = False

    @property
    def sweeps(self) -> bool:
        """Does it try learning rates of its own?"""
        return self.sweep == self.name

    @property
    def sequences(self) -> int:
        """Sequences each seed is trained on."""
        return self.recipe.sequences()


@dataclass(frozen=True)
class Plan:
    """A whole study.

    episodes         test episodes of a score at home; other conditions get a quarter
    survey_episodes  episodes of an instrument;  untrained: twins that serve as its null
    gpu              is it meant for a GPU?
    minutes          length of a sitting, unless another is asked for; None: no limit
    """

    preset: str
    worlds: tuple[World, ...]
    cells: tuple[Cell, ...]
    episodes: int = 20_000
    survey_episodes: int = 128
    untrained: int = 5
    gpu: bool = True
    minutes: float | None = None

    def world(self, name: str) -> World:
        """The world of that name."""
        require_choice("world", name, [world.name for world in self.worlds])
        return next(world for world in self.worlds if world.name == name)

    def episodes_of(self, cell: Cell) -> int:
        """Episodes that the instruments look at."""
        return cell.survey_episodes or self.survey_episodes

    def describe(self, cell: Cell) -> dict[str, Any]:
        """What decides the result of a cell, as JSON would give it back; what is kept must agree with it.

        What is surveyed beside is left out: it adds readings and changes none.
        """
        told = {
            "recipe": cell.recipe.to_dict(),
            **self.describe_world(self.world(cell.world)),
            "instruments": dict(cell.instruments),
            "survey": {"episodes": self.episodes_of(cell), "untrained": self.untrained},
            "sweep": cell.sweep,
            "overlap": cell.overlap,
        }
        return json.loads(json.dumps(told))

    def describe_world(self, world: World) -> dict[str, Any]:
        """What decides the result of a world's baselines."""
        conditions = [asdict(condition) for condition in world.conditions]
        told = {"world": to_dict(world.tunnel), "conditions": conditions, "episodes": self.episodes}
        return json.loads(json.dumps(told))
