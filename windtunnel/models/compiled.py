"""Functions compiled once for every shape they meet; the forward pass, compiled where that is possible."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_SHAPES = 1024  # that one function may be compiled for in a process


class NotCompiled(UserWarning):
    """What should have been compiled was not: the slower form serves from now on."""


class CompilationFailed(RuntimeError):
    """What was to be measured does not run here as it should; says why in one line."""


_COMPILERS = ("torch._dynamo", "torch._inductor", "triton")  # whose own errors are failures to compile


@contextmanager
def must_compile() -> Iterator[None]:
    """Where speed is measured: a compilation that fails in here is an error, `CompilationFailed`, not a warning, as the
    time of the slower form would pass for that of the compiled one.  So is one that has no slower form, a sampler's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiled)
        try:
            yield
        except NotCompiled as failure:
            raise CompilationFailed(f"not measured, as it would not be what was asked for: {failure}") from failure
        except Exception as error:
            if not any(kind.__module__.startswith(_COMPILERS) for kind in type(error).__mro__):
                raise
            raise CompilationFailed(f"not measured, as it does not compile: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """Its first line, with the next where that is only announced; or its kind where it says nothing.

    >>> reason_of(RuntimeError("backend='inductor' raised:\\nno compiler\\nand more")), reason_of(KeyError())
    ("backend='inductor' raised: no compiler", 'KeyError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 1 + lines[0].endswith(":")])


def specialised(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`torch.compile` of a function, anew for every shape.

    All networks of a process share one forward function, and all samplers one draw.  After eight shapes torch would run
    the ninth uncompiled: a study, or a benchmark of many cases, has more.  So its limit is raised, for the process.
    """
    import torch._dynamo.config as limits  # what `torch.compile` loads anyway, and `import windtunnel` should not

    limits.recompile_limit = max(limits.recompile_limit, _SHAPES)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, _SHAPES)
    settings: dict[str, Any] = {"dynamic": False} | options
    return torch.compile(function, **settings)


def compiled(model: nn.Module, **options: Any) -> Callable[..., Tensor]:
    """`model.forward` through `torch.compile(fullgraph=True, **options)`.

    Compilation happens at the first call.  If it fails there (on a CPU it needs a C++ compiler) the eager forward is
    used from then on, with a one-line warning (inside `must_compile`, an error).  A model that says `compilable =
    False` stays eager, silently.
    """
    if not getattr(model, "compilable", True):
        return model.forward
    fast = specialised(model.forward, **({"fullgraph": True} | options))
    settled: Callable[..., Tensor] | None = None

    def forward(*arguments: Any) -> Tensor:
        nonlocal settled
        if settled is not None:
            return settled(*arguments)
        try:
            result = fast(*arguments)
            settled = fast
        except Exception as error:  # compilers fail in many ways; the eager call below repeats a user's own mistake
            result = model(*arguments)
            settled = model.forward
            warnings.warn(f"torch.compile failed, running eagerly: {reason_of(error)}", NotCompiled, stacklevel=2)
        return result

    return forward
