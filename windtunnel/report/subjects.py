"""Trained networks that the page can look into: runs of a study, other run folders, networks of the zoo.

A subject is one recipe's networks that differ by seed.  Weights are loaded when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from windtunnel.errors import InputError
from windtunnel.study import zoo
from windtunnel.training import Recipe, Run, load
from windtunnel.tunnels import Tunnel


@dataclass(frozen=True)
class Subject:
    """The networks of one recipe.

    name  the cell's, where a study made it; else the run folder's or the zoo's
    run   None for a network of the zoo, which has no history
    """

    name: str
    recipe: Recipe
    run: Run | None = None

    @property
    def tunnel(self) -> Tunnel:
        """The world it was trained in."""
        return self.recipe.tunnel

    @property
    def seeds(self) -> tuple[int, ...]:
        """One network each."""
        return tuple(self.recipe.seeds)

    @cached_property
    def networks(self) -> list[nn.Module]:
        """In evaluation mode, in the order of `seeds`."""
        return self.run.models if self.run is not None else [zoo.load(self.name)]

    def origin(self) -> dict[str, Any]:
        """What decides everything that can be read from the networks: kept to see whether an exhibit is stale."""
        steps = self.run.steps if self.run is not None else None
        source = "zoo" if self.run is None else "run"
        return json.loads(json.dumps({"recipe": self.recipe.to_dict(), "steps": steps, "source": source}))


def of_runs(folders: Iterable[Path], device: str = "cpu") -> dict[str, Subject]:
    """Every finished run at or below these folders."""
    found: dict[str, Subject] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: must be a folder that exists")
        for file in sorted(folder.rglob("recipe.json")):
            run = load(file.parent, device=device)
            if run.finished:
                name = file.parent.name
                found[name] = Subject(name, run.recipe, run)
    return found


def of_zoo() -> dict[str, Subject]:
    """Every shipped network."""
    return {name: Subject(name, Recipe.from_dict(zoo.card(name)["recipe"])) for name in zoo.names()}
