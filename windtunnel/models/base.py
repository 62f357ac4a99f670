"""What every sequence model shares: one way in, one way out.

    x       = Embedding(token) + W_f · features              (n, T, D), no second term where a tunnel has no features
    h       = trunk(x)                                       (n, T, D), causal; each architecture writes its own
    logits  = W_o · norm(h at the readout positions) + b     (n, K, C), in float32 or better whatever the trunk ran in

A model is a plain `nn.Module` and can be rebuilt from (name, config, sizes), which are plain numbers and strings.

Taps of every model: `embed` (n, T, D), `final` (n, K, D) after the last norm, `logits` (n, K, C).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from windtunnel.errors import InputError, require_int
from windtunnel.models.layers import embedding, init_normal, projection
from windtunnel.models.shape import Config, Dial
from windtunnel.models.taps import Record, Tap, touch
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Inputs, require_inputs


@dataclass(frozen=True)
class Sizes:
    """All that a model must know about its tunnel.

    vocabulary     number of input tokens
    feature_width  F, width of the features; 0 for none
    classes        C, number of outcomes
    max_length     longest input that weights tied to absolute positions must cover
    """

    vocabulary: int
    feature_width: int
    classes: int
    max_length: int

    def __post_init__(self) -> None:
        for field, least in (("vocabulary", 1), ("feature_width", 0), ("classes", 1), ("max_length", 1)):
            require_int(field, getattr(self, field), least)

    @classmethod
    def of(cls, tunnel: Tunnel, max_length: int | None = None) -> Sizes:
        """The sizes of a tunnel; `max_length` leaves room for tests longer than the tunnel's own length."""
        if max_length is None:
            max_length = tunnel.positions
        try:
            require_int("max_length", max_length, tunnel.positions)
        except InputError as error:
            raise InputError(f"{error}, the positions of this tunnel's inputs") from None
        return cls(tunnel.vocabulary, tunnel.feature_width, tunnel.classes, max_length)


class SequenceModel(nn.Module, ABC):
    """Base of the built-in architectures.  A subclass gives the class attributes below, `dial` and its `blocks`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `windtunnel list`."""
    config_class: ClassVar[type[Config]]
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    compilable: ClassVar[bool] = True
    """Whether `torch.compile(fullgraph=True)` accepts the untapped forward.  If False, a trainer runs it eagerly; a
    CUDA graph may still capture it."""
    norm_class: ClassVar[type[nn.Module]] = nn.LayerNorm

    blocks: nn.ModuleList
    """Each takes (x, tap, its name)."""
    length_limit: int | None = None
    """Longest input, where weights are tied to absolute positions; None: any length."""

    def __init__(self, config: Config, sizes: Sizes, embed_width: int | None = None) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        embed_width = embed_width or config.width
        self.embedding = embedding(sizes.vocabulary, embed_width, 0.5)
        self.features = None
        if sizes.feature_width:
            # Probabilities are small numbers: unit weights bring a header row to about the scale of its token.
            self.features = nn.Linear(sizes.feature_width, embed_width, bias=False)
            init_normal(self.features.weight, 1.0)
        self.final_norm = self.norm_class(config.width)
        # Small, so that an untrained model is close to uniform; not zero, so that it is not exactly uniform either.
        self.head = projection(config.width, sizes.classes, gain=0.1)

    @classmethod
    @abstractmethod
    def dial(cls, options: dict[str, Any]) -> Dial:
        """How this architecture grows (options may choose between styles)."""

    @classmethod
    def complete(cls, shape: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
        """Fill config fields that follow from depth, width and the sizes; given ones are left alone."""
        return shape

    def trunk(self, x: Float[Tensor, "n T E"], tap: Tap | None) -> Float[Tensor, "n T D"]:
        """The causal part between embedding and final norm: one block after the other."""
        for index, block in enumerate(self.blocks):
            x = block(x, tap, f"blocks.{index}")
        return x

    def read(self, x: Float[Tensor, "n T E"], readout: Int64[Tensor, " K"], tap: Tap | None) -> Float[Tensor, "n K D"]:
        """The trunk at the readout positions.  An architecture may leave out what no readout depends on."""
        return self.trunk(x, tap).index_select(1, readout)

    def embed(
        self, tokens: Int64[Tensor, "n T"], features: Float[Tensor, "n T F"] | None, tap: Tap | None
    ) -> Float[Tensor, "n T E"]:
        """Embedding(token) + W_f · features: the one way in."""
        x = self.embedding(tokens)
        if self.features is not None:
            if features is None:
                raise InputError(f"features = None: must be (n, T, {self.sizes.feature_width})")
            x = x + self.features(features.to(self.features.weight.dtype))
        elif features is not None:
            raise InputError(f"features of shape {tuple(features.shape)}: must be None for a tunnel without features")
        return touch(tap, "embed", x)

    def forward(
        self,
        tokens: Int64[Tensor, "n T"],
        features: Float[Tensor, "n T F"] | None,
        readout: Int64[Tensor, " K"],
        tap: Tap | None = None,
    ) -> Float[Tensor, "n K C"]:
        """Logits at the readout positions."""
        length, limit = tokens.shape[1], self.length_limit
        if limit is not None and length > limit:
            raise InputError(f"input length = {length}: must be at most max_length = {limit} for this {self.name}")
        x = self.read(self.embed(tokens, features, tap), readout, tap)
        x = touch(tap, "final", self.final_norm(x))
        with torch.autocast(x.device.type, enabled=False):
            dtype = torch.promote_types(self.head.weight.dtype, torch.float32)
            logits = F.linear(x.to(dtype), self.head.weight.to(dtype), self.head.bias.to(dtype))
        return touch(tap, "logits", logits)

    def log_probs(self, inputs: Inputs, tap: Tap | None = None) -> Float[Tensor, "n K C"]:
        """Natural-log probabilities at the readout positions: what makes a model a predictor."""
        require_inputs(inputs)
        return F.log_softmax(self(inputs.tokens, inputs.features, inputs.readout, tap), dim=-1)

    @property
    def spec(self) -> dict[str, Any]:
        """Name, config and sizes as plain data; `models.from_spec` builds the same (fresh) model again."""
        return {"name": self.name, "config": asdict(self.config), "sizes": asdict(self.sizes)}

    @torch.no_grad()
    def taps(self, length: int | None = None) -> dict[str, tuple[int, ...]]:
        """Every tap's name with its shape, for one episode of `length` positions that are all read."""
        length = length or self.sizes.max_length
        weight = self.embedding.weight
        tokens = torch.zeros(1, length, dtype=torch.int64, device=weight.device)
        features = None if self.features is None else weight.new_zeros(1, length, self.sizes.feature_width)
        record = Record()
        self(tokens, features, torch.arange(length, device=weight.device), record)
        return {name: tuple(value.shape) for name, value in record.tensors().items()}
