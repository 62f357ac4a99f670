"""Taps: how a forward pass is read and edited.

A tap is any `tap(name, value) -> value`.  A model passes it every named tensor and continues with what it returns, so
one mechanism serves for reading (return the value unchanged) and for ablation and patching (return something else).
Without a tap a model takes its fused path.

Names look like `blocks.3.attention.pattern`.  A tensor that feeds back into itself is passed one time step at a time,
as `blocks.3.lstm.cell@17`, so that an edit at step 17 reaches step 18 the way the network itself would carry it.  Users
need not care: `Record` stacks the steps into one tensor under the bare name, and `Edit` passes the step to its
function.

A written-out loop over time is many times slower than a fused one.  A tap may have a method `wants(name) -> bool`:
where it wants none of the tensors of a recurrence, that recurrence stays fused and does not pass them.  `Record` and
`Edit` want what their patterns match; a tap without the method wants everything.

A tap may know a tensor before it is computed (`Edit(…, known)`).  A model may ask for it by `known` and pass it on
without computing what leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from windtunnel.errors import InputError, nearest

Tap = Callable[[str, Tensor], Tensor]
StepEdit = Callable[[int, Tensor], Tensor]


def touch(tap: Tap | None, name: str, value: Tensor) -> Tensor:
    """Pass a named tensor to the tap, if there is one, and return what the tap returns."""
    return value if tap is None else tap(name, value)


def wanted(tap: Tap | None, *names: str) -> bool:
    """Whether the tap is to be handed any of these recurrent tensors."""
    if tap is None:
        return False
    wants = getattr(tap, "wants", None)
    return wants is None or any(map(wants, names))


def known(tap: Tap, name: str) -> Tensor | None:
    """The tensor as it would be handed over, where the tap knows it already."""
    return getattr(tap, "known", {}).get(name)


def each_step(tap: Tap | None, name: str) -> StepEdit | None:
    """For a recurrence: a function (t, state) -> state that hands `name@t` to the tap; None if nobody wants it."""
    return (lambda t, state: tap(f"{name}@{t}", state)) if tap is not None and wanted(tap, name) else None


def split_step(name: str) -> tuple[str, int | None]:
    """The bare name and the time step of a recurrent tensor (None for a tensor that comes whole).

    >>> split_step("blocks.0.lstm.cell@17"), split_step("embed")
    (('blocks.0.lstm.cell', 17), ('embed', None))
    """
    bare, _, step = name.partition("@")
    return bare, int(step) if step else None


def require_matched(
    patterns: Iterable[str], available: Iterable[str], every: Callable[[], Iterable[str]] | None = None
) -> None:
    """Raise unless every pattern matches at least one of the available names.

    every  gives all the names that could have been asked for: recurrent tensors that nobody wanted are not handed over
    """
    available = list(available)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in available):
            names = _near(pattern, list(available if every is None else every()))
            whole = "; tensors that come step by step are named without @" if "@" in pattern else ""
            raise InputError(f"tap name = {pattern!r}: must match one of {names}{whole}")


def _near(word: str, names: list[str]) -> str:
    """The names that a mistyped one may have been, or all of them: for a pattern, and where none is near."""
    near = [] if any(sign in word for sign in "*?[@") else nearest(word, names)
    if near and len(near) < len(names):
        return f"{', '.join(near)}, … ({len(names)} in all, see model.taps())"
    return ", ".join(names) or "(no taps)"


class Record:
    """A tap that keeps what matches some glob patterns (all if None) and changes nothing."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self.patterns = None if names is None else list(names)
        self.seen: dict[str, None] = {}  # every name handed over, kept or not, in order: a dict for its order
        self._whole: dict[str, Tensor] = {}
        self._steps: dict[str, list[Tensor]] = {}

    def wants(self, name: str) -> bool:
        """Is this kept?"""
        return self.patterns is None or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        bare, step = split_step(name)
        self.seen[bare] = None
        if self.wants(bare):
            if step is None:
                self._whole[bare] = value.detach()
            else:
                self._steps.setdefault(bare, []).append(value.detach())
        return value

    @property
    def recurrent(self) -> frozenset[str]:
        """Names of what was kept step by step."""
        return frozenset(self._steps)

    def tensors(self) -> dict[str, Tensor]:
        """Name to tensor (n, …), in the order of the forward pass; steps are stacked to (n, T, …)."""
        kept = self._whole | {name: torch.stack(steps, dim=1) for name, steps in self._steps.items()}
        return {name: kept[name] for name in self.seen if name in kept}


class Edit:
    """A tap that changes what matches: a mapping from glob pattern to `function(value, step) -> value`.

    `step` is the time step of a recurrent tensor, whose value then lacks the time axis; None otherwise.  An edit that
    met no tensor is an ablation that ablated nothing: `check` raises for it.

    known  tensors (name -> value, unchanged) that need not be computed
    """

    def __init__(
        self,
        edits: Mapping[str, Callable[[Tensor, int | None], Tensor]],
        known: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.edits, self.known = dict(edits), dict(known or {})
        self.seen: dict[str, None] = {}

    def wants(self, name: str) -> bool:
        """Is this changed?"""
        return any(fnmatchcase(name, pattern) for pattern in self.edits)

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
