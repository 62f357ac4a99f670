"""The learning rate of one cell: trials in a row, each kept, until the sweep has chosen (see `sweep`)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windtunnel.study import sweep
from windtunnel.study.pause import OutOfTime, Waits
from windtunnel.study.plan import Cell
from windtunnel.study.quantity import number, plain
from windtunnel.training import Recipe

if TYPE_CHECKING:
    from windtunnel.study.sitting import Sitting


class Rate:
    """The rate of a cell, its own or one it takes over from another cell's sweep."""

    def __init__(self, sitting: Sitting, cell: Cell) -> None:
        self.sitting, self.cell, self.plan, self.folder = sitting, cell, sitting.plan, sitting.folder

    def chosen(self) -> Recipe:
        """The recipe at the rate that the sweep chose; what is missing of the sweep is made first."""
        cell = self.cell
        if cell.sweep is None:
            return cell.recipe
        tried = self._tried()
        while (k := sweep.following(tried)) is not None:
            if not cell.sweeps:
                raise Waits(f"{cell.name}: waits for {cell.sweep}, whose learning rate it takes")
            kl = self._trial(k, tried)
            if kl is None:
                raise OutOfTime
            tried[k] = kl
        return sweep.at_rate(cell.recipe, sweep.choose(tried))

    def record(self) -> dict[str, Any] | None:
        """What a cell keeps of it: whose sweep, exponent -> KL in bits, the exponent chosen.  None without a sweep."""
        if self.cell.sweep is None:
            return None
        tried = self._tried()
        told = {str(k): plain(kl) for k, kl in sorted(tried.items())}
        return {"of": self.cell.sweep, "kl_bits": told, "chosen": sweep.choose(tried)}

    @property
    def seconds(self) -> float:
        """Of the trials, in all sittings: they stand with the sweep, which outlives the machine it was made on."""
        return self.folder.sweep(self.cell.name).get("seconds", 0.0) if self.cell.sweeps else 0.0

    def _trial(self, k: int, tried: Mapping[int, float]) -> float | None:
        """KL in bits at one rate, kept; None if the time was over before its end."""
        cell, sitting = self.cell, self.sitting
        sitting.say(f"{cell.name}: learning rate × 3^{k}, {sweep.trial_steps(cell.recipe)} steps")
        place = self.folder.path / "sweeps" / f"{cell.name}-{k}"  # a kill costs no more than half a trial
        tick, waited = time.monotonic(), sitting.waited
        options = {"out": place, "max_minutes": sitting.minutes_to_train(), "turn": sitting.stepping}
        kl = sweep.try_rate(cell.recipe, k, sitting.device, **options)
        spent = self.seconds + time.monotonic() - tick - (sitting.waited - waited)
        told = {str(rate): plain(value) for rate, value in ({**tried} | ({} if kl is None else {k: kl})).items()}
        record = {"planned": self._planned(cell), "kl_bits": told, "seconds": round(spent, 2)}
        self.folder.write_sweep(cell.name, record)
        sitting.keep_time()
        if kl is not None:
            shutil.rmtree(place, ignore_errors=True)
        return kl

    def _tried(self) -> dict[int, float]:
        """Exponent -> KL in bits, of the sweep that decides this cell's rate."""
        name = str(self.cell.sweep)
        kept = self.folder.sweep(name)
        if not kept:
            return {}
        owner = next((cell for cell in self.plan.cells if cell.name == name), self.cell)
        self.folder.require_same("sweeps", f"{name}.json", kept, self._planned(owner))
        return {int(k): number(kl) for k, kl in kept["kl_bits"].items()}

    def _planned(self, cell: Cell) -> dict[str, Any]:
        return {"recipe": self.plan.describe(cell)["recipe"]}
