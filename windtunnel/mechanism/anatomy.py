"""Which tensors does this network have, by the part they play?

    mixer   what brings information from other positions   blocks.i.attention.out, .mamba.out or .lstm.hidden
    ff      what computes at one position                  blocks.i.ff.out
    heads   a mixer's separate heads                       blocks.i.attention.head_out (n, H, T, d)
    stream  what is carried from layer to layer            the last tensor before the blocks, then blocks.i.residual
    memory  what is carried from step to step              blocks.i.lstm.cell, .lstm.hidden, .mamba.state, … with the
                                                           window of a convolution, where there is one

Read off one tapped forward pass, so a network of one's own that uses these names is understood too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.geometry.gather import entrance, label
from windtunnel.models.device import device_of
from windtunnel.models.taps import Record, Tap, require_matched
from windtunnel.models.trace import has_taps
from windtunnel.tunnels.episodes import Inputs

MIXERS = ("attention.out", "mamba.out", "lstm.hidden")
STATES = ("lstm.cell", "lstm.hidden", "mamba.window", "mamba.state", "attention.window", "attention.state")


@dataclass(frozen=True)
class Anatomy:
    """Names of the tensors of one network, with their shapes for one episode.

    recurrent  those that are handed over step by step
    returned   path of a module -> the tensor that it returns, e.g. "blocks.0.ff" -> "blocks.0.ff.out"
    """

    shapes: dict[str, tuple[int, ...]]
    recurrent: frozenset[str] = frozenset()
    returned: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module, inputs: Inputs) -> Anatomy:
        """Look once at the first episode."""
        if not has_taps(model):
            raise InputError(f"model {label(model)} has no taps: nothing to change")
        record, first = Record(), inputs[:1].to(device_of(model, inputs.tokens))
        with torch.no_grad(), watched(model, record) as (tap, returned):
            model(first.tokens, first.features, first.readout, tap)
        shapes = {name: tuple(value.shape) for name, value in record.tensors().items()}
        return cls(shapes, record.recurrent, {path: name for path, name in returned.items() if name in shapes})

    def require(self, name: str) -> None:
        """Raise one line unless there is such a tensor."""
        require_matched([name], self.shapes)

    @property
    def depth(self) -> int:
        """Number of blocks."""
        found = [int(match[1]) for name in self.shapes if (match := re.match(r"blocks\.(\d+)\.", name))]
        return max(found, default=-1) + 1

    def mixer(self, layer: int) -> str | None:
        return next((name for end in MIXERS if (name := f"blocks.{layer}.{end}") in self.shapes), None)

    def ff(self, layer: int) -> str | None:
        return name if (name := f"blocks.{layer}.ff.out") in self.shapes else None

    def head_tensor(self, layer: int) -> str | None:
        return name if (name := f"blocks.{layer}.attention.head_out") in self.shapes else None

    @property
    def memory(self) -> list[str]:
        """The recurrent state of all layers: all that later steps know of earlier ones."""
        names = (f"blocks.{layer}.{end}" for layer in range(self.depth) for end in STATES)
        return [name for name in names if name in self.shapes]

    @property
    def heads(self) -> list[tuple[int, int]]:
        """Every (layer, head)."""
        counts = [(i, self.shapes[name][1]) for i in range(self.depth) if (name := self.head_tensor(i))]
        return [(layer, head) for layer, count in counts for head in range(count)]

    @property
    def streams(self) -> list[str]:
        """The stream before the first block and after each block."""
        blocks = [name for i in range(self.depth) if (name := f"blocks.{i}.residual") in self.shapes]
        return [*filter(None, [entrance(self.shapes)]), *blocks]

    @property
    def unmixed(self) -> str | None:
        """Where each position still tells of its own input alone.  What enters the first block may be mixed already: an
        MLP sums over positions before it."""
        return next((name for name in ("positioned", "embed") if name in self.shapes), entrance(self.shapes))


@contextmanager
def watched(model: nn.Module, tap: Tap) -> Iterator[tuple[Tap, dict[str, str | None]]]:
    """A tap for one pass, and what each module was seen to return: the last tensor that was handed over in it, as it
    came back.  None for a module that returns something else, or ran more than once."""
    handed: list[tuple[str, Tensor]] = [("", torch.empty(0))]  # the last only
    count, entered, returned = 0, dict[str, int](), dict[str, str | None]()

    def passed_on(name: str, value: Tensor) -> Tensor:
        nonlocal count
        handed[0], count = (name, value := tap(name, value)), count + 1
        return value

    def enter(path: str) -> None:
        entered[path] = count

    def leave(path: str, output: object) -> None:
        name, value = handed[0]
        once = path not in returned
        returned[path] = name if once and output is value and count > entered[path] else None

    hooks = []
    for path, module in model.named_modules():
        if path:
            hooks.append(module.register_forward_pre_hook(lambda *_, path=path: enter(path)))
            hooks.append(module.register_forward_hook(lambda _, __, output, path=path: leave(path, output)))
    try:
        yield passed_on, returned
    finally:
        for hook in hooks:
            hook.remove()
