"""Causal attention for short sequences as one GPU kernel each way; its plain twin is `transformer.explicit_attention`.

Library kernels are built for thousands of positions.  Our episodes have thirty, and there a kernel that pads them to
its tiles spends a third of a training step on attention.  Here one program owns one head of one episode: q, k, v and
the whole pattern fit in registers, nothing but inputs and results touches memory, and the fused (n, T, 3, H, d) output
of the projection is read where it lies, so no transpose is needed either way.

    P = softmax(q kᵀ/√d + causal mask)      o = P v
    dv = Pᵀ do     dP = do vᵀ     dS = P ∘ (dP − rowsum(P ∘ dP)) / √d     dq = dS k     dk = dSᵀ q

bfloat16 in and out, products summed in float32; the pattern is computed again on the way back instead of being kept.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _pattern(q, k, t, scale):
    """Causal softmax pattern (BLOCK_T, BLOCK_T) in float32.  Padded rows see themselves, so nothing is NaN."""
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where(t[None, :] <= t[:, None], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def _forward_kernel(qkv, out, T, H, D, scale, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    episode, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, d = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D)
    inside = (t[:, None] < T) & (d[None, :] < D)
    source = qkv + episode * T * 3 * H * D + head * D + t[:, None] * (3 * H * D) + d[None, :]
    q = tl.load(source, mask=inside, other=0.0)
    k = tl.load(source + H * D, mask=inside, other=0.0)
    v = tl.load(source + 2 * H * D, mask=inside, other=0.0)
    pattern = _pattern(q, k, t, scale)
    target = out + episode * T * H * D + head * D + t[:, None] * (H * D) + d[None, :]
    tl.store(target, tl.dot(pattern.to(v.dtype), v).to(v.dtype), mask=inside)


@triton.jit
def _backward_kernel(qkv, dout, dqkv, T, H, D, scale, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    episode, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, d = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D)
    inside = (t[:, None] < T) & (d[None, :] < D)
    offset = episode * T * 3 * H * D + head * D + t[:, None] * (3 * H * D) + d[None, :]
    q = tl.load(qkv + offset, mask=inside, other=0.0)
    k = tl.load(qkv + offset + H * D, mask=inside, other=0.0)
    v = tl.load(qkv + offset + 2 * H * D, mask=inside, other=0.0)
    place = dout + episode * T * H * D + head * D + t[:, None] * (H * D) + d[None, :]
    do = tl.load(place, mask=inside, other=0.0)
    pattern = _pattern(q, k, t, scale)
    dv = tl.dot(tl.trans(pattern.to(v.dtype)), do)
    dpattern = tl.dot(do, tl.trans(v))
    dscores = pattern * (dpattern - tl.sum(pattern * dpattern, 1)[:, None]) * scale
    dscores = dscores.to(q.dtype)
    tl.store(dqkv + offset, tl.dot(dscores, k).to(q.dtype), mask=inside)
    tl.store(dqkv + offset + H * D, tl.dot(tl.trans(dscores), q).to(q.dtype), mask=inside)
    tl.store(dqkv + offset + 2 * H * D, dv.to(q.dtype), mask=inside)


def _launch(kernel, qkv: Tensor, *others: Tensor) -> None:
    n, length, _, heads, width = qkv.shape
    block_t, block_d = (max(16, triton.next_power_of_2(size)) for size in (length, width))
    warps = 1 if block_t * block_d <= 32 * 32 else 4
    kernel[(n, heads)](
        qkv, *others, length, heads, width, width**-0.5, BLOCK_T=block_t, BLOCK_D=block_d, num_warps=warps
    )


@torch.library.custom_op("windtunnel::short_attention", mutates_args=())
def _forward(qkv: Tensor) -> Tensor:
    n, length, _, heads, width = qkv.shape
    out = qkv.new_empty(n, length, heads, width)
    _launch(_forward_kernel, qkv, out)
    return out


@torch.library.custom_op("windtunnel::short_attention_backward", mutates_args=())
def _backward(qkv: Tensor, dout: Tensor) -> Tensor:
    dqkv = torch.empty_like(qkv)
    _launch(_backward_kernel, qkv, dout, dqkv)
    return dqkv


@_forward.register_fake
def _(qkv):
    return qkv.new_empty(qkv.shape[0], qkv.shape[1], qkv.shape[3], qkv.shape[4])


@_backward.register_fake
def _(qkv, dout):
    return torch.empty_like(qkv)


_forward.register_autograd(
    lambda ctx, dout: _backward(ctx.saved_tensors[0], dout.contiguous()),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def short_attention(qkv: Tensor) -> Tensor:
    """Causal attention of bfloat16 q, k, v (n, T, 3, H, d), T at most 64, d at most 128; gives (n, T, H, d)."""
    return _forward(qkv.contiguous())
