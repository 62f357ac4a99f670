"""What every tunnel offers: sizes a model needs, sampling, and the exact belief."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require, require_choice, whole_number
from windtunnel.tunnels.blocks import CPU_BLOCK, in_blocks
from windtunnel.tunnels.checking import draw_checked, is_foreign, require_sizes
from windtunnel.tunnels.episodes import Episodes
from windtunnel.tunnels.random import Source, whole_seed


class TunnelType(ABCMeta):
    """Makes an unknown option of a tunnel the same one-line error as a wrong value."""

    def __call__(cls, *values: Any, **options: Any) -> Any:
        known = list(inspect.signature(cls.__init__).parameters)[1:]
        for name in options:
            require_choice(f"{cls.__name__} option", name, known)
        return super().__call__(*values, **options)


class Tunnel(metaclass=TunnelType):
    """A world whose posterior is known exactly.  Subclasses are frozen dataclasses.

    To write one: give the sizes below, `draw` the latent world from counter-based randomness, and turn a latent world
    into `episodes` with its exact posterior.  `sample` does both and, for a tunnel from outside the package, checks the
    result against the sizes and against what `Episodes` promises.  `windtunnel.tunnels.check(tunnel)` does so at any
    time, and also tests whether labels follow the belief.
    """

    summary: ClassVar[str] = "yours (it has no summary)"
    """One line for `windtunnel list`."""

    # --- what a model must know; all static, so shapes never change inside a compiled step
    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of distinct input tokens."""

    @property
    @abstractmethod
    def feature_width(self) -> int:
        """F, the width of `inputs.features`; 0 when there are none."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """C, the number of outcomes the belief is about."""

    @property
    @abstractmethod
    def positions(self) -> int:
        """T, the number of input positions."""

    @property
    @abstractmethod
    def readouts(self) -> int:
        """K, the number of positions at which a prediction is read."""

    # --- what the study must know
    @property
    @abstractmethod
    def primitives(self) -> tuple[str, ...]:
        """The inference primitives an exact predictor needs, among accumulation, transport and binding."""

    @property
    @abstractmethod
    def hypotheses_log2(self) -> float:
        """log2 of the number of hypotheses, in bits; infinite for a continuous prior."""

    # --- the world itself
    @abstractmethod
    def draw(self, source: Source) -> dict[str, Tensor]:
        """Draw the latent world of each episode: named tensors, episode axis first, real values in float64."""

    @abstractmethod
    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        """Inputs, labels and exact posterior of a given latent world (drawn, or edited by an experiment)."""

    def subsets(self, episodes: Episodes) -> dict[str, Tensor]:
        """Named readout masks (n, K) that a score may be restricted to, e.g. seen keys only."""
        return {}

    def token_names(self) -> list[str]:
        """A short printable name for every token."""
        return [str(token) for token in range(self.vocabulary)]

    def sample(
        self,
        count: int,
        seed: int = 0,
        stream: str = "train",
        device: str | torch.device = "cpu",
        *,
        start: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> Episodes:
        """Episodes start … start + count − 1 of (seed, stream), with their exact posterior in `dtype`.

        The same episode comes back whatever the count, start or device.  The latent world is always drawn in
        float64; `dtype` is that of features and posterior.
        """
        count, start, seed = whole_number("count", count, 1), whole_number("start", start, 0, 2**62), whole_seed(seed)
        require(dtype in (torch.float32, torch.float64), "dtype", dtype, "torch.float32 or torch.float64")
        require_device(str(device))
        foreign = is_foreign(self)

        def part(first: int, size: int) -> Episodes:
            source = Source.open(seed, stream, size, start=start + first, device=device)
            return draw_checked(self, source, dtype) if foreign else self.episodes(self.draw(source), dtype)

        if torch.device(device).type == "cpu" and count > CPU_BLOCK:
            return in_blocks(part, count)
        return part(0, count)

    def with_length(self, length: int) -> Self:
        """The same world, longer or shorter."""
        if "length" not in getattr(self, "__dataclass_fields__", {}):
            raise InputError(f"length = {length!r}: the tunnel {type(self).__name__} has no length to change")
        return replace(self, length=length)  # type: ignore[type-var]


def require_tunnel(value: object, otherwise: str = "") -> Tunnel:
    """The value, if it is a tunnel (its name or its class is not); one line otherwise, which may say more."""
    require(isinstance(value, Tunnel), "tunnel", value, f"a tunnel, e.g. windtunnel.tunnels.HMM(){otherwise}")
    tunnel = cast(Tunnel, value)
    if is_foreign(tunnel):
        require_sizes(tunnel)
    return tunnel
