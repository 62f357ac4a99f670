"""The fused attention for short sequences against its plain twin."""

from __future__ import annotations

import pytest
import torch

from windtunnel import models
from windtunnel.models import kernels
from windtunnel.models.transformer import explicit_attention
from windtunnel.tunnels import HMM


@pytest.mark.parametrize(("length", "heads", "width"), [(1, 3, 4), (7, 2, 16), (30, 8, 32), (39, 6, 32), (64, 2, 128)])
def test_equals_the_plain_form(length, heads, width, kernel_device):
    """Outputs and gradients within rounding of the plain form in float32 on the same (rounded) inputs."""
    assert kernels.short_attention is not None
    dtype, tolerance = (torch.bfloat16, 1e-2) if kernel_device == "cuda" else (torch.float32, 1e-6)
    generator = torch.Generator().manual_seed(length)
    qkv, upstream = (
        torch.randn(3, length, *more, generator=generator).to(kernel_device, dtype)
        for more in ((3, heads, width), (heads, width))
    )
    qkv.requires_grad_()
    q, k, v = qkv.float().permute(2, 0, 3, 1, 4).unbind(0)
    plain = explicit_attention(q, k, v, None, lambda name, value: value, "").transpose(1, 2)
    fused = kernels.short_attention(qkv)
    (plain_gradient,) = torch.autograd.grad(plain, qkv, upstream.float())
    (gradient,) = torch.autograd.grad(fused, qkv, upstream)
    for a, b in ((plain, fused), (plain_gradient, gradient)):
        assert b.isfinite().all()
        assert float((a.float() - b.float()).norm()) <= tolerance * float(a.float().norm())


@pytest.mark.gpu
@pytest.mark.parametrize("length", [20, 70])  # the header is ten more: below and beyond the kernel's 64 positions
@pytest.mark.parametrize("positions", ["none", "rope", "learned", "alibi"])
def test_a_transformer_takes_it_in_bfloat16(positions, length, monkeypatch):
    """Under autocast the fused path is made of the kernels, and agrees with the tapped one, gradients too."""
    tunnel, taken = HMM(length=length), []
    real = kernels.short_attention
    monkeypatch.setattr(kernels, "short_attention", lambda qkv: taken.append(1) or real(qkv))
    model = models.build("transformer", tunnel, depth=2, width=64, heads=2, positions=positions).cuda()
    inputs = tunnel.sample(9, dtype=torch.float32, device="cuda").inputs
    arguments = (inputs.tokens, inputs.features, inputs.readout)
    with torch.autocast("cuda", torch.bfloat16):
        fused, tapped = model(*arguments), model(*arguments, tap=lambda name, value: value)
        gradients = [torch.autograd.grad(logits.square().sum(), list(model.parameters())) for logits in (fused, tapped)]
    for ours, plain in zip(*gradients, strict=True):
        assert float((ours - plain).norm()) <= 5e-2 * float(plain.norm())
    assert float((fused - tapped).norm()) <= 2e-2 * float(tapped.norm())
    exact = model(*arguments)
    assert float((fused - exact).norm()) <= 3e-2 * float(exact.norm())
    assert len(taken) == (2 if length == 20 and positions != "alibi" else 0)  # one a block
