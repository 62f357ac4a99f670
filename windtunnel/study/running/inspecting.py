"""The instruments of one cell, reading by reading, each kept at once.

A cell is finished with what claims read.  The rest of its survey is added to the finished cell as long as there is time
and its networks are here; on a machine without them a finished cell is left as it is.  An instrument that breaks down
(no memory, say) does not hold up the cell: it is noted as failed, and tried again by later sittings until it speaks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from windtunnel.study.plan import Cell
from windtunnel.study.running import surveying
from windtunnel.study.running.duration import instrument_seconds
from windtunnel.training import Run, load
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import Unlisted

if TYPE_CHECKING:
    from windtunnel.study.running.sitting import Sitting


class Inspecting:
    """The instruments of one cell."""

    def __init__(self, sitting: Sitting, cell: Cell) -> None:
        self.sitting, self.cell, self.plan, self.folder = sitting, cell, sitting.plan, sitting.folder

    @property
    def here(self) -> bool:
        """Are the cell's networks on this machine, trained or on the way?"""
        return RunFolder(self.folder.run(self.cell.name)).exists()

    def read(self, run: Run, draft: dict[str, Any]) -> None:
        """What claims read, into the draft of the cell."""
        for name, job in self._jobs(self.cell.instruments, run).items():
            if name not in draft["surveyed"]:
                draft["survey"][name] = self._apply(name, job, draft)
                self.folder.write_draft(self.cell.name, draft)

    def complete(self, again: bool) -> None:
        """The rest of the survey of the finished cell, and (again) what broke down when it was made."""
        record, left = self.folder.cell(self.cell.name), self.left(again)
        if left and not self.here:
            self.sitting.say(f"{self.cell.name}: {len(left)} readings are left, but its networks are not here")
        elif left:
            try:
                run = load(self.folder.run(self.cell.name), device=self.sitting.device)
            except Unlisted as error:  # the cell is of these very networks, and stays as it is
                self.sitting.say(f"{self.cell.name}: {len(left)} readings are left, but {error}")
                return
            found = self._jobs(self._wanted, run)
            for name in left:
                record["survey"] += self._apply(name, found[name], record)
                record["seconds"] = self.sitting.seconds(record["seconds"], {"survey": record["surveyed"][name]})
                self.folder.write_cell(self.cell.name, record)
            told = f"{len(record['survey'])} readings, survey {record['seconds']['survey']:.0f} s"
            self.sitting.say(f"{self.cell.name}: {told}")

    def left(self, again: bool) -> list[str]:
        """Readings that the finished cell does not have yet, and (again) those that broke down."""
        record = self.folder.cell(self.cell.name)
        seeds = [seed for seed in record["seeds"] if seed not in record["diverged"]]
        names = surveying.job_names(self._wanted, seeds)
        return [name for name in names if name not in record["surveyed"] or (again and name in record["failed"])]

    @property
    def _wanted(self) -> dict[str, int]:
        """Instruments of the whole survey that this sitting makes, and on how many seeds."""
        return dict(self.cell.instruments) | ({} if self.sitting.scope.claims_only else dict(self.cell.beside))

    def _jobs(self, instruments: Mapping[str, int], run: Run) -> dict[str, surveying.Job]:
        episodes = self.plan.episodes_of(self.cell)
        tunnel = self.plan.world(self.cell.world).tunnel
        return surveying.jobs(instruments, run, tunnel, episodes, self.plan.untrained)

    def _apply(self, name: str, job: surveying.Job, record: dict[str, Any]) -> list[dict[str, Any]]:
        """The readings, none where any of them broke down; seconds and accidents go into the record."""
        sitting, on_gpu = self.sitting, self.sitting.device != "cpu"
        needed = instrument_seconds(job.instrument, self.cell, self.plan, sitting.known)
        sitting.check_time(needed if on_gpu else 0.0)
        sitting.say(f"{self.cell.name}: {name}")
        tick = time.monotonic()
        readings = job.read()
        record["surveyed"][name] = round(time.monotonic() - tick, 2)
        record["failed"].pop(name, None)
        if broken := surveying.failures(readings):
            record["failed"][name] = broken[0]
            readings = []  # a part of it on this seed would be held against the whole of it on others
        sitting.keep_time()
        if on_gpu:
            torch.cuda.empty_cache()
        return readings
