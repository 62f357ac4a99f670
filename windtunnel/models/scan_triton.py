"""The selective scan as one GPU kernel each way; its plain twin is `scan.selective_scan_sequential`.

A program owns one episode and a block of channels and walks along time with the states in registers, so the
(n, T, E, S) tensors of the other forms never exist in the forward pass.  The backward pass walks forward once more,
leaving its states in a scratch buffer, then back in time with the adjoint g of the state:

    g_t   = C_t dy_t + exp(Δ_{t+1} A) g_{t+1}
    dC_t  = Σ_e dy_t h_t             dB_t = Σ_e g_t Δ_t x_t          dx_t = Δ_t Σ_s g_t B_t
    dΔ_t  = Σ_s g_t (A exp(Δ_t A) h_{t−1} + x_t B_t)                 dA   = Σ_t g_t Δ_t exp(Δ_t A) h_{t−1}

Sums over channels and episodes are written as partial sums and added up outside: no atomics, so results repeat.
All in float32, with the exact exponential: the fast one is off by 2e-7 at every step, which a long memory adds up.
Registered as operators, so that `torch.compile` and CUDA graphs take them as they are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_CHANNELS = 64  # channels per program
_WARPS = 1  # one warp: sums over channels are shuffles, with no barrier between the steps


@triton.jit
def _forward_kernel(x, delta, a, b, c, y, T, E, S, BLOCK_E: tl.constexpr, BLOCK_S: tl.constexpr):
    episode = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * BLOCK_E + tl.arange(0, BLOCK_E)
    s = tl.arange(0, BLOCK_S)
    in_e, in_s = e < E, s < S
    rate = tl.load(a + e[:, None] * S + s[None, :], mask=in_e[:, None] & in_s[None, :], other=0.0)
    h = tl.zeros((BLOCK_E, BLOCK_S), dtype=tl.float32)
    for t in range(T):
        row = episode * T + t
        d = tl.load(delta + row * E + e, mask=in_e, other=0.0)
        u = tl.load(x + row * E + e, mask=in_e, other=0.0)
        bt = tl.load(b + row * S + s, mask=in_s, other=0.0)
        ct = tl.load(c + row * S + s, mask=in_s, other=0.0)
        h = libdevice.exp(d[:, None] * rate) * h + (d * u)[:, None] * bt[None, :]
        tl.store(y + row * E + e, tl.sum(h * ct[None, :], 1), mask=in_e)


@triton.jit
def _backward_kernel(
    x, delta, a, b, c, dy, states, dx, ddelta, da, db, dc, T, E, S, BLOCK_E: tl.constexpr, BLOCK_S: tl.constexpr
):
    episode, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    blocks = tl.num_programs(1)
    e = block * BLOCK_E + tl.arange(0, BLOCK_E)
    s = tl.arange(0, BLOCK_S)
    in_e, in_s = e < E, s < S
    both = in_e[:, None] & in_s[None, :]
    place = e[:, None] * S + s[None, :]
    rate = tl.load(a + place, mask=both, other=0.0)
    h = tl.zeros((BLOCK_E, BLOCK_S), dtype=tl.float32)
    for t in range(T):
        row = episode * T + t
        tl.store(states + row * E * S + place, h, mask=both)  # the state *before* step t
        d = tl.load(delta + row * E + e, mask=in_e, other=0.0)
        u = tl.load(x + row * E + e, mask=in_e, other=0.0)
        bt = tl.load(b + row * S + s, mask=in_s, other=0.0)
        h = libdevice.exp(d[:, None] * rate) * h + (d * u)[:, None] * bt[None, :]
    tl.debug_barrier()  # what one thread left in the scratch buffer another may read
    g = tl.zeros((BLOCK_E, BLOCK_S), dtype=tl.float32)
    da_sum = tl.zeros((BLOCK_E, BLOCK_S), dtype=tl.float32)
    da_lost = tl.zeros((BLOCK_E, BLOCK_S), dtype=tl.float32)  # Kahan: long sums of both signs lose digits otherwise
    for i in range(T):
        row = episode * T + (T - 1 - i)
        d = tl.load(delta + row * E + e, mask=in_e, other=0.0)
        u = tl.load(x + row * E + e, mask=in_e, other=0.0)
        out = tl.load(dy + row * E + e, mask=in_e, other=0.0)
        bt = tl.load(b + row * S + s, mask=in_s, other=0.0)
        ct = tl.load(c + row * S + s, mask=in_s, other=0.0)
        before = tl.load(states + row * E * S + place, mask=both, other=0.0)
        decay = libdevice.exp(d[:, None] * rate)
        partial = (episode * blocks + block) * T + (T - 1 - i)
        tl.store(dc + partial * S + s, tl.sum(out[:, None] * h, 0), mask=in_s)
        g += out[:, None] * ct[None, :]
        tl.store(db + partial * S + s, tl.sum(g * (d * u)[:, None], 0), mask=in_s)
        driven = tl.sum(g * bt[None, :], 1)
        tl.store(dx + row * E + e, driven * d, mask=in_e)
        through = g * decay * before
        tl.store(ddelta + row * E + e, tl.sum(through * rate, 1) + driven * u, mask=in_e)
        term = through * d[:, None] - da_lost
        total = da_sum + term
        da_lost = (total - da_sum) - term
        da_sum = total
        g = g * decay
        h = before
    tl.store(da + episode * E * S + place, da_sum, mask=both)


def _blocks(channels: int, states: int) -> dict[str, int]:
    block = min(_CHANNELS, triton.next_power_of_2(channels))
    return {"BLOCK_E": block, "BLOCK_S": triton.next_power_of_2(states), "num_warps": _WARPS}


@torch.library.custom_op("windtunnel::selective_scan", mutates_args=())
def scan_forward(x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """y (n, T, E) from contiguous float32 x, delta (n, T, E), A (E, S), B, C (n, T, S)."""
    (n, length, channels), states = x.shape, A.shape[1]
    y = torch.empty_like(x)
    sizes = _blocks(channels, states)
    grid = (n, triton.cdiv(channels, sizes["BLOCK_E"]))
    kernel = _forward_kernel[grid]
    kernel(x, delta, A, B, C, y, length, channels, states, **sizes)
    return y


@torch.library.custom_op("windtunnel::selective_scan_backward", mutates_args=())
def scan_backward(
    dy: Tensor, x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, delta, A, B, C."""
    (n, length, channels), states = x.shape, A.shape[1]
    sizes = _blocks(channels, states)
    blocks = triton.cdiv(channels, sizes["BLOCK_E"])
    scratch = x.new_empty(n, length, channels, states)
    dx, ddelta = torch.empty_like(x), torch.empty_like(delta)
    da = x.new_empty(n, channels, states)
    db, dc = (x.new_empty(n, blocks, length, states) for _ in range(2))
    kernel = _backward_kernel[(n, blocks)]
    kernel(x, delta, A, B, C, dy, scratch, dx, ddelta, da, db, dc, length, channels, states, **sizes)
    return dx, ddelta, da.sum(0), db.sum(1), dc.sum(1)


@scan_forward.register_fake
def _(x, delta, A, B, C):
    return torch.empty_like(x)


@scan_backward.register_fake
def _(dy, x, delta, A, B, C):
    return tuple(torch.empty_like(part) for part in (x, delta, A, B, C))


def _keep(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, dy):
    return scan_backward(dy.contiguous(), *ctx.saved_tensors)


scan_forward.register_autograd(_backward, setup_context=_keep)


def selective_scan_triton(x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """The scan on a GPU in float32; shapes as in `scan`."""
    return scan_forward(*(part.contiguous() for part in (x, delta, A, B, C)))
