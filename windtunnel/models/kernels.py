"""The fused kernels, where there is a GPU to compile them for; None elsewhere, and the plain forms serve.

Imported once here, so that a compiled forward pass finds plain functions and no import in its way.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from windtunnel.models.compiled import NotCompiled, reason_of

short_attention: Callable[[Tensor], Tensor] | None = None
"""`attention_triton.short_attention`."""
selective_scan: Callable[..., Tensor] | None = None
"""`scan_triton.selective_scan_triton`."""
add_norm: Callable[..., tuple[Tensor, Tensor]] | None = None
"""`block_triton.add_norm`."""
bias_gelu: Callable[[Tensor, Tensor], Tensor] | None = None
"""`block_triton.bias_gelu`."""
unit_lower_inverse: Callable[[Tensor], Tensor] | None = None
"""`triangular_triton.unit_lower_inverse`."""
mamba_core: Callable[..., Tensor] | None = None
"""`mamba_cuda.mamba_core`."""
mamba_core_compiles: Callable[..., bool] | None = None
"""`mamba_cuda.compiles`."""
_NAMES = tuple(__annotations__)  # of all those above


def _of_triton() -> dict[str, Any]:
    """Those for Triton by the names above.  Empty without Triton; and, with a line that says why, where this Triton is
    not the one they were written for."""
    if find_spec("triton") is None:
        return {}
    try:
        from windtunnel.models import attention_triton, block_triton, scan_triton, triangular_triton
    except (ImportError, AttributeError) as error:  # a name that has moved is either
        line = f"the Triton kernels cannot be imported, using the plain forms instead: {reason_of(error)}"
        warnings.warn(line, NotCompiled, stacklevel=2)
        return {}
    return {
        "short_attention": attention_triton.short_attention,
        "selective_scan": scan_triton.selective_scan_triton,
        "add_norm": block_triton.add_norm,
        "bias_gelu": block_triton.bias_gelu,
        "unit_lower_inverse": triangular_triton.unit_lower_inverse,
    }


if torch.cuda.is_available():  # triton compiles for a GPU only, and costs import time
    globals().update(_of_triton())
    from windtunnel.models import mamba_cuda

    mamba_core, mamba_core_compiles = mamba_cuda.mamba_core, mamba_cuda.compiles

_LONGEST = 64  # positions: above, library kernels are at home
_WIDEST = 128  # channels per head


def in_use(device: str) -> list[str]:
    """Names of the kernels that may serve on a device, for the record of a measurement: none on a CPU."""
    there = [name for name in _NAMES if globals()[name] is not None and name != "mamba_core_compiles"]  # no kernel
    return there if device.startswith("cuda") else []


def takes_short_attention(qkv: Float[Tensor, "n T 3 H d"]) -> bool:
    """Whether attention over these goes through the kernel for short sequences: bfloat16 on a GPU, as in training."""
    if short_attention is None or not qkv.is_cuda or qkv.dtype != torch.bfloat16:
        return False
    return qkv.shape[1] <= _LONGEST and qkv.shape[-1] <= _WIDEST


def takes_mamba_core(z: Float[Tensor, "n T E"], states: int) -> bool:
    """Whether a mixer with this gate goes through its kernels: float32 or bfloat16 on a GPU, where they compile."""
    if mamba_core_compiles is None or not z.is_cuda or z.dtype not in (torch.float32, torch.bfloat16):
        return False
    return mamba_core_compiles(z.shape[-1], states, z.stride(1), z.dtype == torch.bfloat16, z.device.index)


def takes_inverse(lower: Float[Tensor, "... C C"]) -> bool:
    """Whether unit lower-triangular systems of this kind are solved by the kernel: small and float32, on a GPU."""
    return unit_lower_inverse is not None and lower.is_cuda and lower.dtype == torch.float32 and lower.shape[-1] <= 64


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Every kernel taken away, as on a machine that has none: the plain forms serve, so that one can compare."""
    held = {name: globals()[name] for name in _NAMES}
    try:
        globals().update(dict.fromkeys(held))
        yield
    finally:
        globals().update(held)
