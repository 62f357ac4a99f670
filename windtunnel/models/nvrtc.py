"""Compile CUDA C at run time and launch it: NVRTC and the driver, by their C interfaces.

Most kernels here are Triton; where one must say which thread holds what, it is CUDA C.  Both libraries come with torch
and the GPU's driver, so the machine needs no toolkit, headers or compiler.  (`torch.cuda._compile_kernel` rests on the
same two, but it is private and looks for an installed toolkit.)

    kernels = compile_kernels(source, ["double_it"], {"FACTOR": 2}, device_index=0)
    kernels["double_it"](blocks, 256, x, y, x.numel())        # on the current stream: graphs can capture it
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

WARP = 32  # threads that run in step


class Kernel:
    """A compiled `__global__` function.  Tensors are handed over as pointers, whole numbers as `int`."""

    def __init__(self, function: ctypes.c_void_p, device_index: int) -> None:
        self._function, self._device = function, device_index

    def __call__(self, blocks: int, threads: int, *arguments: Tensor | int) -> None:
        """Launch so many blocks of so many threads on the current stream."""
        values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, Tensor) else ctypes.c_int(a) for a in arguments]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self._device).cuda_stream)
        with torch.cuda.device(self._device):
            driver = _driver_on(self._device)
            _check(driver.cuLaunchKernel(self._function, blocks, 1, 1, threads, 1, 1, 0, stream, addresses, None))


def compile_kernels(source: str, names: Sequence[str], defines: dict[str, int], device_index: int) -> dict[str, Kernel]:
    """The functions of those names (declared `extern "C"`), for one GPU; RuntimeError or OSError where that fails."""
    major, minor = torch.cuda.get_device_capability(device_index)
    options = [f"--gpu-architecture=sm_{major}{minor}", "--ftz=true", *(f"-D{k}={v}" for k, v in defines.items())]
    binary, module, kernels = _translate(source, options), ctypes.c_void_p(), {}
    with torch.cuda.device(device_index):
        driver = _driver_on(device_index)
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary))
        for name in names:
            function = ctypes.c_void_p()
            _check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
            kernels[name] = Kernel(function, device_index)
    return kernels


def _translate(source: str, options: Sequence[str]) -> bytes:
    """Machine code for the source; where it does not compile, RuntimeError with the compiler's words."""
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), None, 0, None, None), "NVRTC")
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), flags):
            log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise RuntimeError(log.decode().strip("\0\n "))
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(size_of, copy, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)), "NVRTC")
    buffer = ctypes.create_string_buffer(size.value)
    _check(copy(program, buffer), "NVRTC")
    return buffer.raw


@cache
def _nvrtc() -> ctypes.CDLL:
    """The compiler; what it opens by name while it works is put in place first."""
    nvrtc = _library(f"libnvrtc.so.{(torch.version.cuda or '').partition('.')[0]}")
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "NVRTC")
    with contextlib.suppress(OSError):
        _library(f"libnvrtc-builtins.so.{major.value}.{minor.value}")
    return nvrtc


def _library(name: str) -> ctypes.CDLL:
    """One that torch has loaded or that the system finds; or else from the packages that torch depends on."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        packages = importlib.util.find_spec("nvidia")
        folders = packages.submodule_search_locations if packages is not None else None
        paths = [path for folder in folders or () for path in Path(folder).glob(f"*/lib/{name}")]
        if not paths:
            raise
        return ctypes.CDLL(str(paths[0]))


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _context(device_index: int) -> ctypes.c_void_p:
    """The context that torch uses on a GPU."""
    torch.cuda.init()
    driver, device, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    _check(driver.cuDeviceGet(ctypes.byref(device), device_index))
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    return context


def _driver_on(device_index: int) -> ctypes.CDLL:
    """The driver, with a context in place: a thread fresh from autograd may have none yet."""
    driver, current = _driver(), ctypes.c_void_p()
    _check(driver.cuCtxGetCurrent(ctypes.byref(current)))
    if not current:
        _check(driver.cuCtxSetCurrent(_context(device_index)))
    return driver


def _check(code: int, library: str = "CUDA driver") -> None:
    if code:
        raise RuntimeError(f"{library}: error {code}")
