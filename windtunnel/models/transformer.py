"""The Transformer: pre-norm, GELU, causal softmax attention; positions learned, rotary, by distance or none.

    x ← x + W_o · concat_h( softmax(q_h k_hᵀ / √d + causal mask) v_h )      q, k, v from norm(x)
    x ← x + W_2 · gelu(W_1 · norm(x))

`alibi` (Press et al. 2022) takes slope_h · distance off every score, with slope_h = 2^(−8h/H): some heads look at the
last few positions from the start, others far back.

Taps of block i (H heads of width d = D / H):
    blocks.i.attention.q, .k, .v     (n, H, T, d)  what the scores are made of, after any rotation
    blocks.i.attention.scores        (n, H, T, T)  q·k / √d (less the distance's share), before the causal mask
    blocks.i.attention.pattern       (n, H, T, T)  after the softmax
    blocks.i.attention.head_out      (n, H, T, d)  pattern · v; zero one head to ablate it
    blocks.i.attention.out           (n, T, D)
    blocks.i.residual_mid            (n, T, D)     between attention and feed-forward
    blocks.i.ff.hidden, .ff.out      (n, T, F), (n, T, D)
    blocks.i.residual                (n, T, D)     after the block
and before the blocks, with learned positions: `positioned` (n, T, D), embedding plus position.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from windtunnel.errors import require_choice, require_int
from windtunnel.models import kernels
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.fused import add_and_norm, up_and_gelu
from windtunnel.models.layers import FeedForward, init_normal, projection
from windtunnel.models.shape import Attending, Config, require_heads
from windtunnel.models.taps import Tap, known

POSITIONS = ("learned", "rope", "alibi", "none")


@dataclass(frozen=True)
class TransformerConfig(Config):
    """Shape and positions of a Transformer."""

    heads: int
    """H; divides width."""
    ff_width: int
    """F, width of the feed-forward hidden layer."""
    positions: str = "learned"
    """`learned` (the paper), `rope` (rotary), `alibi` (scores fall with distance) or `none`: the causal mask alone
    conveys order, and extrapolates best."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("positions", self.positions, POSITIONS)
        require_heads(self.width, self.heads, even=self.positions == "rope")
        require_int("ff_width", self.ff_width, 1)


class Attention(nn.Module):
    """Causal multi-head attention with one fused q, k, v projection."""

    def __init__(self, width: int, heads: int, gain: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = projection(width, 3 * width)
        self.out = projection(width, width, gain=gain)

    def forward(self, x: Float[Tensor, "n T D"], order: Order, tap: Tap, name: str) -> Float[Tensor, "n T D"]:
        """Written out, every tensor handed to the tap."""
        heads = known(tap, f"{name}.head_out")
        if heads is None:
            heads = explicit_attention(*separate(self.projected(x, order)), order.bias, tap, name)
        else:
            heads = tap(f"{name}.head_out", heads)
        return tap(f"{name}.out", self.out(merged(heads)))

    def mix(self, x: Float[Tensor, "n T D"], order: Order) -> Float[Tensor, "n T D"]:
        """What the heads found, before the output projection, by the fastest kernel at hand."""
        qkv = self.projected(x, order)
        if kernels.short_attention is not None and order.bias is None and kernels.takes_short_attention(qkv):
            return kernels.short_attention(qkv).flatten(2)
        q, k, v = separate(qkv)
        if order.bias is None:
            return merged(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        mask = order.bias.masked_fill(future(order.bias), -torch.inf).to(q)
        return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))

    def projected(self, x: Float[Tensor, "n T D"], order: Order) -> Float[Tensor, "n T 3 H d"]:
        """Queries, keys and values; the first two rotated where positions are."""
        n, length, width = x.shape
        qkv = self.qkv(x).view(n, length, 3, self.heads, width // self.heads)
        if order.rotation is None:
            return qkv
        return torch.cat([rotate(qkv[:, :, :2], order.rotation[:, :, None, None]), qkv[:, :, 2:]], dim=2)


def separate(qkv: Float[Tensor, "n T 3 H d"]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values, each (n, H, T, d)."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def merged(heads: Float[Tensor, "n H T d"]) -> Float[Tensor, "n T D"]:
    """Heads side by side again."""
    return heads.transpose(1, 2).flatten(2)


def explicit_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, tap: Tap, name: str
) -> Float[Tensor, "n H T d"]:
    """The plain twin of fused attention, every intermediate handed to the tap."""
    q, k, v = tap(f"{name}.q", q), tap(f"{name}.k", k), tap(f"{name}.v", v)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = tap(f"{name}.scores", scores if bias is None else scores + bias.to(scores))
    pattern = tap(f"{name}.pattern", scores.masked_fill(future(scores), -torch.inf).softmax(-1).to(v.dtype))
    return tap(f"{name}.head_out", pattern @ v)


def future(scores: Float[Tensor, "... T T"]) -> Tensor:
    """(T, T), True where the key lies after the query."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class Order(NamedTuple):
    """How attention learns of positions; both None: by the causal mask alone.

    rotation  (2, T, d/2) from `rotation_table`
    bias      (H, T, T) from `distance_bias`
    """

    rotation: Tensor | None = None
    bias: Tensor | None = None


def distance_bias(length: int, heads: int, like: Tensor) -> Float[Tensor, "H T T"]:
    """−2^(−8h/H) · (query position − key position) for heads h = 1 … H, in float32 or better."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=like.device, dtype=dtype) / heads)
    place = torch.arange(length, device=like.device, dtype=dtype)
    return slope[:, None, None] * (place[None, :] - place[:, None])


def rotation_table(length: int, head_width: int, like: Tensor) -> Float[Tensor, "2 T half"]:
    """cos and sin of t · 10000^(−2i/d), in float32 or better."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    frequency = 10_000.0 ** (-torch.arange(0, head_width, 2, device=like.device, dtype=dtype) / head_width)
    angle = torch.arange(length, device=like.device, dtype=dtype)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Float[Tensor, "... d"], table: Float[Tensor, "2 ... half"]) -> Float[Tensor, "... d"]:
    """Rotate the pair (x_i, x_{i + d/2}) of position t by the angle of (t, i); the table broadcasts against x."""
    cos, sin = table.unbind(0)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class Block(nn.Module):
    """Attention, then feed-forward, each on a normed copy of the stream and added to it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        gain = (2 * config.depth) ** -0.5
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config.width, config.heads, gain)
        self.ff_norm = nn.LayerNorm(config.width)
        self.ff = FeedForward(config.width, config.ff_width, gain)

    def forward(self, x: Float[Tensor, "n T D"], order: Order, tap: Tap, name: str) -> Float[Tensor, "n T D"]:
        """Written out, every tensor handed to the tap."""
        x = tap(f"{name}.residual_mid", x + self.attention(self.attention_norm(x), order, tap, f"{name}.attention"))
        return tap(f"{name}.residual", x + self.ff(self.ff_norm(x), tap, f"{name}.ff"))


class Transformer(Attending, SequenceModel):
    """Causal softmax attention: tokens (n, T) to logits (n, K, C) at the readouts, through a stream (n, T, D)."""

    name = "transformer"
    summary = "pre-norm softmax attention and feed-forward; positions learned, rope, alibi or none"
    config_class = TransformerConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper-bijection": {"depth": 6, "width": 192, "heads": 6, "ff_width": 768},
        "paper-hmm": {"depth": 9, "width": 256, "heads": 8, "ff_width": 1024},
    }

    def __init__(self, config: TransformerConfig, sizes: Sizes) -> None:
        super().__init__(config, sizes)
        self.head_width = config.width // config.heads
        self.heads, self.positions = config.heads, config.positions
        self.position = None
        if config.positions == "learned":
            self.length_limit = sizes.max_length
            self.position = nn.Parameter(torch.empty(sizes.max_length, config.width))
            init_normal(self.position, 0.5)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))

    def trunk(self, x: Float[Tensor, "n T D"], tap: Tap | None) -> Float[Tensor, "n T D"]:
        """Written out; `read` without a tap is its fast twin."""
        tap = tap or (lambda name, value: value)
        if self.position is not None:
            x = tap("positioned", self._positioned(x))
        order = self._order(x)
        for index, block in enumerate(self.blocks):
            x = block(x, order, tap, f"blocks.{index}")
        return x

    def read(self, x: Float[Tensor, "n T D"], readout: Int64[Tensor, " K"], tap: Tap | None) -> Tensor:
        """Without a tap, adding a branch to the stream and norming it for the next branch is one step; and in the last
        block, once attention has mixed the positions, only those that are read go on."""
        if tap is not None:
            return super().read(x, readout, tap)
        x, order, blocks = self._positioned(x), self._order(x), cast(list[Block], list(self.blocks))
        normed = blocks[0].attention_norm(x)
        for block, following in pairwise(blocks):
            x, normed = add_and_norm(x, block.attention.mix(normed, order), block.attention.out, block.ff_norm)
            x, normed = add_and_norm(x, up_and_gelu(normed, block.ff.up), block.ff.down, following.attention_norm)
        last = blocks[-1]
        heads = last.attention.mix(normed, order).index_select(1, readout)
        x, normed = add_and_norm(x.index_select(1, readout), heads, last.attention.out, last.ff_norm)
        return x + last.ff.down(up_and_gelu(normed, last.ff.up))

    def _positioned(self, x: Float[Tensor, "n T D"]) -> Float[Tensor, "n T D"]:
        return x if self.position is None else x + self.position[: x.shape[1]]

    def _order(self, x: Float[Tensor, "n T D"]) -> Order:
        if self.positions == "rope":
            return Order(rotation=rotation_table(x.shape[1], self.head_width, x))
        if self.positions == "alibi":
            return Order(bias=distance_bias(x.shape[1], self.heads, x))
        return Order()
