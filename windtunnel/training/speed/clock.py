"""Wall-clock time of work on a device, and a limit on how much of it may be spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from windtunnel.models.compiled import CompilationFailed


def drain(device: str) -> None:
    """Wait until a GPU has done all it was told; nothing on a CPU."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: str) -> float:
    """Wall-clock seconds of one call, the device drained before and after."""
    drain(device)
    start = time.perf_counter()
    work()
    drain(device)
    return time.perf_counter() - start


def seconds_each(advance: Callable[[int], object], device: str, about_s: float, bursts: int = 12) -> float:
    """Seconds per step of `advance(steps)`, over about that many seconds; a few steps first tell how many those are.

    On a GPU the steps run back to back, as in training.  On a CPU, which is often shared, they are timed in bursts and
    the fastest quarter of the bursts counts: what others do to the machine only ever adds time.
    """
    probe = 3
    each = seconds(lambda: advance(probe), device) / probe
    steps = max(probe, int(about_s / each))
    if device != "cpu":
        return seconds(lambda: advance(steps), device) / steps
    bursts = min(bursts, steps)
    size = steps // bursts
    times = sorted(seconds(lambda: advance(size), device) / size for _ in range(bursts))
    fastest = times[: max(1, len(times) // 4)]
    return sum(fastest) / len(fastest)


def busy_ms(replay: Callable[[], object], device: str, times: int = 5) -> float:
    """Milliseconds per call in which at least one kernel runs on the GPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(times):
            replay()
        drain(device)
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in profile.events() or ()
        if event.device_type.name == "CUDA"
    ]
    return covered(spans) / times / 1e3


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals.

    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@dataclass
class Limit:
    """A time limit that starts when it is made.  What comes too late is left out and named, never dropped silently."""

    limit_s: float
    started: float = field(default_factory=time.monotonic)
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """What could not be measured for another reason, with it."""

    def left_s(self) -> float:
        """Seconds still to spend, at least 0."""
        return max(0.0, self.limit_s - (time.monotonic() - self.started))

    def allows(self, what: str) -> bool:
        """Is there time for this?  If not, remember that it was left out."""
        if self.left_s() > 0:
            return True
        self.left_out.append(what)
        return False

    @contextmanager
    def outliving(self, what: str) -> Iterator[None]:
        """What cannot be measured in here has no row and is named with its reason; the others go on."""
        try:
            yield
        except CompilationFailed as error:
            self.failed.append(f"{what}: {error}")
