"""What came of a scorecard: every attempt of every architecture, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import World
from windtunnel.study.quantity import number, plain
from windtunnel.study.scorecard_plan import AGAIN, cell_name, wants_longer
from windtunnel.study.share import Share
from windtunnel.study.trials import trial_of


@dataclass(frozen=True)
class Attempt:
    """An architecture trained in one world, and what it realised of the primitive there.

    kl_bits  from the exact belief, at all readouts; the share may be of some of them alone
    """

    cell: str
    steps: int
    seeds: tuple[int, ...]
    parameters: int
    kl_bits: float
    share: Share

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Attempt:
        """From a finished cell."""
        found = record["conditions"]["home"].get("metrics", {}).get("kl_bits", {}).get("mean")
        kl, share = math.nan if found is None else number(found), Share.of_record(record["primitive"])
        seeds = tuple(record["seeds"])
        return cls(record["name"], record["recipe"]["steps"], seeds, record["parameters"], kl, share)

    @property
    def told(self) -> tuple[str, str]:
        """`partial 0.3021 [0.2812, 0.3224]` and `KL 0.721 bits after 600 steps`."""
        return self.share.brief, f"KL {self.kl_bits:.3g} bits after {self.steps:,} steps"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        told = {name: getattr(self, name) for name in ("cell", "steps", "parameters")}
        return told | {"seeds": list(self.seeds), "kl_bits": plain(self.kl_bits), "share": self.share.to_dict()}


@dataclass(frozen=True)
class Base:
    """B of a world, the best predictor without its primitive, and its KL where the primitive is needed."""

    primitive: str
    name: str
    kl_bits: float
    where: str | None

    @property
    def told(self) -> str:
        """`familiarity: 0, KL 1.21 bits at the readouts that need it`."""
        return f"{self.name}: 0, KL {self.kl_bits:.3g} bits" + " at the readouts that need it" * bool(self.where)


@dataclass(frozen=True)
class Scorecard:
    """What architectures realise of the primitives; printed, it is a few lines each.

    folder    where all of it is kept: cells, runs, and what `windtunnel report` shows
    models    in the order in which they were asked for;  worlds  one for each primitive
    attempts  (model, world) -> the first, and the second, longer one where there was one; none yet: it was stopped
    bases     world -> what a share of 0 stands for there
    longer    how many times as long a second chance is; 1: there is none
    """

    folder: StudyFolder
    models: tuple[str, ...]
    worlds: tuple[World, ...]
    attempts: Mapping[tuple[str, str], Sequence[Attempt]]
    bases: Mapping[str, Base]
    longer: int

    @classmethod
    def read(cls, folder: StudyFolder, models: Sequence[str], worlds: Sequence[World], longer: int) -> Scorecard:
        """What a folder holds of these, as far as it has come."""
        cells, attempts = folder.cells(), {}
        for model in models:
            for world in worlds:
                first = cell_name(world.name, model)
                chances = [first, first + AGAIN] if longer > 1 else [first]
                attempts[model, world.name] = [Attempt.of_record(cells[name]) for name in chances if name in cells]
        bases = {world.name: _base(world, cells.get(f"{world.name}-references", {})) for world in worlds}
        known = {name: base for name, base in bases.items() if base is not None}
        return cls(folder, tuple(models), tuple(worlds), attempts, known, longer)

    def primitive(self, world: World) -> str:
        """The one that a world tests."""
        asked = trial_of(world.tunnel)
        return asked.primitive if asked else world.name

    def last(self, model: str, world: World) -> Attempt | None:
        """The longest attempt that was made."""
        made = self.attempts[model, world.name]
        return made[-1] if made else None

    def awaits(self, model: str, world: World) -> bool:
        """Is there still something to train?"""
        made = self.attempts[model, world.name]
        return not made or (self.longer > 1 and len(made) == 1 and wants_longer(made[0].share))

    @property
    def finished(self) -> bool:
        """Was everybody given every chance?"""
        return not any(self.awaits(model, world) for model, world in self.attempted)

    @property
    def attempted(self) -> list[tuple[str, World]]:
        """All pairs."""
        return [(model, world) for model in self.models for world in self.worlds]

    @property
    def realised(self) -> dict[str, tuple[str, ...]]:
        """Architecture -> the primitives that it realised, by whichever attempt."""
        return {model: tuple(self._came_out(model, "realised")) for model in self.models}

    def _came_out(self, model: str, *states: str) -> list[str]:
        found = [(world, self.last(model, world)) for world in self.worlds]
        return [self.primitive(world) for world, one in found if one is not None and one.share.state in states]

    def told(self, model: str, world: World) -> list[str]:
        """What came of each attempt, two lines each; and whether another is still to come."""
        lines = [line for attempt in self.attempts[model, world.name] for line in attempt.told]
        if self.awaits(model, world):
            lines.append(f"{self.longer} times as long: still to come" if lines else "still to come")
        return lines

    def size(self, model: str) -> str:
        """Its parameters; it may have more in one world than in another."""
        sizes = sorted({attempt.parameters for world in self.worlds for attempt in self.attempts[model, world.name]})
        return " to ".join(f"{size:,}" for size in (sizes if len(sizes) < 3 else (sizes[0], sizes[-1])))

    def remarks(self) -> list[str]:
        """What the numbers do not say by themselves."""
        return [line for model in self.models if (line := self._remark(model))]

    def _remark(self, model: str) -> str:
        """Not realised is what came of a budget: no finite training shows that an architecture cannot."""
        lasts = {
            self.primitive(world): self.last(model, world) for world in self.worlds if not self.awaits(model, world)
        }
        ended = {primitive: last for primitive, last in lasts.items() if last and wants_longer(last.share)}
        if not ended:
            return ""
        which = " and ".join(f"{primitive} within {last.steps:,} steps" for primitive, last in ended.items())
        return f"{model} did not realise {which}: what it reached with this budget, not what the architecture cannot do"

    def __str__(self) -> str:
        lines = []
        for model in self.models:
            lines.append(f"{model}, {self.size(model)} parameters" if self.size(model) else model)
            lines += [f"  {self.primitive(world)}: {', '.join(self.told(model, world))}" for world in self.worlds]
        lines += [f"B, the best without {base.primitive}: {base.told}" for base in self.bases.values()]
        return "\n".join([*lines, *self.remarks()])

    def __repr__(self) -> str:
        return f"<Scorecard of {', '.join(self.models)} in {self.folder.path}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "study": str(self.folder.path),
            "finished": self.finished,
            "longer": self.longer,
            "models": {model: self._model(model) for model in self.models},
            "remarks": self.remarks(),
        }

    def _model(self, model: str) -> dict[str, Any]:
        told = {}
        for world in self.worlds:
            last, base = self.last(model, world), self.bases.get(world.name)
            told[self.primitive(world)] = {
                "world": world.name,
                "state": None if last is None else last.share.state,
                "attempts": [attempt.to_dict() for attempt in self.attempts[model, world.name]],
                "to_come": self.awaits(model, world),
                "base": None if base is None else {"name": base.name, "kl_bits": plain(base.kl_bits)},
            }
        return told


def _base(world: World, references: Mapping[str, Any]) -> Base | None:
    """Every row of a world's yardsticks names B."""
    rows, asked = list((references.get("rows") or {}).values()), trial_of(world.tunnel)
    if not rows or asked is None:
        return None
    return Base(asked.primitive, rows[0]["base"], number(rows[0]["base_bits"]), asked.where)
