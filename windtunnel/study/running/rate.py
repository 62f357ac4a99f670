"""The learning rate of one cell: trials in a row, each kept, until the sweep has chosen (see `sweep`).

A short trial may like a rate at which the whole training breaks.  Where most of the final seeds diverge, the rate has
lost after all: it is kept as broken, with the seeds, and the cell is trained anew at the next best.  Fewer seeds that
diverge change nothing: they count as outcomes of the rate.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from windtunnel.fidelity import baselines, evaluate
from windtunnel.json_numbers import from_json, to_json
from windtunnel.study.plan import Cell, Plan
from windtunnel.study.running import sweep
from windtunnel.study.running.pause import OutOfTime, Waits
from windtunnel.study.running.unlisted import put_aside
from windtunnel.training import Recipe

if TYPE_CHECKING:
    from windtunnel.study.running.sitting import Sitting

GUESS_EPISODES = 512


class Rate:
    """The rate of a cell, its own or one it takes over from another cell's sweep."""

    def __init__(self, sitting: Sitting, cell: Cell) -> None:
        self.sitting, self.cell, self.plan, self.folder = sitting, cell, sitting.plan, sitting.folder

    @cached_property
    def guess(self) -> float:
        """KL in bits of a uniform guess in the tunnel that is trained in."""
        tunnel = self.cell.recipe.tunnel
        return evaluate(baselines(tunnel)["uniform"], tunnel, stream="validation", episodes=GUESS_EPISODES).kl_bits.mean

    def chosen(self) -> Recipe:
        """The recipe at the rate that the sweep chose; what is missing of the sweep is made first."""
        cell = self.cell
        if cell.sweep is None:
            return cell.recipe
        tried = self._tried()
        while (k := sweep.following(tried, self.guess)) is not None:
            if not cell.sweeps:
                raise Waits(f"{cell.name}: waits for {cell.sweep}, whose learning rate it takes")
            kl = self._trial(k)
            if kl is None:
                raise OutOfTime
            tried[k] = kl
        return sweep.at_rate(cell.recipe, sweep.choose(tried, self.guess))

    def breaks(self, lost: Sequence[int]) -> bool:
        """Have so many final seeds diverged at the chosen rate that another must be taken, and is there one?"""
        if not self.cell.sweeps or 2 * len(lost) <= len(self.cell.recipe.seeds):
            return False
        tried = self._tried()
        chosen = sweep.choose(tried, self.guess)
        return any(math.isfinite(kl) for k, kl in tried.items() if k != chosen)

    def give_up(self, lost: Sequence[int], seconds: float) -> None:
        """Keep the chosen rate as broken; `seconds`, those of the trainings that are lost with it, go to the sweep."""
        chosen, kept = sweep.choose(self._tried(), self.guess), self.folder.sweep(self.cell.name)
        broke = kept.get("broke", {}) | {str(chosen): sorted(lost)}
        spent = round(self.seconds + seconds, 2)
        self.folder.write_sweep(self.cell.name, kept | {"broke": broke, "seconds": spent})

    def record(self) -> dict[str, Any] | None:
        """What a cell keeps of it: whose sweep, exponent -> KL in bits, the exponent chosen, and those at which the
        finals broke -> seeds that did.  None without a sweep."""
        if self.cell.sweep is None:
            return None
        tried = self._tried()
        kept = self.folder.sweep(str(self.cell.sweep))
        told = {k: kept["kl_bits"][k] for k in sorted(kept["kl_bits"], key=int)}
        broke = {"broke": kept["broke"]} if "broke" in kept else {}
        return {"of": self.cell.sweep, "kl_bits": told, "chosen": sweep.choose(tried, self.guess), **broke}

    @property
    def seconds(self) -> float:
        """Of the trials, in all sittings: they stand with the sweep, which outlives the machine it was made on."""
        return self.folder.sweep(self.cell.name).get("seconds", 0.0) if self.cell.sweeps else 0.0

    def _trial(self, k: int) -> float | None:
        """KL in bits at one rate, kept; None if the time was over before its end."""
        cell, sitting = self.cell, self.sitting
        sitting.say(f"{cell.name}: learning rate × 3^{k}, {sweep.trial_steps(cell.recipe)} steps")
        place = self.folder.path / "sweeps" / f"{cell.name}-{k}"  # a kill costs no more than half a trial
        if lost := put_aside(place):
            sitting.say(lost)
        tick, waited = time.monotonic(), sitting.waited
        options = {"out": place, "max_minutes": sitting.minutes_to_train(), "turn": sitting.stepping}
        kl = sweep.try_rate(cell.recipe, k, sitting.device, **options)
        spent = self.seconds + time.monotonic() - tick - (sitting.waited - waited)
        kept = self.folder.sweep(cell.name) or {"planned": planned(self.plan, cell), "kl_bits": {}}
        told = kept["kl_bits"] | ({} if kl is None else {str(k): to_json(kl)})
        self.folder.write_sweep(cell.name, kept | {"kl_bits": told, "seconds": round(spent, 2)})
        sitting.keep_time()
        if kl is not None:
            shutil.rmtree(place, ignore_errors=True)
        return kl

    def _tried(self) -> dict[int, float]:
        """Exponent -> KL in bits, of the sweep that decides this cell's rate; infinite where the finals broke."""
        name = str(self.cell.sweep)
        kept = self.folder.sweep(name)
        if not kept:
            return {}
        owner = next((cell for cell in self.plan.cells if cell.name == name), self.cell)
        self.folder.require_same("sweeps", f"{name}.json", kept, planned(self.plan, owner))
        broke = kept.get("broke", {})
        return {int(k): math.inf if k in broke else from_json(kl) for k, kl in kept["kl_bits"].items()}


def planned(plan: Plan, cell: Cell) -> dict[str, Any]:
    """What decides a cell's trials: its recipe, but not the final seeds, which no trial uses."""
    recipe = plan.describe(cell)["recipe"]
    return {"recipe": {part: value for part, value in recipe.items() if part != "seeds"}}
