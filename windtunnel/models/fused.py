"""Steps of a block that a GPU does in one pass (`block_triton`); elsewhere, and in other precisions, the plain form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.models import kernels


def add_and_norm(
    x: Float[Tensor, "n T D"], inner: Float[Tensor, "n T E"], out: nn.Linear, norm: nn.LayerNorm
) -> tuple[Float[Tensor, "n T D"], Float[Tensor, "n T D"]]:
    """The stream with a branch added, x + out(inner), and the norm of that."""
    if kernels.add_norm is not None and _half_precision(x):
        return kernels.add_norm(x, F.linear(inner, out.weight), out.bias, norm.weight, norm.bias, norm.eps)
    x = x + out(inner)
    return x, norm(x)


def up_and_gelu(x: Float[Tensor, "n T D"], up: nn.Linear) -> Float[Tensor, "n T F"]:
    """gelu(up(x))."""
    if kernels.bias_gelu is not None and _half_precision(x):
        return kernels.bias_gelu(F.linear(x, up.weight), up.bias)
    return F.gelu(up(x))


def _half_precision(x: Tensor) -> bool:
    """Do matrix products run in bfloat16 here, on a GPU, as in training?"""
    return x.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
