"""Training as it happens, on the error stream: bars while a terminal is watching, else one line per validation.

Both are trackers (`windtunnel.training.Tracker`): training tells them what it tells TensorBoard.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.cli import show
from windtunnel.training import Recipe, StepTracker, Tracker
from windtunnel.training.trackers import Lines

if TYPE_CHECKING:
    from rich.console import Console


def say(line: str) -> None:
    """One line for the user, apart from the results on standard output."""
    print(f"windtunnel: {line}", file=sys.stderr, flush=True)


def watch(heading: str) -> Tracker:
    """Bars or lines, whichever fits who is reading; `heading` comes first."""
    return Bars(heading) if sys.stderr.isatty() else HeadedLines(heading)


@contextmanager
def interruptible(out: Path, again: str = "the same command again") -> Iterator[None]:
    """Ctrl-C in the middle of a study says what is kept; where training was stopped it has said so itself."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop):
            raise
        kept = f"interrupted; what is finished is kept in {out}; run {again} to resume"
        raise KeyboardInterrupt(kept) from None


class HeadedLines(Lines):
    """One line per validation, below a heading."""

    def __init__(self, heading: str) -> None:
        super().__init__()
        self.heading = heading

    def start(self, recipe: Recipe, folder: str | None) -> None:
        say(self.heading)
        super().start(recipe, folder)


_OFTEN_S = 0.1
"""How often a bar moves; a small network takes a step in less time than it takes to draw one."""


class Bars:
    """A bar per seed: step, KL of the last validation, sequences/s, time gone and time left."""

    def __init__(self, heading: str, console: Console | None = None) -> None:
        self.heading, self.console = heading, console

    def start(self, recipe: Recipe, folder: str | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        say(self.heading)
        told = (MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
        columns = (TextColumn("{task.description}"), BarColumn(12), *told, TextColumn("gone  {task.fields[left]}"))
        self.bars = Progress(*columns, console=self.console or Console(stderr=True))
        self.tasks = {
            seed: self.bars.add_task(f"seed {seed}", start=False, total=recipe.steps, told="waiting", left="")
            for seed in recipe.seeds
        }
        self.steps = recipe.steps
        self.first: dict[int, tuple[float, int]] = {}  # seed -> when it was first heard of, and at which step
        self.moved: dict[int, float] = {}  # seed -> when its bar moved last
        self.bars.start()

    def log(self, seed: int, record: dict[str, Any]) -> None:
        step, task = record["step"], self.tasks[seed]
        self._begin(seed, step)
        told = f"KL {show.printed(record['kl_bits'])} bits"
        if "sequences_per_s" in record:
            told += f"  {record['sequences_per_s']:,.0f} sequences/s"
        self.bars.update(task, completed=step, told=told, left=self._left(seed, step))
        if step == self.steps:
            self.bars.stop_task(task)

    def advance(self, seed: int, step: int) -> None:
        now = time.monotonic()
        self._begin(seed, step)
        if now - self.moved.get(seed, 0.0) >= _OFTEN_S:
            self.moved[seed] = now
            self.bars.update(self.tasks[seed], completed=step, left=self._left(seed, step))

    def finish(self) -> None:
        self.bars.stop()

    def _begin(self, seed: int, step: int) -> None:
        if seed not in self.first:
            self.first[seed] = time.monotonic(), step
            self.bars.start_task(self.tasks[seed])
            self.bars.update(self.tasks[seed], told="")

    def _left(self, seed: int, step: int) -> str:
        begun, first = self.first[seed]
        if step == first or step == self.steps:
            return ""
        return time_left(begun, step - first, self.steps - first)


def time_left(begun: float, done: int, total: int) -> str:
    """Minutes and seconds that the rest will take, if it goes on as it did since `begun`; `done` is above 0."""
    seconds = round((total - done) * (time.monotonic() - begun) / done)
    return f"{seconds // 60}:{seconds % 60:02d} left"


Stage = Callable[[str, int, int], None]
"""To be called before each stage of a job with its name, how many are done and how many there are."""


@contextmanager
def stages() -> Iterator[Stage]:
    """A bar while a terminal is watching, else a line per stage."""
    if sys.stderr.isatty():
        with bar() as told:
            yield told
    else:
        yield lambda name, done, total: print(f"{done + 1}/{total}  {name}", file=sys.stderr, flush=True)


@contextmanager
def bar(wanted: bool = True, *, share: bool = False) -> Iterator[Stage]:
    """A bar on the error stream that is gone when the job is done; nothing where no terminal is watching, or where it
    is not wanted.

    share  tell percents and the time left: for stages that are many, all alike, and of no interest by number
    """
    if not (wanted and sys.stderr.isatty()):
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    counted = TaskProgressColumn() if share else MofNCompleteColumn()
    told = (TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    begun = time.monotonic()

    def tell(name: str, done: int, total: int) -> None:
        left = f"gone  {time_left(begun, done, total)}" if share and done else ""
        bars.update(task, description=name, completed=done, total=total, left=left)

    with Progress(BarColumn(24), counted, *told, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, left="")
        yield tell


_FIRST_SHARE = 0.1
"""Of a job, before its end is estimated: the first stages are slower."""
_TELL_S = 5.0
"""How long a job may be silent where nobody watches a bar; short ones are done by then, and say nothing."""


@contextmanager
def bar_or_lines(wanted: bool = True) -> Iterator[Stage]:
    """A bar while a terminal is watching, else a line every few seconds, for a job of many short stages."""
    if not wanted or sys.stderr.isatty():
        with bar(wanted, share=True) as told:
            yield told
        return
    begun = last = time.monotonic()

    def tell(name: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELL_S:
            last = time.monotonic()
            left = f"  {time_left(begun, done, total)}" if done >= _FIRST_SHARE * total else ""
            print(f"{done / total:.0%} done{left}", file=sys.stderr, flush=True)

    yield tell


class Several:
    """Some trackers as one."""

    def __init__(self, *trackers: Tracker) -> None:
        self.trackers = trackers

    def start(self, recipe: Recipe, folder: str | None) -> None:
        for tracker in self.trackers:
            tracker.start(recipe, folder)

    def log(self, seed: int, record: dict[str, Any]) -> None:
        for tracker in self.trackers:
            tracker.log(seed, record)

    def advance(self, seed: int, step: int) -> None:
        for tracker in self.trackers:
            if isinstance(tracker, StepTracker):
                tracker.advance(seed, step)

    def finish(self) -> None:
        for tracker in self.trackers:
            tracker.finish()
