"""Not computing what cannot have changed.

A change in block i leaves everything before block i as it was.  Where the blocks are a plain list and each returns its
tapped stream `blocks.j.residual` (all built-in networks), the run may start at block i from the recorded stream, bit
for bit the same.  Half of the work of a survey over layers is saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from windtunnel.models.base import SequenceModel

LIMIT = 1 << 28  # entries of recorded streams (1 GiB in float32): beyond it runs start from the beginning


def first_changed(names: Iterable[str], depth: int) -> int:
    """The first block in which any of these tensors lies; 0 for what comes before the blocks."""
    found = []
    for name in names:
        match = re.match(r"blocks\.(\d+)\.", name)
        found.append(int(match[1]) if match else depth if name in ("final", "logits") else 0)
    return min(found, default=0)


def can_resume(model: nn.Module, shapes: dict[str, tuple[int, ...]], episodes: int) -> bool:
    """Whether the network's blocks may be skipped."""
    blocks = getattr(model, "blocks", None)
    if not (isinstance(model, SequenceModel) and isinstance(blocks, nn.ModuleList)):
        return False
    names = [f"blocks.{index}.residual" for index in range(len(blocks))]
    if not all(name in shapes for name in names):
        return False
    entries = sum(shapes[name][1] * shapes[name][2] for name in names)
    return episodes * entries <= LIMIT


class _Replay(nn.Module):
    """A block that returns what it returned before."""

    def __init__(self, stream: Tensor | None) -> None:
        super().__init__()
        self.stream = stream

    def forward(self, x: Tensor, *_: object) -> Tensor:
        return x if self.stream is None else self.stream


@contextmanager
def resumed(model: nn.Module, layer: int, stream: Tensor | None) -> Iterator[None]:
    """Inside, the blocks before `layer` are not computed: the last of them gives `stream` (n, T, D)."""
    blocks = getattr(model, "blocks", None)
    if layer == 0 or not isinstance(blocks, nn.ModuleList):
        yield
        return
    kept = list(blocks)
    try:
        for index in range(layer):
            blocks[index] = _Replay(stream if index == layer - 1 else None)
        yield
    finally:
        for index, block in enumerate(kept):
            blocks[index] = block
