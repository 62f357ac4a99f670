"""Inverses of many small unit lower-triangular matrices as one GPU kernel; the plain twin is `solve_triangular`.

The delta rule solves one such system per head and chunk, some ten thousand of at most 64 × 64.  Here one program owns
one matrix and finds the inverse X of I + L row by row, by forward substitution, all of it in registers:

    X_i = e_i − Σ_{j<i} L_ij X_j                     dL = −strictly lower part of Xᵀ dX Xᵀ

No row is found from powers of L, which would lose all digits when keys repeat (`delta.py`).  Against the
library it is faster up to 32 × 32, where one warp holds a matrix, and slower at 39 × 39: docs/results.md.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _inverse_kernel(lower, inverse, C, BLOCK: tl.constexpr):
    source, target = lower + tl.program_id(0).to(tl.int64) * C * C, inverse + tl.program_id(0).to(tl.int64) * C * C
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    found = tl.where(row == column, 1.0, 0.0)
    for i in range(1, C):
        weights = tl.load(source + i * C + row, mask=row < i, other=0.0)  # L_ij down the rows j that are done
        solved = tl.sum(weights * found, 0)[None, :]
        found = tl.where(row == i, found - solved, found)
    tl.store(target + row * C + column, found, mask=(row < C) & (column < C))


def _launch(kernel, lower: Tensor, inverse: Tensor) -> None:
    size = lower.shape[-1]
    block = max(16, triton.next_power_of_2(size))
    kernel[(lower.numel() // size**2,)](lower, inverse, size, BLOCK=block, num_warps=1 if block < 64 else 4)


@torch.library.custom_op("windtunnel::unit_lower_inverse", mutates_args=())
def _inverse(lower: Tensor) -> Tensor:
    inverse = torch.empty_like(lower)
    _launch(_inverse_kernel, lower, inverse)
    return inverse


@_inverse.register_fake
def _(lower):
    return torch.empty_like(lower)


def _backward(ctx, upstream: Tensor) -> Tensor:
    (inverse,) = ctx.saved_tensors
    flipped = inverse.transpose(-1, -2)
    return -(flipped @ upstream @ flipped).tril(-1)


_inverse.register_autograd(_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))


def unit_lower_inverse(lower: Tensor) -> Tensor:
    """(I + L)⁻¹ of float32 matrices (…, C, C), C at most 64, of which only what lies below the diagonal is read."""
    return _inverse(lower.contiguous())
