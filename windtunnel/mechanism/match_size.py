"""Scales random changes to the size of the real one.

A change in a random direction is a null only where it is as large as the real one.  Turned on the spot (`turn` in
`substitute`) it is so at the first place that it meets.  What comes after that, the next step of a recurrence or the
next layer, is already another value than in the real run, and from there the way to the source is shorter or longer.
So the real run is watched once, and each turned change made as large at every place as the real one was there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from windtunnel.geometry.gather import heads_first
from windtunnel.mechanism.place import Change
from windtunnel.mechanism.score import Bench

Sizes = dict[tuple[str, int | None], list[Tensor]]
"""(tensor, step) -> sizes (n, …) at each position, chunk by chunk; without what is not changed."""


def as_large(
    bench: Bench, real: Mapping[str, Change], turned: Sequence[Mapping[str, Change]]
) -> list[dict[str, Change]]:
    """Turned versions of these changes, each as large at every place as the real one in its own run."""
    if not turned or (len(real) == 1 and not bench.anatomy.recurrent.intersection(real)):  # they are as large already
        return [dict(changes) for changes in turned]
    seen: Sizes = {}
    bench.run({name: _watched(name, change, seen) for name, change in real.items()})
    return [{name: _scaled(name, change, seen) for name, change in changes.items()} for changes in turned]


def _watched(name: str, change: Change, seen: Sizes) -> Change:
    """The same change; how large it is, is kept."""

    def watched(value: Tensor, step: int | None, rows: slice) -> Tensor:
        changed = change(value, step, rows)
        if changed is not value:
            seen.setdefault((name, step), []).append(_size(name, changed - value, step))
        return changed

    return watched


def _scaled(name: str, change: Change, seen: Sizes) -> Change:
    """The same change, made as large as what was seen."""

    def scaled(value: Tensor, step: int | None, rows: slice) -> Tensor:
        changed = change(value, step, rows)
        if changed is value:
            return value
        difference, wanted = changed - value, torch.cat(seen[name, step])[rows]
        size = _size(name, difference, step)
        return value + difference * torch.where(size > 0, wanted / size, 0.0)  # a silent part has no way to turn

    return scaled


def _size(name: str, difference: Tensor, step: int | None) -> Tensor:
    """Length at each position, over the axes that a turn acts on (see `Place.on_width`)."""
    axes = (1, -1) if heads_first(name) and step is None else -1
    return torch.linalg.vector_norm(difference, dim=axes, keepdim=True)
