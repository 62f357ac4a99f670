"""The fused core of a Mamba mixer (CUDA C compiled at run time) against its plain twin, and what happens without it.

On a CPU the same source runs lane by lane (`warp`).
"""

from __future__ import annotations

import warnings
from importlib.resources import files

import pytest
import torch
import torch.nn.functional as F

from tests.models.test_recurrences import LENGTHS, scan_arguments
from windtunnel import models
from windtunnel.models import kernels
from windtunnel.models.scan import selective_scan_sequential
from windtunnel.tunnels import HMM

gpu = pytest.mark.gpu
NAMES = ("out", "x", "r", "A", "BC", "D", "z")
SIZES = [(3, 5), (20, 1), (64, 16), (130, 5), (33, 13), (40, 32)]  # channels and states: odd ones, and several warps


def core_arguments(length, channels, states, dtype, device, n=2):
    """x, r, A, BC, D, z; BC and the gate are slices of wider rows, as in the model."""
    x, delta, rates, B, C = (
        part.detach()
        for part in scan_arguments(length, dtype=torch.float64, device="cpu", n=n, channels=channels, states=states)
    )
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    raw = torch.log(torch.expm1(delta))  # softplus of it is the step size
    wide, both = torch.cat([draw(n, length, 3), B, C], -1), torch.cat([x, draw(n, length, channels)], -1)
    x, raw, wide, both = (part.to(device, dtype) for part in (x, raw, wide, both))
    rates, skip = (part.to(device, torch.float32) for part in (rates, draw(channels)))
    arguments = (x, raw, rates, wide[..., 3:], skip, both[..., channels:])
    return [part.requires_grad_() for part in arguments]


def plain_core(x, r, A, BC, D, z):
    """What `mamba.Mixer` writes out."""
    B, C = BC.chunk(2, dim=-1)
    return (selective_scan_sequential(x, F.softplus(r), A, B, C) + D * x) * F.silu(z)


def outcome(form, arguments):
    """Output of a form, and the gradients for an upstream that every precision can hold."""
    out = form(*arguments)
    upstream = torch.linspace(-1.0, 1.0, out.numel(), device=out.device).view(out.shape).bfloat16().to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, arguments, upstream)]


def assert_agrees(arguments, tolerance):
    """With the twin in float64, relative to its norm: output and all gradients."""
    assert kernels.mamba_core is not None
    exact = [part.detach().double().requires_grad_() for part in arguments]
    found, wanted = outcome(kernels.mamba_core, arguments), outcome(plain_core, exact)
    for name, a, b, argument in zip(NAMES, found, wanted, [arguments[0], *arguments], strict=True):
        assert a.shape == b.shape and a.dtype == argument.dtype and a.isfinite().all(), name
        assert float((a - b).norm()) <= tolerance * float(b.norm()), name


@pytest.mark.parametrize(("channels", "states"), SIZES)
@pytest.mark.parametrize("length", LENGTHS)
def test_agrees_with_the_loop(length, channels, states, core_device):
    assert_agrees(core_arguments(length, channels, states, torch.float32, core_device), 1e-6)


@pytest.mark.parametrize(("channels", "states"), SIZES)
@pytest.mark.parametrize("length", [1, 30, 257])
def test_takes_bfloat16(length, channels, states, core_device):
    """Rounded inputs, float32 sums, rounded results: within 1% of the twin on the same rounded inputs."""
    assert_agrees(core_arguments(length, channels, states, torch.bfloat16, core_device), 1e-2)


@pytest.mark.parametrize("step", [-30.0, 30.0])
def test_is_stable_at_extreme_step_sizes(step, core_device):
    """Next to no decay, and decay to nothing within one step: no overflow, still equal."""
    arguments = core_arguments(65, 40, 16, torch.float32, core_device)
    with torch.no_grad():
        arguments[1].add_(step)
    assert_agrees(arguments, 2e-6)


@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_repeats_bit_for_bit(dtype):
    assert kernels.mamba_core is not None
    arguments = core_arguments(30, 130, 16, dtype, "cuda", n=64)
    first, second = (outcome(kernels.mamba_core, arguments) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_rows_that_lie_unevenly_are_copied(core_device):
    arguments = core_arguments(9, 20, 5, torch.float32, core_device)
    every_other = [torch.stack([part.detach()] * 2, -1)[..., 0] for part in arguments]
    assert_agrees([part.requires_grad_() for part in every_other], 1e-6)


def model_and_inputs():
    model = models.build("mamba", HMM(), depth=2, width=64).cuda()
    inputs = HMM().sample(9, dtype=torch.float32, device="cuda").inputs
    return model, (inputs.tokens, inputs.features, inputs.readout)


@gpu
def test_a_mamba_takes_it():
    """Under autocast the fused path agrees with the tapped one, gradients too; in float32 far more closely."""
    model, inputs = model_and_inputs()

    def results(tap):
        logits = model(*inputs, tap=tap)
        return [logits.detach(), *torch.autograd.grad(logits.square().sum(), list(model.parameters()))]

    taken = []
    real, kernels.mamba_core = kernels.mamba_core, lambda *parts: taken.append(1) or real(*parts)
    try:
        for autocast, tolerance in ((True, 5e-2), (False, 1e-4)):
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                fused, tapped = results(None), results(lambda name, value: value)
            for a, b in zip(fused, tapped, strict=True):
                assert float((a - b).norm()) <= tolerance * float(b.norm())
    finally:
        kernels.mamba_core = real
    assert len(taken) == 4  # two blocks, twice


@gpu
def test_inside_a_compiled_step_and_a_captured_graph():
    model, inputs = model_and_inputs()
    parameters = list(model.parameters())
    compiled = torch.compile(model.forward, fullgraph=True, dynamic=False)

    def step(forward):
        with torch.autocast("cuda", torch.bfloat16):
            logits = forward(*inputs)
        return [logits, *torch.autograd.grad(logits.square().sum(), parameters)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # all on one stream: gradients remember theirs, and capture allows no other
        eager = step(model.forward)
        for _ in range(3):
            step(compiled)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured = step(compiled)
    for _ in range(2):
        for part in captured:
            part.detach().zero_()
        graph.replay()
        torch.cuda.synchronize()
        for a, b in zip(captured, eager, strict=True):
            assert float((a - b).norm()) <= 5e-2 * float(b.norm())


@gpu
def test_source_that_does_not_compile_says_why():
    from windtunnel.models.nvrtc import compile_kernels

    with pytest.raises(RuntimeError, match='identifier "oops" is undefined'):
        compile_kernels('extern "C" __global__ void f() { oops; }', ["f"], {}, torch.cuda.current_device())


def test_the_source_is_part_of_the_package():
    source = files("windtunnel.models").joinpath("mamba_core.cu").read_text(encoding="utf-8")
    assert "core_forward(" in source and "core_backward(" in source


def test_where_it_does_not_compile_the_scan_serves(monkeypatch):
    """One warning, and no second attempt."""
    from windtunnel.models import mamba_cuda

    tried = []

    def fail(*arguments):
        tried.append(arguments)
        raise OSError("libnvrtc.so.13: cannot open shared object file\nand more")

    monkeypatch.setattr(mamba_cuda, "compile_kernels", fail)
    with pytest.warns(UserWarning, match=r"using the scan instead: libnvrtc.so.13: cannot open shared object file$"):
        assert not mamba_cuda.compiles(7, 3, 14, False, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not mamba_cuda.compiles(7, 3, 14, False, 0)
        assert not mamba_cuda.compiles(7, 33, 14, False, 0)  # too many states: not even tried
    assert len(tried) == 1


def test_other_devices_and_precisions_do_not_ask_for_it(monkeypatch):
    monkeypatch.setattr(kernels, "mamba_core_compiles", lambda *sizes: pytest.fail("asked"))
    assert not kernels.takes_mamba_core(torch.zeros(1, 2, 3), 4)
