"""Seconds of training, told at every checkpoint: a kill loses no more of them than it loses of the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Stopwatch:
    """Times one group of seeds.  Created when set-up begins; `ready` when it ends; `tell` writes what came since.

    A record has: seeds; from, to (steps); setup_s (building, compiling, capturing); train_s (all that came after,
    validation and saving included); step_s (the steps alone); sequences_per_s over the steps alone.
    """

    def __init__(
        self, sink: Callable[[dict[str, Any]], None], seeds: tuple[int, ...], sequences: Callable[[int], int]
    ) -> None:
        """sequences(step): how many each seed has seen before that step."""
        self.sink, self.seeds, self.sequences = sink, seeds, sequences
        self.begin = time.perf_counter()
        self.setup_s = self.step_s = self.all_step_s = self.last_s = 0.0
        self.first = self.told = 0

    def ready(self, step: int) -> None:
        """Set-up is over; steps begin at `step`."""
        now = time.perf_counter()
        self.setup_s, self.begin = now - self.begin, now
        self.first = self.told = step

    def resume(self) -> None:
        """What passed since the last record, or since `ready`, was a wait and does not count."""
        self.begin = time.perf_counter()

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Around the steps themselves; `last_s` is then how long these took."""
        tick = time.perf_counter()
        yield
        self.last_s = spent = max(1e-9, time.perf_counter() - tick)
        self.step_s += spent
        self.all_step_s += spent

    def sequences_per_s(self, step: int) -> float:
        """Over the steps of this sitting, all seeds counted."""
        return self._rate(self.first, step, self.all_step_s)

    def tell(self, step: int) -> None:
        """Write the record of what came since the last one, if steps did."""
        if step == self.told:
            return
        now = time.perf_counter()
        record = {"seeds": list(self.seeds), "from": self.told, "to": step, "setup_s": self.setup_s}
        record |= {"train_s": now - self.begin, "step_s": self.step_s}
        self.sink(record | {"sequences_per_s": self._rate(self.told, step, self.step_s)})
        self.begin, self.told, self.setup_s, self.step_s = now, step, 0.0, 0.0

    def _rate(self, first: int, last: int, seconds: float) -> float:
        seen = self.sequences(last) - self.sequences(first)
        return len(self.seeds) * seen / seconds if seconds else 0.0
