"""The core of a Mamba mixer as one GPU kernel each way: step size, selective scan, skip and gate (`mamba_core.cu`).

    Δ_t   = softplus(r_t)
    h_t   = exp(Δ_t A) h_{t−1} + Δ_t x_t B_t
    y_t   = C_t · h_t + D x_t
    out_t = y_t silu(z_t)

Its plain twin is what `mamba.Mixer` writes out.  States stay in registers; for the way back the state before every
fourth step is kept (with many states, every second).  From there the backward pass makes the states of that group of
steps again, and walks back through them with the adjoint g of the state:

    g_t   = C_t dy_t + exp(Δ_{t+1} A) g_{t+1}                        dy_t = dout_t silu(z_t)
    dC_t  = Σ_e dy_t h_t             dB_t = Σ_e g_t Δ_t x_t          dx_t = Δ_t Σ_s g_t B_t + D dy_t
    dΔ_t  = Σ_s g_t (A exp(Δ_t A) h_{t−1} + x_t B_t)                 dA   = Σ_t g_t Δ_t exp(Δ_t A) h_{t−1}

Sums over channels and episodes are written as partial sums and added up outside: no atomics, so results repeat.
Sums are float32 throughout.  With float32 inputs every function is good to the last bits; with bfloat16 inputs the
processor's approximations serve, whose errors (2^-22) are far below those of the inputs (2^-9).

Shapes: x, r, z (n, T, E); A (E, S); BC (n, T, 2 S), B and C side by side; D (E,).
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.resources import files

import torch
from torch import Tensor

from windtunnel.models.compiled import NotCompiled, reason_of
from windtunnel.models.nvrtc import WARP, Kernel, compile_kernels

MOST_STATES = 32


def group_of(states: int) -> int:
    """Steps from one kept state to the next: as many as the registers hold."""
    return 4 if states <= 16 else 2


def _layout(length: int, channels: int, states: int) -> tuple[int, int, int]:
    """Warps that share the channels, states filled up to lanes' quarters, and kept states of an episode."""
    return -(-channels // WARP), -(-states // 4) * 4, (length - 1) // group_of(states)


@cache
def _kernels(channels: int, states: int, gate_row: int, half: bool, device_index: int) -> dict[str, Kernel]:
    """Compiled at the first call: sizes known to the compiler become plain numbers in its addresses."""
    source = files("windtunnel.models").joinpath("mamba_core.cu").read_text(encoding="utf-8")
    sizes = {"STATES": states, "CHANNELS": channels, "GATE_ROW": gate_row, "HALF": int(half), "GROUP": group_of(states)}
    return compile_kernels(source, ("core_forward", "core_backward"), sizes, device_index)


def _kernel(name: str, x: Tensor, A: Tensor, z: Tensor) -> Kernel:
    half = z.dtype == torch.bfloat16
    return _kernels(x.shape[2], A.shape[1], z.stride(1), half, x.device.index)[name]


@cache
def _compiles(*key: int) -> bool:
    try:
        _kernels(*key)  # pyright: ignore[reportArgumentType]
    except (OSError, RuntimeError) as error:
        line = f"the fused Mamba kernels do not compile here, using the scan instead: {reason_of(error)}"
        warnings.warn(line, NotCompiled, stacklevel=2)
        return False
    return True


@torch.compiler.assume_constant_result
def compiles(channels: int, states: int, gate_row: int, half: bool, device_index: int) -> bool:
    """Whether there are kernels for these sizes; compiles them (seconds), and says so once where that fails."""
    return states <= MOST_STATES and _compiles(channels, states, gate_row, half, device_index)


def _rows(part: Tensor) -> Tensor:
    """The tensor, or a copy where its rows (n · T of them) do not lie evenly."""
    n, length, _ = part.shape
    even = part.stride(2) == 1 and (n == 1 or part.stride(0) == length * part.stride(1))
    return part if even else part.contiguous()


@torch.library.custom_op("windtunnel::mamba_core", mutates_args=())
def core_forward(
    x: Tensor, r: Tensor, A: Tensor, BC: Tensor, D: Tensor, z: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """out (n, T, E), and the kept states (empty unless `keep`)."""
    (n, length, channels), states = x.shape, A.shape[1]
    x, r, A, BC, D, z = x.contiguous(), r.contiguous(), A.contiguous(), _rows(BC), D.contiguous(), _rows(z)
    out, kept = _forward_results(x, A, keep)
    warps, _, _ = _layout(length, channels, states)
    kernel = _kernel("core_forward", x, A, z)
    kernel(n * warps, WARP, x, r, A, BC, D, z, out, kept, length, BC.stride(1), int(keep))
    return out, kept


@torch.library.custom_op("windtunnel::mamba_core_backward", mutates_args=())
def core_backward(
    grad: Tensor, x: Tensor, r: Tensor, A: Tensor, BC: Tensor, D: Tensor, z: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dx, dr, dz side by side (n, T, 3, E), and parts of dA (n, E, S), dBC (n, warps, T, 2, S filled up), dD (n, E)."""
    (n, length, channels), states = x.shape, A.shape[1]
    x, r, A, BC, D, z = x.contiguous(), r.contiguous(), A.contiguous(), _rows(BC), D.contiguous(), _rows(z)
    dense, dA, dBC, dD = results = _backward_results(x, A)
    warps, _, _ = _layout(length, channels, states)
    kernel = _kernel("core_backward", x, A, z)
    kernel(n * warps, WARP, x, r, A, BC, D, z, grad.contiguous(), kept, dense, dA, dBC, dD, length, BC.stride(1))
    return results


def _forward_results(x: Tensor, A: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    n, length, channels = x.shape
    warps, filled, groups = _layout(length, channels, A.shape[1])
    kept = A.new_empty((n, groups, filled, warps * WARP) if keep else (0,))
    return x.new_empty(x.shape), kept


def _backward_results(x: Tensor, A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n, length, channels = x.shape
    warps, filled, _ = _layout(length, channels, A.shape[1])
    parts = A.new_empty(n, *A.shape), A.new_empty(n, warps, length, 2, filled), A.new_empty(n, channels)
    return x.new_empty(n, length, 3, channels), *parts


@core_forward.register_fake
def _(x, r, A, BC, D, z, keep):
    return _forward_results(x, A, keep)


@core_backward.register_fake
def _(grad, x, r, A, BC, D, z, kept):
    return _backward_results(x, A)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[:6], output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, _):
    x, r, A, BC, D, z, kept = ctx.saved_tensors
    dense, dA, dBC, dD = core_backward(grad, x, r, A, BC, D, z, kept)
    dx, dr, dz = dense.unbind(2)
    dBC = dBC.sum(1)[..., : A.shape[1]].flatten(2).to(BC.dtype)
    return dx, dr, dA.sum(0), dBC, dD.sum(0), dz, None


core_forward.register_autograd(_differentiate, setup_context=_save)


def mamba_core(x: Tensor, r: Tensor, A: Tensor, BC: Tensor, D: Tensor, z: Tensor) -> Tensor:
    """out (n, T, E) in the precision of z, float32 or bfloat16, on a GPU; shapes as above."""
    x, r, BC = (part.to(z.dtype) for part in (x, r, BC))
    out, _ = core_forward(x, r, A.float(), BC, D.float(), z, torch.is_grad_enabled())
    return out
