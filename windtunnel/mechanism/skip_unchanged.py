"""Not computing what cannot have changed.

A change leaves everything before it as it was.  A module that returns one of the tapped tensors (a block its stream, a
block's attention or feed-forward part its output) need not run where nothing before that tensor is changed and the
tensor is on record: it hands the recorded one to the tap, bit for bit the same, and goes on with what comes back.  So
a run with a change in block i starts at block i, past those of its parts that are on record.  More than half of the
work of a survey over layers is saved.

Which module returns which tensor is seen in a pass (`Anatomy.returned`), not taken from names.  The blocks must be a
plain list in which each reads only the stream of the one before (all built-in networks).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from windtunnel.models.base import SequenceModel
from windtunnel.models.taps import Tap, known

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


@dataclass(frozen=True)
class Start:
    """Where a run with some changes may start.

    skipped  path of a module that need not run -> the tensor that it returns
    needed   tensors of the unchanged run to start from
    """

    skipped: Mapping[str, str] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()


def start(
    returned: Mapping[str, str], order: Sequence[str], changed: Collection[str], recorded: Collection[str]
) -> Start:
    """The latest start for changes of these tensors.

    returned  path of a module -> tensor that it returns
    order     all tensors in the order of the forward pass
    recorded  those of them that may be had from the unchanged run
    """
    place = {name: index for index, name in enumerate(order)}
    if not changed or any(name not in place for name in changed):
        return Start()
    first = min(changed, key=place.__getitem__)
    ready = {path: name for path, name in returned.items() if name in recorded and place[name] <= place[first]}
    outermost = {path: name for path, name in ready.items() if not any(path.startswith(f"{one}.") for one in ready)}
    unread = [name for path, name in outermost.items() if path.rpartition(".")[0] == "blocks"][:-1]
    needed = {*outermost.values(), first}.intersection(recorded).difference(unread)
    return Start(outermost, frozenset(needed))


class _Replay(nn.Module):
    """A module that returns what the tap knows it would; where the tap does not know, nobody reads what it returns."""

    def __init__(self, name: str, tap: Tap) -> None:
        super().__init__()
        self.name, self.tap = name, tap

    def forward(self, x: Tensor, *_: object) -> Tensor:
        value = known(self.tap, self.name)
        return x if value is None else self.tap(self.name, value)


@contextmanager
def skipping(model: nn.Module, skipped: Mapping[str, str], tap: Tap) -> Iterator[None]:
    """Inside, these modules (path -> tensor) do not run; the tap knows the tensors `needed`."""
    kept = {path: model.get_submodule(path) for path in skipped}
    try:
        for path, name in skipped.items():
            _put(model, path, _Replay(name, tap))
        yield
    finally:
        for path, module in kept.items():
            _put(model, path, module)


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, child = path.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
