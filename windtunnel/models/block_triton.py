"""What stands between the matrix products of a block, one pass over memory each way; plain twins in `fused`.

    add_norm    s = x + (branch + bias)        y = gain · (s − mean) / √(var + ε) + shift
    bias_gelu   h = a Φ(a),  a = u + bias      Φ the normal distribution function

A compiler fuses these too, but leaves the gradients of bias, gain and shift (sums over all positions) to passes of
their own, and the copy in bfloat16 that the next product reads to another.  Here one pass back gives all of them:

    ds    = (w − x̂ mean(w x̂) − mean(w)) / σ + g,   w = gain · dy,  g the gradient that reaches s along the stream
    dbias = Σ ds      dgain = Σ dy x̂      dshift = Σ dy      over rows: partial sums, added up outside (no atomics)
    da    = dh (Φ(a) + a φ(a))                               φ the normal density

The stream x is float32; branch, y, u and h are what the products speak, bfloat16.  All arithmetic is float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice


class Tiling(NamedTuple):
    """How a kernel is cut up: rows per turn, columns (where not all), warps, programs (each leaves partial sums)."""

    rows: int
    columns: int
    warps: int
    programs: int


# The best on an H200, or within 2% of it, at 30,720 rows of 256 and of 1,024: benchmarks/results/h200/tiling.txt.
_ADD_NORM, _ADD_NORM_BACKWARD = Tiling(4, 0, 4, 0), Tiling(2, 0, 2, 1056)
_GELU, _GELU_BACKWARD = Tiling(16, 256, 4, 0), Tiling(32, 128, 8, 528)


@triton.jit
def _normal_tail(size, density):
    """Φ(−size) for size ≥ 0, given exp(−size²/2): Abramowitz and Stegun 7.1.26, off by at most 8e-8."""
    t = libdevice.fast_dividef(1.0, 1.0 + 0.3275911 * 0.7071067811865476 * size)
    sum = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    return 0.5 * density * t * (0.254829592 + t * (-0.284496736 + t * sum))


@triton.jit
def _normal(a):
    """Φ(a) and exp(−a²/2)."""
    density = tl.exp(-0.5 * a * a)
    tail = _normal_tail(tl.abs(a), density)
    return tl.where(a > 0, 1.0 - tail, tail), density


@triton.jit
def _standardised(s, in_d, D, eps):
    """(s − mean) / σ of each row, and 1 / σ."""
    centred = tl.where(in_d[None, :], s - (tl.sum(s, 1) / D)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / D + eps)
    return centred * scale[:, None], scale


@triton.jit
def _add_norm_kernel(
    x, branch, bias, gain, shift, total, normed, N, D, eps, ROWS: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    in_d = d < D
    inside = (row < N)[:, None] & in_d[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    added = tl.load(branch + place, mask=inside, other=0.0).to(tl.float32)
    added += tl.load(bias + d, mask=in_d, other=0.0)[None, :]
    s = tl.load(x + place, mask=inside, other=0.0) + added
    tl.store(total + place, s, mask=inside)
    standard, _ = _standardised(tl.where(in_d[None, :], s, 0.0), in_d, D, eps)
    y = standard * tl.load(gain + d, mask=in_d, other=0.0)[None, :] + tl.load(shift + d, mask=in_d, other=0.0)[None, :]
    tl.store(normed + place, y.to(normed.dtype.element_ty), mask=inside)


@triton.jit
def _add_norm_backward_kernel(
    total, gain, g_total, g_normed, dx, dbranch, sums, N, D, eps, ROWS: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    program, d = tl.program_id(0), tl.arange(0, BLOCK_D)
    in_d = d < D
    scale = tl.load(gain + d, mask=in_d, other=0.0)[None, :]
    dgain = tl.zeros((ROWS, BLOCK_D), dtype=tl.float32)
    dshift = tl.zeros((ROWS, BLOCK_D), dtype=tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_D), dtype=tl.float32)
    for first in range(program * ROWS, N, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < N)[:, None] & in_d[None, :]
        place = row.to(tl.int64)[:, None] * D + d[None, :]
        standard, inverse = _standardised(tl.load(total + place, mask=inside, other=0.0), in_d, D, eps)
        dy = tl.load(g_normed + place, mask=inside, other=0.0).to(tl.float32)
        w = dy * scale
        along, mean = tl.sum(w * standard, 1) / D, tl.sum(w, 1) / D
        ds = (w - standard * along[:, None] - mean[:, None]) * inverse[:, None]
        ds = tl.where(inside, ds + tl.load(g_total + place, mask=inside, other=0.0), 0.0)
        tl.store(dx + place, ds, mask=inside)
        tl.store(dbranch + place, ds.to(dbranch.dtype.element_ty), mask=inside)
        dgain += dy * standard
        dshift += dy
        dbias += ds
    left = sums + program * 3 * D + d
    tl.store(left, tl.sum(dbias, 0), mask=in_d)
    tl.store(left + D, tl.sum(dgain, 0), mask=in_d)
    tl.store(left + 2 * D, tl.sum(dshift, 0), mask=in_d)


@triton.jit
def _bias_gelu_kernel(u, bias, h, N, units, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    F = units * UNIT  # so that the compiler knows what divides it, and loads many numbers at once
    row, f = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < N)[:, None] & (f < F)[None, :]
    place = row.to(tl.int64)[:, None] * F + f[None, :]
    a = tl.load(u + place, mask=inside, other=0.0).to(tl.float32) + tl.load(bias + f, mask=f < F, other=0.0)[None, :]
    below, _ = _normal(a)
    tl.store(h + place, (a * below).to(h.dtype.element_ty), mask=inside)


@triton.jit
def _bias_gelu_backward_kernel(
    u, bias, dh, du, sums, N, units, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    F = units * UNIT
    program, f = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_f = f < F
    shift = tl.load(bias + f, mask=in_f, other=0.0)[None, :]
    dbias = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(program * ROWS, N, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < N)[:, None] & in_f[None, :]
        place = row.to(tl.int64)[:, None] * F + f[None, :]
        a = tl.load(u + place, mask=inside, other=0.0).to(tl.float32) + shift
        below, density = _normal(a)
        da = tl.load(dh + place, mask=inside, other=0.0).to(tl.float32) * (below + a * density * 0.3989422804014327)
        tl.store(du + place, da.to(du.dtype.element_ty), mask=inside)
        dbias += da
    tl.store(sums + program * F + f, tl.sum(dbias, 0), mask=in_f)


def _size(x: Tensor) -> tuple[int, int]:
    """Rows and width."""
    return x.numel() // x.shape[-1], x.shape[-1]


def _like(x: Tensor) -> Tensor:
    """Empty, contiguous."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _norm_sums(total: Tensor) -> Tensor:
    """Room for the partial sums of bias, gain and shift (programs, 3, D)."""
    rows, width = _size(total)
    return total.new_empty(min(_ADD_NORM_BACKWARD.programs, triton.cdiv(rows, _ADD_NORM_BACKWARD.rows)), 3, width)


def _gelu_sums(u: Tensor, bias: Tensor) -> Tensor:
    """Room for the partial sums of the bias (programs, F)."""
    rows, width = _size(u)
    columns = triton.cdiv(width, _GELU_BACKWARD.columns)
    programs = min(triton.cdiv(_GELU_BACKWARD.programs, columns), triton.cdiv(rows, _GELU_BACKWARD.rows))
    return bias.new_empty(programs, width)


def _unit(width: int) -> dict[str, int]:
    return {"units": width // 8, "UNIT": 8} if width % 8 == 0 else {"units": width, "UNIT": 1}


@torch.library.custom_op("windtunnel::add_norm", mutates_args=())
def _add_norm(
    x: Tensor, branch: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    x, branch = x.contiguous(), branch.contiguous()
    total, normed = _like(x), _like(branch)
    (rows, width), tiling = _size(x), _ADD_NORM
    kernel = _add_norm_kernel[(triton.cdiv(rows, tiling.rows),)]
    sizes = {"ROWS": tiling.rows, "BLOCK_D": triton.next_power_of_2(width), "num_warps": tiling.warps}
    kernel(x, branch, bias, gain, shift, total, normed, rows, width, eps, **sizes)
    return total, normed


@torch.library.custom_op("windtunnel::add_norm_backward", mutates_args=())
def _add_norm_backward(
    total: Tensor, gain: Tensor, g_total: Tensor, g_normed: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and branch, and partial sums (programs, 3, D) of those of bias, gain and shift."""
    g_total, g_normed = g_total.contiguous(), g_normed.contiguous()
    dx, dbranch, sums = _like(total), _like(g_normed), _norm_sums(total)
    (rows, width), tiling = _size(total), _ADD_NORM_BACKWARD
    kernel = _add_norm_backward_kernel[(len(sums),)]
    sizes = {"ROWS": tiling.rows, "BLOCK_D": triton.next_power_of_2(width), "num_warps": tiling.warps}
    kernel(total, gain, g_total, g_normed, dx, dbranch, sums, rows, width, eps, **sizes)
    return dx, dbranch, sums


@torch.library.custom_op("windtunnel::bias_gelu", mutates_args=())
def _bias_gelu(u: Tensor, bias: Tensor) -> Tensor:
    u = u.contiguous()
    h = _like(u)
    (rows, width), tiling = _size(u), _GELU
    grid = (triton.cdiv(rows, tiling.rows), triton.cdiv(width, tiling.columns))
    sizes = {"ROWS": tiling.rows, "COLUMNS": tiling.columns, "num_warps": tiling.warps}
    _bias_gelu_kernel[grid](u, bias, h, rows, **_unit(width), **sizes)
    return h


@torch.library.custom_op("windtunnel::bias_gelu_backward", mutates_args=())
def _bias_gelu_backward(u: Tensor, bias: Tensor, dh: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of u, and partial sums (programs, F) of that of the bias."""
    u, dh = u.contiguous(), dh.contiguous()
    du, sums = _like(u), _gelu_sums(u, bias)
    (rows, width), tiling = _size(u), _GELU_BACKWARD
    grid = (len(sums), triton.cdiv(width, tiling.columns))
    sizes = {"ROWS": tiling.rows, "COLUMNS": tiling.columns, "num_warps": tiling.warps}
    kernel = _bias_gelu_backward_kernel[grid]
    kernel(u, bias, dh, du, sums, rows, **_unit(width), **sizes)
    return du, sums


_add_norm.register_fake(lambda x, branch, bias, gain, shift, eps: (_like(x), _like(branch)))
_add_norm_backward.register_fake(
    lambda total, gain, g_total, g_normed, eps: (_like(total), _like(g_normed), _norm_sums(total))
)
_bias_gelu.register_fake(lambda u, bias: _like(u))
_bias_gelu_backward.register_fake(lambda u, bias, dh: (_like(u), _gelu_sums(u, bias)))


def _keep_sum(ctx, inputs, output) -> None:
    ctx.eps = inputs[5]
    ctx.save_for_backward(output[0], inputs[3])


def _add_norm_gradients(ctx, g_total, g_normed):
    total, gain = ctx.saved_tensors
    dx, dbranch, sums = _add_norm_backward(total, gain, g_total, g_normed, ctx.eps)
    dbias, dgain, dshift = sums.sum(0).unbind(0)
    return dx, dbranch, dbias, dgain, dshift, None


def _bias_gelu_gradients(ctx, dh):
    du, sums = _bias_gelu_backward(*ctx.saved_tensors, dh)
    return du, sums.sum(0)


_add_norm.register_autograd(_add_norm_gradients, setup_context=_keep_sum)
_bias_gelu.register_autograd(
    _bias_gelu_gradients, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


def add_norm(x: Tensor, branch: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The stream after a branch is added, float32 (…, D), and its norm in the branch's bfloat16 (…, D)."""
    return _add_norm(x, branch, bias, gain, shift, eps)


def bias_gelu(u: Tensor, bias: Tensor) -> Tensor:
    """gelu(u + bias) for bfloat16 u (…, F) and a float32 bias (F,)."""
    return _bias_gelu(u, bias)
