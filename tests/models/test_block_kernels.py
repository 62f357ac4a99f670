"""The passes between matrix products as GPU kernels, against their plain twins in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from windtunnel.models import kernels

SHAPES = [(1, 1, 8), (3, 5, 192), (2, 129, 256), (64, 30, 100)]  # n, T, width: odd ones too


def draws(device, *shapes, dtype=torch.float32):
    """Leaves that want gradients, the same on every machine."""
    generator = torch.Generator().manual_seed(sum(map(sum, shapes)))
    values = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [value.to(device, dtype).requires_grad_() for value in values]


def plain_add_norm(x, branch, bias, gain, shift):
    total = x + branch + bias
    return total, F.layer_norm(total, gain.shape, gain, shift, 1e-5)


def gradients(outputs, inputs):
    """For upstream gradients that are the same on every machine and in every precision."""
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(out.shape, generator=generator).bfloat16().to(out.device, out.dtype) for out in outputs]
    return torch.autograd.grad(outputs, inputs, upstream)


def relative(found, wanted):
    return float((found.detach().double() - wanted.detach()).norm() / wanted.detach().norm().clamp_min(1e-30))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
def test_add_norm_agrees_with_its_twin(shape, dtype, tolerance, kernel_device):
    assert kernels.add_norm is not None
    n, length, width = shape
    x, bias, gain, shift = draws(kernel_device, shape, (width,), (width,), (width,))
    (branch,) = draws(kernel_device, (n, length, width), dtype=dtype)
    inputs = [x, branch, bias, gain, shift]
    exact = [value.detach().double().requires_grad_() for value in inputs]
    found, wanted = kernels.add_norm(*inputs, 1e-5), plain_add_norm(*exact)
    assert found[0].dtype == torch.float32 and found[1].dtype == dtype
    pairs = zip([*found, *gradients(found, inputs)], [*wanted, *gradients(wanted, exact)], strict=True)
    for index, (a, b) in enumerate(pairs):
        assert relative(a, b) <= tolerance, index


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
def test_bias_gelu_agrees_with_its_twin(shape, dtype, tolerance, kernel_device):
    assert kernels.bias_gelu is not None
    (u,), (bias,) = draws(kernel_device, shape, dtype=dtype), draws(kernel_device, shape[-1:])
    exact = [value.detach().double().requires_grad_() for value in (u, bias)]
    found, wanted = kernels.bias_gelu(u, bias), F.gelu(exact[0] + exact[1])
    pairs = zip([found, *gradients([found], [u, bias])], [wanted, *gradients([wanted], exact)], strict=True)
    for index, (a, b) in enumerate(pairs):
        assert relative(a, b) <= tolerance, index


def test_gelu_is_exact_far_out(kernel_device):
    """Where Φ is nearly 0 or 1, an error must stay small against the value that is added to a stream of size 1."""
    assert kernels.bias_gelu is not None
    u = torch.linspace(-12, 12, 4001, device=kernel_device)[:, None]
    found = kernels.bias_gelu(u, torch.zeros(1, device=kernel_device))
    assert float((found.double() - F.gelu(u.double())).abs().max()) < 2e-6
