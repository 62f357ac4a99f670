"""The result of a scorecard: every attempt of every architecture, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.json_numbers import from_json, to_json
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import World, references_name
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
        kl, share = math.nan if found is None else from_json(found), Share.of_record(record["primitive"])
        seeds = tuple(record["seeds"])
        return cls(record["name"], record["recipe"]["steps"], seeds, record["parameters"], kl, share)

    @property
    def lines(self) -> tuple[str, str]:
        """`partial 0.3021 [0.2812, 0.3224]` and `KL 0.721 bits after 600 steps`, the KL that the share is made of."""
        return self.share.brief, f"KL {self.share.kl_bits:.3g} bits after {self.steps:,} steps"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        told = {name: getattr(self, name) for name in ("cell", "steps", "parameters")}
        return told | {"seeds": list(self.seeds), "kl_bits": to_json(self.kl_bits), "share": self.share.to_dict()}


@dataclass(frozen=True)
class Base:
    """B, the best predictor without a primitive, and its KL where that is needed."""

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

    folder    where everything is kept: cells, runs, and what `windtunnel report` shows
    models    in the order given
    worlds    primitive -> the world that tests it
    attempts  (model, primitive) -> the first attempt, and the longer second one if there was one; empty: still to come
    bases     primitive -> what a share of 0 stands for
    longer    how many times as long a second chance is; 1: there is none
    """

    folder: StudyFolder
    models: tuple[str, ...]
    worlds: Mapping[str, str]
    attempts: Mapping[tuple[str, str], Sequence[Attempt]]
    bases: Mapping[str, Base]
    longer: int

    @classmethod
    def read(cls, folder: StudyFolder, models: Sequence[str], worlds: Sequence[World], longer: int) -> Scorecard:
        """What a folder holds of these, as far as it has come."""
        cells, attempts, tested, bases = folder.cells(), {}, {}, {}
        for world, asked in ((world, trial_of(world.tunnel)) for world in worlds):
            if asked is None:  # `scorecard` refuses such a world
                continue
            tested[asked.primitive] = world.name
            for model in models:
                first = cell_name(world.name, model)
                chances = [first, first + AGAIN] if longer > 1 else [first]
                made = [Attempt.of_record(cells[name]) for name in chances if name in cells]
                attempts[model, asked.primitive] = made
            rows = list(cells.get(references_name(world.name), {}).get("rows", {}).values())
            if rows:  # each of them names B
                bases[asked.primitive] = Base(rows[0]["base"], from_json(rows[0]["base_bits"]), asked.where)
        return cls(folder, tuple(models), tested, attempts, bases, longer)

    def last(self, model: str, primitive: str) -> Attempt | None:
        """The longest attempt that was made."""
        made = self.attempts[model, primitive]
        return made[-1] if made else None

    def awaits(self, model: str, primitive: str) -> bool:
        """Is there still something to train?"""
        made = self.attempts[model, primitive]
        return not made or (self.longer > 1 and len(made) == 1 and wants_longer(made[0].share))

    @property
    def finished(self) -> bool:
        """Is nothing left to train?"""
        return not any(self.awaits(*pair) for pair in self.attempts)

    @property
    def realised(self) -> dict[str, tuple[str, ...]]:
        """Architecture -> the primitives that it realised, by whichever attempt."""
        return {
            model: tuple(p for p in self.worlds if (last := self.last(model, p)) and last.share.state == "realised")
            for model in self.models
        }

    def told(self, model: str, primitive: str) -> list[str]:
        """What came of each attempt, two lines each; and whether another is still to come."""
        lines = [line for attempt in self.attempts[model, primitive] for line in attempt.lines]
        if self.awaits(model, primitive):
            lines.append(f"{self.longer} times as long: still to come" if lines else "still to come")
        return lines

    def size(self, model: str) -> str:
        """Its parameters; it may have more in one world than in another."""
        sizes = {attempt.parameters for (who, _), made in self.attempts.items() if who == model for attempt in made}
        ends = dict.fromkeys((min(sizes), max(sizes))) if sizes else ()
        return " to ".join(f"{size:,}" for size in ends)

    def remarks(self) -> list[str]:
        """What the numbers do not say by themselves."""
        return [line for model in self.models if (line := self._remark(model))]

    def _remark(self, model: str) -> str:
        """Not realised is what came of a budget: no training, however long, shows that an architecture cannot."""
        lasts = {p: last for p in self.worlds if not self.awaits(model, p) and (last := self.last(model, p))}
        short = {primitive: last for primitive, last in lasts.items() if wants_longer(last.share)}
        if not short:
            return ""
        *others, one = (f"{primitive} ({last.share.state})" for primitive, last in short.items())
        named = f"{', '.join(others)} and {one}" if others else one
        steps = max(last.steps for last in short.values())  # the same of all: they had every chance
        reached = "what it reached with this budget, not what the architecture cannot do"
        return f"{model} did not realise {named} within {steps:,} steps: {reached}"

    def __str__(self) -> str:
        lines = []
        for model in self.models:
            lines.append(f"{model}, {self.size(model)} parameters" if self.size(model) else model)
            lines += [f"  {primitive}: {', '.join(self.told(model, primitive))}" for primitive in self.worlds]
        lines += [f"B, the best without {primitive}: {base.told}" for primitive, base in self.bases.items()]
        return "\n".join([*lines, *self.remarks()])

    def __repr__(self) -> str:
        return f"<Scorecard of {', '.join(self.models)} in {self.folder.path}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "study": str(self.folder.path),
            "finished": self.finished,
            "longer": self.longer,
            "worlds": dict(self.worlds),
            "models": {model: {p: self._plain(model, p) for p in self.worlds} for model in self.models},
            "bases": {p: {"name": base.name, "kl_bits": to_json(base.kl_bits)} for p, base in self.bases.items()},
            "remarks": self.remarks(),
        }

    def _plain(self, model: str, primitive: str) -> dict[str, Any]:
        last = self.last(model, primitive)
        return {
            "state": None if last is None else last.share.state,
            "attempts": [attempt.to_dict() for attempt in self.attempts[model, primitive]],
            "to_come": self.awaits(model, primitive),
        }
