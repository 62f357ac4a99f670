"""Kernels where there is no GPU: their own source, run on a CPU.

Triton's interpreter runs its kernels in NumPy, one program after another; `warp` builds CUDA C for the processor at
hand.  That shows whether a kernel computes what it says, index by index and mask by mask; whether Triton's compiler
takes it, `test_kernels_compile.py` asks; how fast it is, only a GPU can tell.  Products of bfloat16 the interpreter
does not know, so attention is float32 there.  (The tests' own `conftest` asks for the interpreter: that must be done
before anything imports Triton.)
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version

import pytest
import torch

from tests.models import warp
from windtunnel.models import kernels, mamba_cuda

_WITHOUT_GPU = not torch.cuda.is_available()


def _interprets() -> bool:
    """Not Triton 3.6 with NumPy 2.4: it makes numbers of arrays of one element, which NumPy refuses since then."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        return False
    triton, numpy = (tuple(map(int, version(name).split(".")[:2])) for name in ("triton", "numpy"))
    return triton >= (3, 7) or numpy < (2, 4)


_INTERPRETED = _WITHOUT_GPU and _interprets()
_EMULATED = _WITHOUT_GPU and warp.COMPILER is not None


def _devices(here: bool, reason: str) -> list:
    """A GPU where there is one, else the CPU, if it can."""
    return [
        pytest.param("cpu", marks=pytest.mark.skipif(not here, reason=reason)),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ]


@pytest.fixture(params=_devices(_INTERPRETED, "tested on the GPU, or there is no Triton that interprets here"))
def kernel_device(request, monkeypatch) -> str:
    """Where the Triton kernels of `kernels` run: compiled on a GPU, interpreted on a CPU."""
    if request.param == "cpu":
        for name, kernel in _interpreted().items():
            monkeypatch.setattr(kernels, name, kernel)
    return request.param


@pytest.fixture(params=_devices(_EMULATED, "tested on the GPU, or there is no C++ compiler"))
def core_device(request, monkeypatch) -> str:
    """Where `kernels.mamba_core` runs."""
    if request.param == "cpu":
        monkeypatch.setattr(mamba_cuda, "compile_kernels", warp.compile_kernels)
        monkeypatch.setattr(kernels, "mamba_core", mamba_cuda.mamba_core)
        monkeypatch.setattr(kernels, "mamba_core_compiles", mamba_cuda.compiles)
    return request.param


@cache
def _interpreted() -> dict:
    """By the names of `kernels`.  What stands for a processor's own instruction gets a meaning that NumPy knows."""
    import triton.language as tl  # pyright: ignore[reportMissingImports]
    from triton.language.extra import libdevice  # pyright: ignore[reportMissingImports]

    libdevice.exp = lambda value: tl.exp(value)
    libdevice.fast_dividef = lambda above, below: above / below
    return kernels._of_triton()
