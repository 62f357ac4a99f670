"""What a tunnel samples: inputs a predictor may read, and the exact belief it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from windtunnel.errors import InputError, require, shown


@dataclass(frozen=True, eq=False)  # tensors have no single answer to ==
class Inputs:
    """All that a predictor sees.

    tokens    (n, T) int64, each in 0 … tunnel.vocabulary − 1
    features  (n, T, F) float, real-valued side information added to the token embedding, or None
    readout   (K,) int64, the positions at which a prediction is read; a prediction at position t may use
              positions 0 … t only
    """

    tokens: Int64[Tensor, "n T"]
    features: Float[Tensor, "n T F"] | None
    readout: Int64[Tensor, " K"]

    def __repr__(self) -> str:
        """On one line: how many, and every shape."""
        return f"<Inputs of {_counted(len(self))}: {_shaped(vars(self))}>"

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def __getitem__(self, index) -> Inputs:
        """The same inputs for some of the episodes, indexed as in `Episodes`."""
        index = _keeping_the_axis(index, len(self))
        return Inputs(self.tokens[index], None if self.features is None else self.features[index], self.readout)

    def __iter__(self) -> Iterator[Inputs]:
        """One episode after another, each a batch of one."""
        return (self[number] for number in range(len(self)))

    def to(self, device: str | torch.device) -> Inputs:
        """A copy on another device."""
        features = None if self.features is None else self.features.to(device)
        return Inputs(self.tokens.to(device), features, self.readout.to(device))


@dataclass(frozen=True, eq=False)
class Episodes:
    """A batch of sampled episodes with their exact belief.

    inputs     what a predictor reads
    labels     (n, K) int64, the sampled truth, each in 0 … C − 1
    posterior  (n, K, C), P(label | inputs up to the readout position), exactly
    latent     the drawn world: named tensors with a leading episode axis (each tunnel documents its own)
    """

    inputs: Inputs
    labels: Int64[Tensor, "n K"]
    posterior: Float[Tensor, "n K C"]
    latent: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        """On one line: how many, and every shape; of which tunnel is not known here, but its latent names tell."""
        seen = {**vars(self.inputs), "labels": self.labels, "posterior": self.posterior}
        latent = f"; latent {_shaped(self.latent)}" if self.latent else ""
        return f"<{_counted(len(self))}: {_shaped(seen)}{latent}>"

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def entropy_bits(self) -> Float[Tensor, "n K"]:
        """Entropy of the exact belief in bits."""
        from windtunnel.tunnels.information import entropy_bits

        return entropy_bits(self.posterior)

    @property
    def possible(self) -> Bool[Tensor, "n K"]:
        """Where a belief exists.  An edited world may show what cannot happen; from there on `posterior` is NaN."""
        return ~self.posterior.isnan().any(-1)

    def map(self, change: Callable[[Tensor], Tensor]) -> Episodes:
        """The same change to every tensor that has an episode axis."""
        features = None if self.inputs.features is None else change(self.inputs.features)
        return Episodes(
            Inputs(change(self.inputs.tokens), features, self.inputs.readout),
            change(self.labels),
            change(self.posterior),
            {name: change(value) for name, value in self.latent.items()},
        )

    def __getitem__(self, index) -> Episodes:
        """Some of the episodes, by number, slice, mask, or a list, array or tensor of numbers."""
        index = _keeping_the_axis(index, len(self))
        return self.map(lambda value: value[index])

    def __iter__(self) -> Iterator[Episodes]:
        """One episode after another, each a batch of one."""
        return (self[number] for number in range(len(self)))

    def to(self, device: str | torch.device) -> Episodes:
        """A copy on another device."""
        moved = self.map(lambda value: value.to(device))
        return replace(moved, inputs=replace(moved.inputs, readout=self.inputs.readout.to(device)))

    def tensors(self) -> list[Tensor]:
        """Every tensor that has an episode axis, in a fixed order."""
        found: list[Tensor] = []
        self.map(lambda value: found.append(value) or value)
        return found


def _counted(count: int) -> str:
    return f"{count} episode{'s' * (count != 1)}"


def _shaped(named: Mapping[str, Tensor | None]) -> str:
    """Names with shapes, of those that there are."""
    return ", ".join(f"{name} {tuple(value.shape)}" for name, value in named.items() if value is not None)


def require_inputs(value: object) -> None:
    """Raise unless a predictor is given inputs, and not the episodes that hold them beside the truth."""
    require(isinstance(value, Inputs), "inputs", value, "the inputs of episodes, episodes.inputs")


def _keeping_the_axis(index: Any, count: int) -> Any:
    """The index if what it selects is a batch again; a single number as a slice of one, which keeps the first axis."""
    if isinstance(index, slice):
        chosen = range(count)[index]
        return index if chosen.step > 0 else torch.tensor(chosen, dtype=torch.int64)  # torch takes no step backwards
    chosen = _as_numbers_or_mask(index, count)
    if chosen is None:
        allowed = f"a number, a slice, or one row of numbers or of {count} times True or False"
        raise InputError(f"episodes = {shown(index)}: must be {allowed}")
    if chosen.dtype == torch.bool:
        return chosen
    outside = chosen[(chosen < -count) | (chosen >= count)]  # on a GPU such an index would end the process
    if len(outside):
        raise InputError(f"episode = {int(outside[0])}: must be from {-count} to {count - 1}")
    return chosen if chosen.ndim else slice(int(chosen) % count, int(chosen) % count + 1)


def _as_numbers_or_mask(index: Any, count: int) -> Tensor | None:
    """An int64 number or row of them, or a mask of all episodes; None for anything else.  A tuple, too, is something
    else: one index for each of several axes."""
    if isinstance(index, tuple | str):
        return None
    try:
        chosen = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError):
        return None
    if chosen.dtype == torch.bool:
        return chosen if chosen.shape == (count,) else None
    whole = chosen.numel() == 0 or not (chosen.is_floating_point() or chosen.is_complex())  # to torch [] is of floats
    return chosen.long() if whole and chosen.ndim <= 1 else None
