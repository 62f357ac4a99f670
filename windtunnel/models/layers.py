"""Small parts that several architectures share, with their initialisation.

Initialisation keeps every branch at unit scale: weights are N(0, gain² / fan_in), biases zero.  The last projection
of a residual branch has gain 1 / √(number of branches), so the stream's variance grows by at most about 1 over the
whole depth.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.models.taps import StepEdit, Tap, touch


def only_counting() -> bool:
    """Are we on the meta device, where parameters are counted and have no values?

    Arithmetic there makes torch load its compiler, a second or more at start-up, so the functions below do none.
    """
    return torch.empty(0).is_meta


def init_normal(weight: Tensor, std: float) -> None:
    """Fill a parameter from N(0, std²), in place."""
    if not only_counting():
        nn.init.normal_(weight, std=std)


def embedding(count: int, width: int, std: float) -> nn.Embedding:
    """A table of `count` vectors from N(0, std²)."""
    if only_counting():
        return nn.Embedding.from_pretrained(torch.empty(count, width), freeze=False)  # the constructor would fill it
    table = nn.Embedding(count, width)
    init_normal(table.weight, std)
    return table


def projection(fan_in: int, fan_out: int, *, bias: bool = True, gain: float = 1.0) -> nn.Linear:
    """A linear map that takes unit-scale input to output of scale `gain`."""
    linear = nn.Linear(fan_in, fan_out, bias=bias)
    init_normal(linear.weight, gain * fan_in**-0.5)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def step_bias(size: int, low: float = 1e-3, high: float = 1e-1) -> Float[Tensor, " size"]:
    """A bias b with softplus(b) log-uniform in [low, high]: time scales from 1/high to 1/low steps."""
    if only_counting():
        return torch.empty(size)
    step = torch.exp(torch.rand(size) * math.log(high / low) + math.log(low))
    return step + torch.log(-torch.expm1(-step))  # the inverse of softplus, without overflow


class FeedForward(nn.Module):
    """W_2 · gelu(W_1 x).  Taps: `hidden` (n, T, F) after the nonlinearity, `out` (n, T, D)."""

    def __init__(self, width: int, ff_width: int, gain: float) -> None:
        super().__init__()
        self.up = projection(width, ff_width)
        self.down = projection(ff_width, width, gain=gain)

    def forward(self, x: Float[Tensor, "n T D"], tap: Tap | None, name: str) -> Float[Tensor, "n T D"]:
        hidden = touch(tap, f"{name}.hidden", F.gelu(self.up(x)))
        return touch(tap, f"{name}.out", self.down(hidden))


class CausalConv(nn.Module):
    """Depthwise convolution over the present and the past: y_t = b + Σ_j w_j x_{t−j}, zero before the start.

    Written as `size` shifted multiply-adds, which a compiler fuses into one pass over memory.  Seen as a recurrence it
    carries a window from step to step, the last size − 1 inputs: `stepped` is that loop, for whoever wants to edit it.
    """

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, channels))  # weight[j] belongs to lag j
        self.bias = nn.Parameter(torch.zeros(channels))
        init_normal(self.weight, size**-0.5)

    def forward(self, x: Float[Tensor, "n T D"], edit: StepEdit | None = None) -> Float[Tensor, "n T D"]:
        length, size = x.shape[1], self.weight.shape[0]
        if edit is not None and size > 1:
            return self.stepped(x, edit)
        padded = F.pad(x, (0, 0, size - 1, 0))
        y = self.bias + x * self.weight[0]
        for lag in range(1, size):
            y = y + padded[:, size - 1 - lag : size - 1 - lag + length] * self.weight[lag]
        return y

    def stepped(self, x: Float[Tensor, "n T D"], edit: StepEdit) -> Float[Tensor, "n T D"]:
        """Step by step, bit for bit the same.  `edit(t, window)` may replace what is carried on from step t, the inputs
        (n, size − 1, D) up to and with that of t, oldest first: y_t has been computed, later steps see the change."""
        window, outputs = x.new_zeros(x.shape[0], self.weight.shape[0] - 1, x.shape[2]), []
        for t in range(x.shape[1]):
            seen = torch.cat([window, x[:, t, None]], dim=1)
            y = self.bias
            for lag, weight in enumerate(self.weight):
                y = y + seen[:, -1 - lag] * weight
            window = edit(t, seen[:, 1:])
            outputs.append(y)
        return torch.stack(outputs, dim=1)
