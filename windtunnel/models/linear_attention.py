"""Linear attention with the gated delta rule: is *softmax* attention needed, or does any content-addressed memory do?

    q, k, v = silu(causal depthwise convolution of W_qkv · norm(x))      H heads; q and k then scaled to unit length
    β       = sigmoid(W_β · norm(x) + b)                                 how far the stored value moves, per head
    log α   = −softplus(W_α · norm(x) + b)                               how much the memory fades, per head
    S_t     = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ              a d × d memory per head
    x       ← x + W_o · concat_h( rmsnorm(S_tᵀ q_t) )
    x       ← x + W_2 · gelu(W_1 · norm(x))

Taps of block i (H heads of width d = D / H):
    blocks.i.attention.window      (n, T, W, 3 D)   the last W = conv − 1 of W_qkv · norm(x), all that the convolution
                                                    carries on; step by step, as S.  Not there if conv = 1
    blocks.i.attention.q, .k, .v   (n, H, T, d)     as they enter the rule
    blocks.i.attention.beta        (n, H, T)
    blocks.i.attention.decay       (n, H, T)        log α
    blocks.i.attention.state       (n, T, H, d, d)  S (key × value), handed over step by step: an edit is carried on
    blocks.i.attention.read        (n, H, T, d)     S_tᵀ q_t
    blocks.i.attention.head_out    (n, H, T, d)     after the norm; zero one head to ablate it
    blocks.i.attention.out         (n, T, D)
    blocks.i.residual_mid, .ff.hidden, .ff.out, .residual   as in the Transformer
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.errors import require_int
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.delta import delta_rule
from windtunnel.models.layers import CausalConv, FeedForward, projection, step_bias
from windtunnel.models.shape import Attending, Config, require_heads
from windtunnel.models.taps import Tap, each_step, touch


@dataclass(frozen=True)
class LinearAttentionConfig(Config):
    """Shape of a gated delta-rule network."""

    heads: int
    """H; divides width."""
    ff_width: int
    """F, width of the feed-forward hidden layer."""
    conv: int = 4
    """Width of the causal convolution on q, k and v."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.width, self.heads)
        require_int("ff_width", self.ff_width, 1)
        require_int("conv", self.conv, 1)


class DeltaAttention(nn.Module):
    """The gated delta rule with its projections."""

    def __init__(self, width: int, heads: int, conv: int, gain: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = projection(width, 3 * width, bias=False)
        self.conv = CausalConv(3 * width, conv)
        self.beta = projection(width, heads)
        self.decay = projection(width, heads, gain=0.1)  # at the start a head's time scale is its bias
        with torch.no_grad():
            self.decay.bias.copy_(step_bias(heads))
        self.norm = nn.RMSNorm(width // heads, eps=1e-5)
        self.out = projection(width, width, bias=False, gain=gain)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        n, length, width = x.shape
        mixed = F.silu(self.conv(self.qkv(x), each_step(tap, f"{name}.window")))
        q, k, v = mixed.view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = F.normalize(q, dim=-1, eps=1e-6), F.normalize(k, dim=-1, eps=1e-6)
        beta = torch.sigmoid(self.beta(x)).transpose(1, 2)
        log_decay = -F.softplus(self.decay(x)).transpose(1, 2)
        if tap is not None:
            q, k, v = tap(f"{name}.q", q), tap(f"{name}.k", k), tap(f"{name}.v", v)
            beta, log_decay = tap(f"{name}.beta", beta), tap(f"{name}.decay", log_decay)
        read = delta_rule(q, k, v, beta, log_decay, edit=each_step(tap, f"{name}.state"))
        read = touch(tap, f"{name}.read", read.to(self.norm.weight.dtype))  # the rule is in float32, at least
        heads = touch(tap, f"{name}.head_out", self.norm(read))
        out = self.out(heads.transpose(1, 2).reshape(n, length, width))
        return touch(tap, f"{name}.out", out)


class Block(nn.Module):
    """Delta-rule memory, then feed-forward, each on a normed copy of the stream and added to it."""

    def __init__(self, config: LinearAttentionConfig) -> None:
        super().__init__()
        gain = (2 * config.depth) ** -0.5
        self.attention_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = DeltaAttention(config.width, config.heads, config.conv, gain)
        self.ff_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.ff = FeedForward(config.width, config.ff_width, gain)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        x = x + self.attention(self.attention_norm(x), tap, f"{name}.attention")
        x = touch(tap, f"{name}.residual_mid", x)
        x = x + self.ff(self.ff_norm(x), tap, f"{name}.ff")
        return touch(tap, f"{name}.residual", x)


class LinearAttention(Attending, SequenceModel):
    """The gated delta rule: tokens (n, T) to logits (n, K, C) at the readouts; carries a d × d memory per head."""

    name = "linear-attention"
    summary = "gated delta rule: attention without softmax, a matrix memory per head"
    config_class = LinearAttentionConfig
    norm_class = nn.RMSNorm

    def __init__(self, config: LinearAttentionConfig, sizes: Sizes) -> None:
        super().__init__(config, sizes)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
