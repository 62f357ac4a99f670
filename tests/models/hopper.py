"""Triton's compiler for a GPU that is not there: whatever our operators launch is compiled for it, and not run.

    python -m tests.models.hopper        # prints, as JSON, the shared memory of every kernel in each of its forms

A process of its own: whether kernels are compiled or interpreted, Triton decides as it is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from windtunnel.models import attention_triton, block_triton, kernels, scan_triton, triangular_triton

MODULES = (attention_triton, block_triton, scan_triton, triangular_triton)
FULL, HALF = torch.float32, torch.bfloat16


class Hopper:
    """All that a launch asks of a GPU's driver before it compiles."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


def name_of(kernel: JITFunction) -> str:
    return f"{kernel.fn.__module__.rpartition('.')[2]}.{kernel.fn.__name__}"


def declared(module: ModuleType) -> list[str]:
    """The kernels of a module; its other functions for Triton are parts of them."""
    functions = [value for value in vars(module).values() if isinstance(value, JITFunction)]
    return [name_of(function) for function in functions if function.fn.__name__.endswith("_kernel")]


def there_and_back(operator: Callable[..., Any], *arguments: Tensor | float) -> None:
    """The operator and its gradient; the numbers mean nothing."""
    wanted = [part.requires_grad_() for part in arguments if isinstance(part, Tensor)]
    found = operator(*arguments)
    outputs = found if isinstance(found, tuple) else (found,)
    torch.autograd.grad(outputs, wanted, [torch.ones_like(part) for part in outputs])


def launch_all() -> None:
    """Every operator at sizes of the committed recipes and at an odd one, in the precisions that it takes."""
    found = kernels._of_triton()

    def draw(*shape: int, dtype: torch.dtype = FULL) -> Tensor:
        return torch.zeros(shape, dtype=dtype)

    for length, width, dtype in ((30, 32, HALF), (64, 128, HALF), (7, 4, HALF), (7, 4, FULL)):
        there_and_back(found["short_attention"], draw(2, length, 3, 2, width, dtype=dtype))
    for width, dtype in ((256, HALF), (100, HALF), (100, FULL)):
        row = [draw(width) for _ in range(3)]
        there_and_back(found["add_norm"], draw(2, 30, width), draw(2, 30, width, dtype=dtype), *row, 1e-5)
        there_and_back(found["bias_gelu"], draw(2, 30, width, dtype=dtype), draw(width))
    for channels, states in ((384, 16), (3, 5)):
        x, delta, rates = draw(2, 30, channels), draw(2, 30, channels), draw(channels, states)
        there_and_back(found["selective_scan"], x, delta, rates, draw(2, 30, states), draw(2, 30, states))
    for size in (5, 30, 64):
        there_and_back(found["unit_lower_inverse"], draw(2, size, size))


def main() -> None:
    made: dict[str, list[int]] = {name: [] for module in MODULES for name in declared(module)}
    launch = JITFunction.run

    def compile_only(kernel: JITFunction, *arguments: Any, **options: Any) -> None:
        compiled = launch(kernel, *arguments, **options | {"warmup": True})
        made[name_of(kernel)].append(compiled.metadata.shared)

    JITFunction.run = compile_only
    driver.set_active(Hopper())
    launch_all()
    print(json.dumps(made))


if __name__ == "__main__":
    main()
