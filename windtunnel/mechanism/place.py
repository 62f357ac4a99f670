"""A place in a network, and what is put there.

Every intervention here is one sentence: *replace this part of a tensor by something else*.

    place    a tensor; of it perhaps one head, some positions, or the part in a subspace
    source   what to put there: zero, a mean over episodes, another episode's tensor
    change   (value, step, rows) -> value, what a tap does; `rows` says which episodes of the batch these are

With x the value, y the source and B an orthonormal basis (the identity if none), a dose a in [0, 1] gives

    x ← x + a (y − x) B Bᵀ     on the chosen head and positions, x elsewhere
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from windtunnel.errors import require, require_int
from windtunnel.geometry.gather import heads_first

Change = Callable[[Tensor, int | None, slice], Tensor]
Source = Change


@dataclass(frozen=True, eq=False)
class Place:
    """A part of a named tensor.

    tensor     tap name, e.g. "blocks.3.residual"
    head       one head of a tensor (n, H, …); all if None
    positions  input positions (readouts for `final` and `logits`); all if None
    basis      (D, r) with orthonormal columns: only the part in their span, on the last axis; for a tensor with heads
               D is the width of all heads side by side
    """

    tensor: str
    head: int | None = None
    positions: tuple[int, ...] | None = None
    basis: Float[Tensor, "D r"] | None = None

    def __post_init__(self) -> None:
        require(self.head is None or self.basis is None, "basis", "a basis", "left out where a head is chosen")
        if self.head is not None:
            require(heads_first(self.tensor), "head", self.head, f"left out for {self.tensor}, which has no heads")
            require_int("head", self.head, 0)
        if self.positions is not None:
            require(len(self.positions) > 0, "positions", self.positions, "at least one; None is all")
            for position in self.positions:
                require_int("position", position, 0)
        if self.basis is not None:
            gram = self.basis.T @ self.basis
            off = (
                float((gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).abs().max())
                if len(gram)
                else 0
            )
            require(off < 1e-4, "basis", f"columns off by {off:.2g}", "orthonormal")

    def require_in(self, shape: tuple[int, ...]) -> None:
        """Raise one line unless a tensor of this shape (see `Anatomy`) has such a part."""
        if self.head is not None:
            require(self.head < shape[1], "head", self.head, f"below {shape[1]} for {self.tensor}")
        if self.positions is not None:
            last, length = max(self.positions), shape[2 if heads_first(self.tensor) else 1]
            require(last < length, "position", last, f"below {length} for {self.tensor}")
        if self.basis is not None:
            rows, width = len(self.basis), width_of(self, shape)
            require(rows == width, "basis", f"{rows} rows", f"of {width} rows for {self.tensor}")

    def reaches(self, step: int | None) -> bool:
        """Whether a recurrent tensor is touched at this step."""
        return step is None or self.positions is None or step in self.positions

    def put(self, value: Tensor, new: Tensor, step: int | None) -> Tensor:
        """`value` with this part taken from `new`, which has its shape."""
        if self.basis is not None:
            new = value + self.on_width(
                new - value, lambda delta: delta @ self._basis(value) @ self._basis(value).T, step
            )
        if self.head is None and (self.positions is None or step is not None):
            return new
        index: list = [slice(None)] * value.ndim
        if self.head is not None:
            index[1] = self.head
        if self.positions is not None and step is None:
            index[2 if heads_first(self.tensor) else 1] = torch.tensor(self.positions, device=value.device)
        result = value.clone()
        result[tuple(index)] = new[tuple(index)]
        return result

    def on_width(self, value: Tensor, function: Callable[[Tensor], Tensor], step: int | None) -> Tensor:
        """Apply a function to the last axis; heads (n, H, T, d) are laid side by side (n, T, H·d) for it."""
        if not heads_first(self.tensor) or step is not None:
            return function(value)
        heads, width = value.shape[1], value.shape[-1]
        return function(value.transpose(1, 2).flatten(2)).unflatten(2, (heads, width)).transpose(1, 2)

    def _basis(self, like: Tensor) -> Tensor:
        assert self.basis is not None
        return self.basis.to(like.device, like.dtype)


def zero(value: Tensor, step: int | None, rows: slice) -> Tensor:
    """The source of a zero-ablation."""
    return torch.zeros_like(value)


def stored(tensor: Float[Tensor, "n ..."], order: Tensor | None = None) -> Source:
    """A recorded tensor (n, …) as a source; (1, …) serves all episodes alike.  order (n,): whose each episode gets.

    The tensor is reordered only where it is used: states of all steps are large, and draws of a null are many.
    """
    order = None if order is None else order.to(tensor.device)

    def source(value: Tensor, step: int | None, rows: slice) -> Tensor:
        picked = tensor if step is None else tensor[:, step]
        if len(tensor) > 1:
            picked = picked[rows] if order is None else picked[order[rows]]
        return picked.to(value.device, value.dtype).expand_as(value)

    return source


def substitute(place: Place, source: Source, *, dose: float = 1.0, turn: Float[Tensor, "D D"] | None = None) -> Change:
    """The change that puts `source` at `place`.

    dose  how far to go: 0 leaves the value, 1 puts the source
    turn  an orthogonal matrix: the difference that the change makes is rotated by it, so it has the same size at
          every position but an arbitrary direction (a null; where other changes come before it, see `match_size`)
    """

    known: dict[tuple, Tensor] = {}  # the matrix where the network lives: a recurrent tensor asks at every step

    def change(value: Tensor, step: int | None, rows: slice) -> Tensor:
        if not place.reaches(step):
            return value
        new = source(value, step, rows)
        if dose != 1.0:
            new = value + dose * (new - value)
        result = place.put(value, new, step)
        if turn is not None:
            kind = (value.device, value.dtype)
            matrix = known[kind] = known[kind] if kind in known else turn.to(*kind)
            result = value + place.on_width(result - value, lambda delta: delta @ matrix, step)
        return result

    return change


def width_of(place: Place, shape: tuple[int, ...]) -> int:
    """D: length of the axis that a basis or a rotation acts on, for a tensor of this shape."""
    return shape[1] * shape[-1] if heads_first(place.tensor) else shape[-1]
