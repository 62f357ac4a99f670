"""Whole networks made of kernels against the same networks without: here in float32, on whatever runs the kernels.

On a GPU the kernels serve bfloat16 (`test_short_attention.py`, `tests/training/test_bfloat16.py`), in whose rounding a
small mistake is lost.  So where they may serve is widened for these tests, and what they give must be equal.
"""

from __future__ import annotations

import pytest
import torch

from tests.models.cases import TUNNELS, dense_inputs, small
from windtunnel.models import fused, kernels


def results(model, inputs):
    out = model(inputs.tokens, inputs.features, inputs.readout)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), list(model.parameters()))]


def assert_serve(monkeypatch, variant, tunnel, device, calls):
    """Outputs and gradients as without kernels, which are called so often (by name)."""
    model = small(variant, TUNNELS[tunnel], width=24).to(device)
    inputs = dense_inputs(TUNNELS[tunnel], 3).to(device)
    with kernels.without_kernels():
        plain = results(model, inputs)
    taken = dict.fromkeys(calls, 0)

    def counted(name, kernel):
        def call(*arguments):
            taken[name] += 1
            return kernel(*arguments)

        return call

    for name in calls:
        monkeypatch.setattr(kernels, name, counted(name, getattr(kernels, name)))
    for index, (found, wanted) in enumerate(zip(results(model, inputs), plain, strict=True)):
        assert float((found - wanted).norm()) <= 1e-5 * float(wanted.norm()) + 1e-7, index
    assert taken == calls


@pytest.mark.parametrize("tunnel", ["hmm-rows", "bijection-replacement", "recall"])
@pytest.mark.parametrize("variant", ["transformer", "transformer-rope", "transformer-none", "transformer-alibi"])
def test_a_transformer(variant, tunnel, kernel_device, monkeypatch):
    if kernel_device == "cuda":
        pytest.skip("a GPU's float32 products are TF32 in the kernel for attention")
    monkeypatch.setattr(kernels, "takes_short_attention", lambda qkv: True)
    monkeypatch.setattr(fused, "_half_precision", lambda x: True)
    attention = 0 if variant == "transformer-alibi" else 2
    assert_serve(
        monkeypatch, variant, tunnel, kernel_device, {"short_attention": attention, "add_norm": 3, "bias_gelu": 2}
    )


def test_linear_attention(kernel_device, monkeypatch):
    monkeypatch.setattr(kernels, "takes_inverse", lambda lower: True)
    assert_serve(monkeypatch, "linear-attention", "recall", kernel_device, {"unit_lower_inverse": 2})


def test_mamba(core_device, monkeypatch):
    monkeypatch.setattr(kernels, "takes_mamba_core", lambda z, states: True)
    assert_serve(monkeypatch, "mamba", "hmm-rows", core_device, {"mamba_core": 2})
