"""Trained networks that the page can look into: runs of a study, other run folders, networks of the zoo.

A subject is one recipe's networks that differ by seed.  Weights are loaded when they are asked for.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from torch import nn

from windtunnel.environment import require_device
from windtunnel.errors import InputError
from windtunnel.mechanism import Survey
from windtunnel.mechanism.survey_file import NAME as SURVEY
from windtunnel.mechanism.survey_file import load_survey
from windtunnel.study import zoo
from windtunnel.training import Recipe, Run, load
from windtunnel.training.run_folders import run_folders
from windtunnel.tunnels import Tunnel


@dataclass(frozen=True)
class Subject:
    """The networks of one recipe.

    name     the cell's, where a study made it; else the run folder's or the zoo's
    run      None for a network of the zoo, which has no history
    weights  SHA-256 of the weights that are looked into, one for each seed; empty where nobody knows
    """

    name: str
    recipe: Recipe
    run: Run | None = None
    weights: Sequence[str] = ()

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

    def survey(self) -> Survey | None:
        """What `windtunnel inspect` found in these very networks; None where it was not asked.

        A survey that is damaged, or of other weights than the run has now, is told with the way out."""
        path = None if self.run is None else self.run.path
        if path is None or not (path / SURVEY).exists():
            return None
        anew = f"`{shlex.join(['windtunnel', 'inspect', str(path), '--replace'])}` measures again"
        try:
            found = load_survey(path)
        except InputError as error:
            raise InputError(f"{error}; {anew}") from None
        seen = found.settings.get("weights")
        if seen and self.weights and list(seen) != list(self.weights):
            raise InputError(f"{path / SURVEY}: must be of the run's present weights, and is of others; {anew}")
        return found

    def origin(self) -> dict[str, Any]:
        """What decides everything that can be read from the networks: kept to see whether an exhibit is stale."""
        steps = self.run.steps if self.run is not None else None
        source = "zoo" if self.run is None else "run"
        known = {"recipe": self.recipe.to_dict(), "steps": steps, "source": source}
        if self.weights:  # the same recipe, trained or exported again, may have others
            known["weights"] = list(self.weights)
        return json.loads(json.dumps(known))


def of_runs(folders: Iterable[Path], device: str = "cpu") -> tuple[dict[str, Subject], dict[str, InputError]]:
    """Every finished run at or below these folders, each once however often it is given; and those that cannot be
    read, being damaged or in want of a plugin: name -> why."""
    require_device(device)  # else no run could be loaded, and each be called damaged
    found: dict[Path, tuple[Path, Path, Run | InputError]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: must be a folder that exists")
        for place in run_folders(folder):
            run, whole = _opened(place, device), place.resolve()
            if run is not None and whole not in found:
                found[whole] = folder, place, run
    subjects, refused = dict[str, Subject](), dict[str, InputError]()
    for name, (*_, run) in zip(_names([(folder, place) for folder, place, _ in found.values()]), found.values()):
        if isinstance(run, InputError):
            refused[name] = run
        else:
            subjects[name] = Subject(name, run.recipe, run, run.checksums())
    return subjects, refused


def _opened(place: Path, device: str) -> Run | InputError | None:
    """A run, or why it cannot be read; None for one that is not finished."""
    try:
        run = load(place, device=device)
        run.checksums()  # a damaged list of checkpoints is told here
        return run if run.finished else None
    except InputError as error:
        return error


def _names(found: Sequence[tuple[Path, Path]]) -> list[str]:
    """What each run is called, from where it was looked for and where it lies: by its folder's name, as a rule.

    Where several have that name it is the whole way to it, `a-first` and `b-first`; and what is then still taken (the
    same way below two folders) has the name of the folder above put before it, or in the end a number behind it.  A
    name is also that of a file, so there is no slash in it.

    >>> top = Path("/top")
    >>> _names([(top, top / "a" / "first"), (top, top / "b" / "first"), (top, top / "second")])
    ['a-first', 'b-first', 'second']
    >>> _names([(top, top / "first"), (Path("/more"), Path("/more/first")), (Path("/b/first"), Path("/b/first"))])
    ['first', 'more-first', 'b-first']
    """
    often = Counter(place.name for _, place in found)
    taken = {name for name, times in often.items() if times == 1}
    names = []
    for folder, place in found:
        name = place.name
        if often[name] > 1:
            parts = place.relative_to(folder).parts or (name,)
            way, above = "-".join(parts), place.resolve().parents[len(parts) - 1].name
            tried = chain([way, f"{above}-{way}"], (f"{way}-{k}" for k in count(2)))
            name = next(one for one in tried if one not in taken)
            taken.add(name)
        names.append(name)
    return names


def of_zoo() -> dict[str, Subject]:
    """Every shipped network."""
    cards = {name: zoo.card(name) for name in zoo.names()}
    return {
        name: Subject(name, Recipe.from_dict(card["recipe"]), None, [card["sha256"]]) for name, card in cards.items()
    }
