"""A batch that grows: early gradients are large beside their noise, so a small batch tells them well enough."""

from __future__ import annotations

from typing import NamedTuple


class Stage(NamedTuple):
    """A stretch of steps with one batch.

    first_step     its first step
    batch          episodes per step
    first_episode  number, in the training stream, of the first episode of its first step
    """

    first_step: int
    batch: int
    first_episode: int

    def until(self, step: int) -> int:
        """Episodes seen before that step, which lies in this stage or ends it."""
        return self.first_episode + (step - self.first_step) * self.batch


def stages_of(first_batch: int, batch: int, steps: int) -> tuple[Stage, ...]:
    """From `first_batch` to `batch` by doubling, each size for an equal share of the steps; 0: `batch` all along.

    Every episode of the training stream is used once, in order, whatever the sizes.

    >>> [(stage.first_step, stage.batch) for stage in stages_of(256, 1024, 3000)]
    [(0, 256), (1000, 512), (2000, 1024)]
    """
    sizes = [batch]
    while first_batch and sizes[0] > first_batch:
        sizes.insert(0, sizes[0] // 2)
    found = [Stage(0, sizes[0], 0)]
    for number, size in enumerate(sizes[1:], start=1):
        begins = round(number * steps / len(sizes))
        found.append(Stage(begins, size, found[-1].until(begins)))
    return tuple(found)


def stage_at(stages: tuple[Stage, ...], step: int) -> Stage:
    """The stage that a step belongs to; of two that begin there (fewer steps than sizes), the later one."""
    return next(stage for stage in reversed(stages) if stage.first_step <= step)
