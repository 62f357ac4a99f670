"""MLP: no mixing over time except in what its first layer reads.

    context="full"       h_t = b_t + Σ_{s ≤ t} W_s x_s      W_s (E × D) belongs to absolute position s
    context="position"   h_t = b_t + x_t                    the paper's kind: sees one position, cannot infer in context
    then, per position   h ← h + W_2 · gelu(W_1 · norm(h))

The full form is exactly an MLP on the flattened context, padded with zeros after t: the sum is the product of the
flattened weights with the padded input, and b_t stands for the number of pad positions.  Computed as a prefix sum it
costs one product per position instead of one per (readout, position) pair.

W takes T · E · D weights, so the embedding is narrow where inputs are long.

Taps:
    context.products          (n, T, D)   W_s x_s (full)
    context.sum               (n, T, D)   h before the blocks
    blocks.i.ff.hidden, .out  (n, T, F), (n, T, D)
    blocks.i.residual         (n, T, D)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.errors import require, require_choice, require_int
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.layers import FeedForward, init_normal
from windtunnel.models.shape import Config, Dial
from windtunnel.models.taps import Tap, touch

CONTEXTS = ("full", "position")
_EMBED_WIDTHS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)


@dataclass(frozen=True)
class MLPConfig(Config):
    """Shape and context of an MLP."""

    ff_width: int
    """F, width of the hidden layer of each residual block."""
    context: str = "full"
    embed_width: int = 0
    """E, width of the token embedding (full); 0, meaning `width`, for context="position"."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("context", self.context, CONTEXTS)
        require_int("ff_width", self.ff_width, 1)
        if self.context == "full":
            require_int("embed_width", self.embed_width, 1)
        else:
            require(self.embed_width == 0, "embed_width", self.embed_width, "0 when context is position")


class PrefixSum(nn.Module):
    """Σ_{s ≤ t} W_s x_s for every t."""

    def __init__(self, length: int, embed_width: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, embed_width, width))
        init_normal(self.weight, (length * embed_width) ** -0.5)  # unit scale (over that of x) at the last position

    def forward(self, x: Float[Tensor, "n T E"], tap: Tap | None) -> Float[Tensor, "n T D"]:
        products = torch.einsum("nte,ted->ntd", x, self.weight[: x.shape[1]])
        return touch(tap, "context.products", products).cumsum(1)


class Block(nn.Module):
    """A feed-forward part on a normed copy of the stream, added to it."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.ff = FeedForward(config.width, config.ff_width, gain=config.depth**-0.5)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        return touch(tap, f"{name}.residual", x + self.ff(self.norm(x), tap, f"{name}.ff"))


class MLP(SequenceModel):
    """A residual MLP at every position, on its flattened context or on its own token alone: tokens (n, T) to logits
    (n, K, C) at the readouts."""

    name = "mlp"
    summary = "residual MLP on the flattened causal context (context=full) or on one position (context=position)"
    config_class = MLPConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper-bijection": {"depth": 9, "width": 384, "ff_width": 384, "context": "position"},  # 18 layers of 384
        "paper-hmm": {"depth": 10, "width": 400, "ff_width": 400, "context": "position"},  # 20 layers of 400
    }

    def __init__(self, config: MLPConfig, sizes: Sizes) -> None:
        super().__init__(config, sizes, config.embed_width)
        self.length_limit = sizes.max_length
        self.mixing = None
        if config.context == "full":
            self.mixing = PrefixSum(sizes.max_length, config.embed_width, config.width)
        self.position = nn.Parameter(torch.empty(sizes.max_length, config.width))
        init_normal(self.position, 0.5)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))

    @classmethod
    def dial(cls, options: dict[str, Any]) -> Dial:
        # Half of a full-context network is its first layer, see `complete`.
        block = 16 if options.get("context", "full") == "full" else 8
        return Dial(aspect=30, block=block, absorber="ff_width", ratio=4, low=0.5, high=8, shallow=2)

    @classmethod
    def complete(cls, shape: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
        depth, width = shape["depth"], shape["width"]
        filled: dict[str, Any] = {"ff_width": 4 * width}
        if shape.get("context", "full") == "full":
            # The widest embedding whose first layer (T · E · D) costs no more than the blocks (depth · 8 · D²).
            affordable = [embed for embed in _EMBED_WIDTHS if sizes.max_length * embed <= 8 * depth * width]
            filled["embed_width"] = affordable[0] if affordable else _EMBED_WIDTHS[-1]
        return filled | shape

    def trunk(self, x: Float[Tensor, "n T E"], tap: Tap | None) -> Float[Tensor, "n T D"]:
        if self.mixing is not None:
            x = self.mixing(x, tap)
        return super().trunk(touch(tap, "context.sum", x + self.position[: x.shape[1]]), tap)
