"""Taps: how a forward pass is read and edited.

A tap is any `tap(name, value) -> value`.  A model hands every named tensor to it and goes on with what comes back, so
one mechanism serves for looking (return the value as it is), for ablation and for patching (return something else).
Without a tap a model takes its fused path.

Names look like `blocks.3.attention.pattern`.  A tensor that feeds back into itself is handed over one time step at a
time as `blocks.3.lstm.cell@17`, so that an edit at step 17 reaches step 18 the way the network itself would carry
it.  Readers need not care: `Record` stacks the steps into one tensor under the bare name, `Edit` tells the step to
its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from windtunnel.errors import InputError

Tap = Callable[[str, Tensor], Tensor]
StepEdit = Callable[[int, Tensor], Tensor]


def touch(tap: Tap | None, name: str, value: Tensor) -> Tensor:
    """Hand a named tensor to the tap, if there is one, and go on with what it returns."""
    return value if tap is None else tap(name, value)


def each_step(tap: Tap | None, name: str) -> StepEdit | None:
    """For a recurrence: a function (t, state) -> state that hands `name@t` to the tap; None without a tap."""
    return None if tap is None else lambda t, state: tap(f"{name}@{t}", state)


def split_step(name: str) -> tuple[str, int | None]:
    """The bare name and the time step of a recurrent tensor (None for a tensor that comes whole).

    >>> split_step("blocks.0.lstm.cell@17"), split_step("embed")
    (('blocks.0.lstm.cell', 17), ('embed', None))
    """
    bare, _, step = name.partition("@")
    return bare, int(step) if step else None


def require_matched(patterns: Iterable[str], available: Iterable[str]) -> None:
    """Raise unless every pattern matches at least one of the available names."""
    available = list(available)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in available):
            raise InputError(f"tap name = {pattern!r}: must match one of {', '.join(available) or '(no taps)'}")


class Record:
    """A tap that keeps what matches some glob patterns (all if None) and changes nothing."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self.patterns = None if names is None else list(names)
        self.seen: dict[str, None] = {}  # every name met, kept or not, in order: a dict for its order
        self._whole: dict[str, Tensor] = {}
        self._steps: dict[str, list[Tensor]] = {}

    def __call__(self, name: str, value: Tensor) -> Tensor:
        bare, step = split_step(name)
        self.seen[bare] = None
        if self.patterns is None or any(fnmatchcase(bare, pattern) for pattern in self.patterns):
            if step is None:
                self._whole[bare] = value.detach()
            else:
                self._steps.setdefault(bare, []).append(value.detach())
        return value

    def tensors(self) -> dict[str, Tensor]:
        """Name to tensor (n, …), in the order of the forward pass; steps are stacked to (n, T, …)."""
        kept = self._whole | {name: torch.stack(steps, dim=1) for name, steps in self._steps.items()}
        return {name: kept[name] for name in self.seen if name in kept}


class Edit:
    """A tap that changes what matches: a mapping from glob pattern to `function(value, step) -> value`.

    `step` is the time step of a recurrent tensor, whose value then lacks the time axis; None otherwise.  An edit that
    met no tensor is an ablation that ablated nothing: `check` raises for it.
    """

    def __init__(self, edits: Mapping[str, Callable[[Tensor, int | None], Tensor]]) -> None:
        self.edits = dict(edits)
        self.seen: dict[str, None] = {}

    def __call__(self, name: str, value: Tensor) -> Tensor:
        bare, step = split_step(name)
        self.seen[bare] = None
        for pattern, function in self.edits.items():
            if fnmatchcase(bare, pattern):
                edited = function(value, step)
                if edited.shape != value.shape:
                    raise InputError(f"edit of {name} has shape {tuple(edited.shape)}: must be {tuple(value.shape)}")
                value = edited
        return value

    def check(self) -> None:
        """Call after the forward pass: every pattern must have met a tensor."""
        require_matched(self.edits, self.seen)


def chain(*taps: Tap) -> Tap:
    """Several taps as one, each seeing what the one before it returned."""

    def chained(name: str, value: Tensor) -> Tensor:
        for tap in taps:
            value = tap(name, value)
        return value

    return chained
