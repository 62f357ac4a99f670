"""CUDA C on a CPU: kernels of one warp per block, built by the system's C++ compiler against `warp.h`.

What `nvrtc.compile_kernels` is on a GPU.  That shows whether a kernel computes what it says, and whether a wait is
missing: lanes run in two orders, with equal results.  How fast it is, only a GPU can tell.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

COMPILER = shutil.which("c++")


def compile_kernels(source: str, names: Sequence[str], defines: dict[str, int], _: int | None) -> dict[str, Callable]:
    """By name; each is called with blocks, threads (32) and its arguments, as those on a GPU are."""
    text = '#include "warp.h"\n' + source + "".join(f"\nLAUNCHER({name})" for name in names) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        code.write_text(text, encoding="utf-8")
        include, flags = Path(__file__).parent, [f"-D{name}={value}" for name, value in defines.items()]
        plain = ["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", f"-I{include}"]
        subprocess.run([str(COMPILER), *plain, *flags, str(code), "-o", str(library)], check=True)
        built = ctypes.CDLL(str(library))
    return {name: _launcher(getattr(built, f"launch_{name}")) for name in names}


def _launcher(function) -> Callable[..., None]:
    def run(blocks: int, arguments: Sequence[Tensor | int], backwards: bool) -> None:
        values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, Tensor) else ctypes.c_int(a) for a in arguments]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        assert function(ctypes.c_int(blocks), addresses, ctypes.c_bool(backwards)), "lanes wait unequally often"

    def launch(blocks: int, threads: int, *arguments: Tensor | int) -> None:
        assert threads == 32
        others = [_twin(a) if isinstance(a, Tensor) else a for a in arguments]
        run(blocks, arguments, False)
        run(blocks, others, True)
        for one, other in zip(arguments, others, strict=True):
            assert not isinstance(one, Tensor) or torch.equal(_bits(one), _bits(other)), "a wait is missing"

    function.restype = ctypes.c_bool
    return launch


def _twin(part: Tensor) -> Tensor:
    """A copy that lies as the original does: kernels are told strides, not shapes."""
    return torch.empty_strided(part.shape, part.stride(), dtype=part.dtype).copy_(part)


def _bits(part: Tensor) -> Tensor:
    """To be compared as they are: what no lane has written may hold anything, NaN too."""
    return part.detach().contiguous().view(torch.uint8)
