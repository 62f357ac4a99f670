"""Mamba: a selective state-space model (Gu and Dao 2023), one mixer per residual block, no feed-forward part.

    u, z    = W_in · norm(x)                                 E channels each
    c       = silu(causal depthwise convolution of u)
    r, B, C = W_x · c                                        r of low rank; B, C of S numbers each, shared by channels
    Δ       = softplus(W_Δ r + b)                            a step size per channel and position
    h_t     = exp(Δ_t A) h_{t−1} + Δ_t c_t B_t               A = −exp(A_log), per channel and state
    y_t     = C_t · h_t + D c_t
    x       ← x + W_out (y · silu(z))

On a GPU and without a tap, all between W_x and W_out is one kernel each way (`mamba_cuda`).

Initialised as published: A[e, s] = −(s + 1) (the real S4D start), softplus(b) log-uniform in [0.001, 0.1], D = 1.

Taps of block i:
    blocks.i.mamba.window   (n, T, W, E)  the last W = conv − 1 of u, all that the convolution carries on; step by step,
                                          as h.  Not there if conv = 1
    blocks.i.mamba.conv     (n, T, E)     c
    blocks.i.mamba.gate     (n, T, E)     silu(z)
    blocks.i.mamba.delta    (n, T, E)     Δ
    blocks.i.mamba.B, .C    (n, T, S)
    blocks.i.mamba.state    (n, T, E, S)  h, passed step by step: an edit is carried on
    blocks.i.mamba.y        (n, T, E)     before the gate
    blocks.i.mamba.out      (n, T, D)
    blocks.i.residual       (n, T, D)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.errors import require_int
from windtunnel.models import kernels
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.layers import CausalConv, projection, step_bias
from windtunnel.models.scan import selective_scan
from windtunnel.models.shape import Config, Dial
from windtunnel.models.taps import Tap, each_step, touch


@dataclass(frozen=True)
class MambaConfig(Config):
    """Shape of a Mamba."""

    inner: int
    """E, channels of the state-space part; 2 · width in the original."""
    rank: int
    """Rank of the step size; ⌈width / 16⌉ in the original, here by default the next multiple of 8: tensor cores."""
    state: int = 16
    """S, states per channel."""
    conv: int = 4
    """Width of the causal convolution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("inner", "rank", "state", "conv"):
            require_int(field, getattr(self, field), 1)


class Mixer(nn.Module):
    """The selective state-space layer."""

    def __init__(self, config: MambaConfig, gain: float) -> None:
        super().__init__()
        self.states, self.split = config.state, [config.rank, 2 * config.state]
        self.in_proj = projection(config.width, 2 * config.inner, bias=False)
        self.conv = CausalConv(config.inner, config.conv)
        self.x_proj = projection(config.inner, sum(self.split), bias=False)
        self.dt_proj = projection(config.rank, config.inner)
        with torch.no_grad():
            self.dt_proj.bias.copy_(step_bias(config.inner))
        rates = [math.log(s + 1) for s in range(config.state)]
        self.A_log = nn.Parameter(torch.tensor(rates, dtype=self.dt_proj.weight.dtype).repeat(config.inner, 1))
        self.D = nn.Parameter(torch.ones(config.inner))
        self.out_proj = projection(config.inner, config.width, bias=False, gain=gain)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        u, z = self.in_proj(x).chunk(2, dim=-1)
        c = touch(tap, f"{name}.conv", F.silu(self.conv(u, each_step(tap, f"{name}.window"))))
        low_rank, BC = self.x_proj(c).split(self.split, dim=-1)
        raw_delta, A = self.dt_proj(low_rank), -torch.exp(self.A_log)
        if tap is None and kernels.mamba_core is not None and kernels.takes_mamba_core(z, self.states):
            return self.out_proj(kernels.mamba_core(c, raw_delta, A, BC, self.D, z))
        gate = touch(tap, f"{name}.gate", F.silu(z))
        delta = touch(tap, f"{name}.delta", F.softplus(raw_delta))
        B, C = (touch(tap, f"{name}.{part}", value) for part, value in zip("BC", BC.chunk(2, dim=-1)))
        y = selective_scan(c, delta, A, B, C, edit=each_step(tap, f"{name}.state"))
        y = touch(tap, f"{name}.y", y + self.D * c)
        mixed = (y * gate).to(self.out_proj.weight.dtype)  # the scan is in float32, a network may be in bfloat16
        return touch(tap, f"{name}.out", self.out_proj(mixed))


class Block(nn.Module):
    """A mixer on a normed copy of the stream, added to it."""

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.mamba = Mixer(config, gain=config.depth**-0.5)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        return touch(tap, f"{name}.residual", x + self.mamba(self.norm(x), tap, f"{name}.mamba"))


class Mamba(SequenceModel):
    """Selective state-space blocks: tokens (n, T) to logits (n, K, C) at the readouts; every block carries (E, S)
    numbers from step to step."""

    name = "mamba"
    summary = "selective state-space blocks: input-dependent decay, causal convolution, gate"
    config_class = MambaConfig
    norm_class = nn.RMSNorm
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper-bijection": {"depth": 6, "width": 192},
        "paper-hmm": {"depth": 9, "width": 256},
    }

    def __init__(self, config: MambaConfig, sizes: Sizes) -> None:
        super().__init__(config, sizes)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))

    @classmethod
    def dial(cls, options: dict[str, Any]) -> Dial:
        return Dial(aspect=30, block=6.5, absorber="inner", ratio=2, low=1, high=4)

    @classmethod
    def complete(cls, shape: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
        width = shape["width"]
        return {"inner": 2 * width, "rank": 8 * math.ceil(width / 128)} | shape
