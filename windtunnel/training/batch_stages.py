"""A batch that grows: early gradients are large beside their noise, so a small batch tells them well enough."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from torch import Tensor

Step = TypeVar("Step", int, Tensor)


class Stage(NamedTuple):
    """A stretch of steps with one batch.

    first_step     its first step
    batch          episodes per step
    first_episode  number, in the training stream, of the first episode of its first step
    """

    first_step: int
    batch: int
    first_episode: int

    def until(self, step: Step) -> Step:
        """Episodes seen before that step, which lies in this stage or ends it: the number of its first episode."""
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
    borders = [round(number * steps / len(sizes)) for number in range(len(sizes) + 1)]
    found: list[Stage] = []
    for size, begins, ends in zip(sizes, borders, borders[1:], strict=False):
        if begins < ends:  # with fewer steps than sizes some are left out
            found.append(Stage(begins, size, found[-1].until(begins) if found else 0))
    return tuple(found)


def stage_at(stages: tuple[Stage, ...], step: int) -> Stage:
    """The stage that a step belongs to; the last one for the step after the last."""
    return next(stage for stage in reversed(stages) if stage.first_step <= step)


def batch_told(first_batch: int | None, batch: int) -> str:
    """A batch in words.

    >>> batch_told(0, 1024), batch_told(256, 1024)
    ('1,024', '256 to 1,024')
    """
    return f"{first_batch:,} to {batch:,}" if first_batch else f"{batch:,}"
