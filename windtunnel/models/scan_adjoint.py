"""The selective scan with its gradient written out, for training on a CPU; the plain twin is the loop of `scan`.

Left to autograd, the loop leaves a dozen tensors per step, and the way back visits as many operations again.  Here the
way out keeps what is needed, the state and the decay of each step, and the way back walks through them with the adjoint
g of the state (`scan_triton` has the formulas, and does the same on a GPU).  Half the passes over memory, and no
bookkeeping between them.

Everything is laid out by time, so that what belongs to one step is one block.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        x, delta, B, C = (_by_time(part) for part in (x, delta, B, C))
        drive, y = delta * x, torch.empty_like(x)
        states, decays = [], []
        for t in range(len(x)):
            state = drive[t, :, :, None] * B[t, :, None, :]
            if t:  # the first step has nothing to decay
                decays.append((delta[t, :, :, None] * A).exp_())
                state.addcmul_(decays[-1], states[-1])
            states.append(state)
            torch.linalg.vecdot(state, C[t, :, None, :], out=y[t])
        ctx.save_for_backward(x, delta, A, B, C, *states, *decays)
        return y.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, delta, A, B, C, *kept = ctx.saved_tensors
        states, decays, dy = kept[: len(x)], kept[len(x) :], _by_time(dy)
        drive = delta * x
        dB, dC, driven, slowed = (torch.empty_like(part) for part in (B, C, x, x))
        slowed[0] = 0.0
        g, dA, product = (torch.zeros_like(states[0]) for _ in range(3))
        for t in reversed(range(len(x))):
            torch.sum(torch.mul(states[t], dy[t, :, :, None], out=product), 1, out=dC[t])
            g.addcmul_(dy[t, :, :, None], C[t, :, None, :])
            torch.sum(torch.mul(g, drive[t, :, :, None], out=product), 1, out=dB[t])
            torch.linalg.vecdot(g, B[t, :, None, :], out=driven[t])
            if t:
                g.mul_(decays[t - 1])
                torch.mul(g, states[t - 1], out=product)
                torch.linalg.vecdot(product, A, out=slowed[t])
                dA.addcmul_(product, delta[t, :, :, None])
        dx, ddelta = driven * delta, slowed.addcmul_(driven, x)
        return dx.transpose(0, 1), ddelta.transpose(0, 1), dA.sum(0), dB.transpose(0, 1), dC.transpose(0, 1)


def _by_time(part: Float[Tensor, "n T D"]) -> Float[Tensor, "T n D"]:
    return part.transpose(0, 1).contiguous()


def selective_scan_adjoint(
    x: Float[Tensor, "n T E"],
    delta: Float[Tensor, "n T E"],
    A: Float[Tensor, "E S"],
    B: Float[Tensor, "n T S"],
    C: Float[Tensor, "n T S"],
) -> Float[Tensor, "n T E"]:
    """The recurrence as written, with memory for two (n, T, E, S) tensors until the way back is done."""
    y = _Scan.apply(x, delta, A, B, C)
    assert isinstance(y, Tensor)
    return y
