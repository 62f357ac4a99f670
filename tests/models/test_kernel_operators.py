"""What kernels promise to torch's compiler: that they change no input, what shapes they give, and their gradients.

A compiled step believes this without looking; `torch.library.opcheck` runs each operator and looks.
"""

from __future__ import annotations

import pytest
import torch

from tests.models.test_mamba_core import core_arguments
from tests.models.test_recurrences import scan_arguments

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


OPERATORS = {
    "short_attention": lambda: (draw(2, 5, 3, 2, 16),),
    "short_attention_backward": lambda: (draw(2, 5, 3, 2, 16).detach(), draw(2, 5, 2, 16).detach()),
    "add_norm": lambda: (draw(2, 5, 24), draw(2, 5, 24), draw(24), draw(24), draw(24), 1e-5),
    "add_norm_backward": lambda: (*(part.detach() for part in (draw(7, 24), draw(24), draw(7, 24), draw(7, 24))), 1e-5),
    "bias_gelu": lambda: (draw(2, 5, 24), draw(24)),
    "bias_gelu_backward": lambda: tuple(part.detach() for part in (draw(2, 40, 200), draw(200), draw(2, 40, 200))),
    "unit_lower_inverse": lambda: (draw(3, 5, 5),),
    "selective_scan": lambda: tuple(scan_arguments(5, dtype=torch.float32, device="cpu")),
    "selective_scan_backward": lambda: (
        draw(2, 5, 3).detach(),
        *(part.detach() for part in scan_arguments(5, dtype=torch.float32, device="cpu")),
    ),
}


def moved(arguments, device):
    return tuple(
        part.detach().to(device).requires_grad_(part.requires_grad) if isinstance(part, torch.Tensor) else part
        for part in arguments
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_triton(name, kernel_device):
    operator = getattr(torch.ops.windtunnel, name).default
    torch.library.opcheck(operator, moved(OPERATORS[name](), kernel_device), test_utils=CHECKS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_core_of_mamba(dtype, core_device):
    arguments = core_arguments(9, 20, 5, dtype, core_device)
    torch.library.opcheck(torch.ops.windtunnel.mamba_core.default, (*arguments, True), test_utils=CHECKS)
    plain = tuple(part.detach() for part in arguments)
    out, kept = torch.ops.windtunnel.mamba_core(*plain, True)
    torch.library.opcheck(
        torch.ops.windtunnel.mamba_core_backward.default,
        (out, *plain, kept),
        test_utils=("test_schema", "test_faketensor"),
    )
