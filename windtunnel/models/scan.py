"""The selective scan of Mamba: plain, chunked, with its gradient written out (`scan_adjoint`), or as a kernel.

For every channel e and state s, with step size Δ_t and decay rate A < 0:

    h_t[e, s] = exp(Δ_t[e] A[e, s]) · h_{t−1}[e, s]  +  Δ_t[e] x_t[e] B_t[s]        h_{−1} = 0
    y_t[e]    = Σ_s C_t[s] h_t[e, s]

`selective_scan_sequential` is that loop.  `selective_scan_chunked` cuts T steps into about √T chunks of about √T steps:

    1. inside all chunks at once, the loop from a zero state gives local states and the chunk's last one;
    2. a loop over chunks gives the state each one starts from;
    3. h_t = local h_t + exp(A Σ_{chunk start ≤ s ≤ t} Δ_s) · start.

So 2√T dependent steps replace T, and since every exponent is a sum of non-positive terms nothing can overflow and no
division, clamp or rescaling is needed.

Shapes: x, delta (n, T, E); A (E, S); B, C (n, T, S); y (n, T, E).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from windtunnel.errors import require_choice
from windtunnel.models import kernels
from windtunnel.models.scan_adjoint import selective_scan_adjoint
from windtunnel.models.taps import StepEdit


def selective_scan_sequential(
    x: Float[Tensor, "n T E"],
    delta: Float[Tensor, "n T E"],
    A: Float[Tensor, "E S"],
    B: Float[Tensor, "n T S"],
    C: Float[Tensor, "n T S"],
    edit: StepEdit | None = None,
) -> Float[Tensor, "n T E"]:
    """The recurrence as written.  `edit(t, h_t)` may replace a state (n, E, S) before it is read and carried on."""
    h = x.new_zeros(x.shape[0], *A.shape)
    outputs = []
    for t in range(x.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * A)
        h = decay * h + (delta[:, t] * x[:, t])[..., None] * B[:, t, None, :]
        if edit is not None:
            h = edit(t, h)
        outputs.append((h * C[:, t, None, :]).sum(-1))
    return torch.stack(outputs, dim=1)


def selective_scan_chunked(
    x: Float[Tensor, "n T E"],
    delta: Float[Tensor, "n T E"],
    A: Float[Tensor, "E S"],
    B: Float[Tensor, "n T S"],
    C: Float[Tensor, "n T S"],
) -> Float[Tensor, "n T E"]:
    """The same in about 2√T dependent steps; memory for a few (n, T, E, S) tensors."""
    length = x.shape[1]
    size = math.isqrt(length - 1) + 1  # ⌈√T⌉
    chunks = -(-length // size)
    x, delta, B, C = (_into_chunks(part, chunks, size) for part in (x, delta, B, C))

    decay = torch.exp(delta[..., None] * A)  # (n, chunks, size, E, S)
    value = (delta * x)[..., None] * B[..., None, :]
    h = value[:, :, 0]
    local = [h]
    for i in range(1, size):
        h = decay[:, :, i] * h + value[:, :, i]
        local.append(h)

    reach = torch.exp(delta.cumsum(2)[..., None] * A)  # decay from the chunk's start to each of its steps
    start = torch.zeros_like(h[:, 0])
    starts = [start]
    for j in range(chunks - 1):
        start = reach[:, j, -1] * start + h[:, j]
        starts.append(start)

    states = torch.stack(local, dim=2) + reach * torch.stack(starts, dim=1)[:, :, None]
    y = (states * C[..., None, :]).sum(-1)
    return y.flatten(1, 2)[:, :length]


def _into_chunks(x: Float[Tensor, "n T D"], chunks: int, size: int) -> Float[Tensor, "n chunks size D"]:
    """Pad with zeros at the end (a step size of zero leaves the state alone) and cut."""
    return F.pad(x, (0, 0, 0, chunks * size - x.shape[1])).unflatten(1, (chunks, size))


def forms() -> dict[str, Callable[..., Tensor]]:
    """By name; the kernel only where there is one now (`kernels.without_kernels` may have taken it away)."""
    found: dict[str, Callable[..., Tensor]] = {
        "sequential": selective_scan_sequential,
        "chunked": selective_scan_chunked,
        "adjoint": selective_scan_adjoint,
    }
    return found if kernels.selective_scan is None else found | {"triton": kernels.selective_scan}


def selective_scan(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, *, form: str = "auto", edit: StepEdit | None = None
) -> Tensor:
    """The scan in float32 or better, by the named form; `auto` takes the fastest one for the device.

    Only the sequential form has states that can be edited.
    """
    require_choice("form", form, ("auto", *forms()))
    dtype = torch.promote_types(A.dtype, torch.float32)  # states integrate over time: bf16 would lose small steps
    with torch.autocast(x.device.type, enabled=False):
        x, delta, A, B, C = (part.to(dtype) for part in (x, delta, A, B, C))
        if edit is not None:
            return selective_scan_sequential(x, delta, A, B, C, edit)
        if form == "auto":
            form = _fastest(x)
        return forms()[form](x, delta, A, B, C)


def _fastest(x: Tensor) -> str:
    """On a GPU launches count, hence the kernel, or few large steps; on a CPU what stays in the cache, hence the loop,
    with a gradient of our own where one will be asked for.  (A compiler takes the plain loop and finds its own.)"""
    if not x.is_cuda:
        return "adjoint" if torch.is_grad_enabled() and not torch.compiler.is_compiling() else "sequential"
    return "triton" if x.dtype == torch.float32 and kernels.selective_scan is not None else "chunked"
