"""The fast forms of recurrences against the plain ones, and whole layers against second implementations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models.cases import TUNNELS, dense_inputs, every_device, small
from windtunnel.errors import InputError
from windtunnel.models import kernels
from windtunnel.models.delta import delta_rule, delta_rule_chunked, delta_rule_sequential
from windtunnel.models.scan import selective_scan, selective_scan_chunked, selective_scan_sequential
from windtunnel.models.scan_adjoint import selective_scan_adjoint
from windtunnel.models.taps import Record
from windtunnel.models.transformer import rotate, rotation_table

LENGTHS = [1, 2, 3, 4, 5, 9, 16, 17, 31, 64, 65, 100, 257]
every_fast_scan = pytest.mark.parametrize("scan", [selective_scan_chunked, selective_scan_adjoint])


def scan_arguments(length, *, dtype, device, n=2, channels=3, states=4, step=1.0):
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    delta = torch.nn.functional.softplus(draw(n, length, channels) * 2 - 1) * step
    rates = -torch.exp(draw(channels, states))
    arguments = (draw(n, length, channels), delta, rates, draw(n, length, states), draw(n, length, states))
    return [a.to(device, dtype).requires_grad_() for a in arguments]


def delta_arguments(length, *, dtype, device, n=2, heads=2, width=5, repeat_keys=False):
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    q, k, v = (draw(n, heads, length, width) for _ in range(3))
    q, k = (torch.nn.functional.normalize(part, dim=-1) for part in (q, k))
    if repeat_keys:
        k = k[:, :, :1].expand_as(k).clone()
    beta = torch.sigmoid(draw(n, heads, length) + (3 if repeat_keys else 0))
    log_decay = -torch.nn.functional.softplus(draw(n, heads, length) - 3)
    return [a.to(device, dtype).detach().requires_grad_() for a in (q, k, v, beta, log_decay)]


def results(form, arguments):
    """Output of a form, and the gradients of a fixed weighting of it."""
    out = form(*arguments)
    weights = torch.linspace(-1.0, 1.0, out.numel(), device=out.device, dtype=out.dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), arguments)]


def assert_forms_agree(plain, fast, arguments, tolerance):
    """Outputs and all gradients, relative to the norm of the plain form's."""
    for index, (a, b) in enumerate(zip(results(plain, arguments), results(fast, arguments))):
        assert a.isfinite().all() and b.isfinite().all()
        assert float((a - b).norm()) <= tolerance * float(a.norm()), index


@every_device
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("length", LENGTHS)
@every_fast_scan
def test_scan_forms_agree(scan, length, dtype, tolerance, device):
    arguments = scan_arguments(length, dtype=dtype, device=device)
    assert_forms_agree(selective_scan_sequential, scan, arguments, tolerance)


def test_the_gradient_that_is_written_out_is_the_derivative():
    """By finite differences, with no other implementation in between."""
    arguments = scan_arguments(4, dtype=torch.float64, device="cpu")
    assert torch.autograd.gradcheck(selective_scan_adjoint, arguments)


@pytest.mark.parametrize("channels", [3, 64, 130])
@pytest.mark.parametrize("length", LENGTHS)
def test_fused_scan_agrees_with_the_loop(length, channels, kernel_device):
    """The Triton kernel in float32 against its plain twin in float64, over odd sizes."""
    plain, fast = (
        scan_arguments(length, dtype=dtype, device=kernel_device, channels=channels, states=5)
        for dtype in (torch.float64, torch.float32)
    )
    wanted, found = results(selective_scan_sequential, plain), results(kernels.selective_scan, fast)
    for index, (a, b) in enumerate(zip(wanted, found)):
        assert float((a - b).norm()) <= 1e-6 * float(a.norm()), index


@every_device
@pytest.mark.parametrize("step", [1e-4, 50.0])
@every_fast_scan
def test_scan_is_stable_at_extreme_step_sizes(scan, step, device):
    """Nearly no decay over 257 steps, and decay to nothing within one: no overflow, no clamp, still equal."""
    arguments = scan_arguments(257, dtype=torch.float32, device=device, step=step)
    assert_forms_agree(selective_scan_sequential, scan, arguments, 2e-6)


@every_device
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("length", LENGTHS)
def test_delta_rule_forms_agree(length, dtype, tolerance, device):
    arguments = delta_arguments(length, dtype=dtype, device=device)
    assert_forms_agree(delta_rule_sequential, delta_rule_chunked, arguments, tolerance)


@pytest.mark.parametrize("size", [1, 2, 5, 16, 39, 64])
def test_many_triangular_inverses_agree_with_the_library(size, kernel_device):
    """The Triton kernel in float32 against float64, with its gradient; what lies on and above the diagonal is no
    part of it."""
    assert kernels.unit_lower_inverse is not None
    draw = torch.Generator().manual_seed(size)
    lower, upstream = (torch.randn(3, 7, size, size, generator=draw).to(kernel_device) for _ in range(2))
    lower = (0.3 * lower).requires_grad_()
    plain = lower.detach().double().requires_grad_()
    found = kernels.unit_lower_inverse(lower)
    wanted = torch.linalg.inv(plain.tril(-1) + torch.eye(size, device=kernel_device, dtype=torch.float64))
    pairs = [(found, wanted)]
    pairs += [(*torch.autograd.grad(found, lower, upstream), *torch.autograd.grad(wanted, plain, upstream.double()))]
    for a, b in pairs:
        assert float((a - b).detach().norm()) <= 1e-6 * float(b.detach().norm())


@every_device
def test_delta_rule_is_stable_when_every_key_is_the_same(device):
    arguments = delta_arguments(200, dtype=torch.float32, device=device, repeat_keys=True)
    assert_forms_agree(delta_rule_sequential, delta_rule_chunked, arguments, 3e-5)  # gradients of decay cancel


def test_delta_rule_is_the_matrix_recurrence():
    """S_t = α S (I − β k kᵀ) + β v kᵀ and o = S q, in the convention of the literature (values × keys)."""
    q, k, v, beta, log_decay = (a.detach() for a in delta_arguments(6, dtype=torch.float64, device="cpu", n=1, heads=1))
    state = torch.zeros(5, 5, dtype=torch.float64)
    for t in range(6):
        key = k[0, 0, t]
        state = log_decay[0, 0, t].exp() * state @ (torch.eye(5, dtype=torch.float64) - beta[0, 0, t] * key.outer(key))
        state = state + beta[0, 0, t] * v[0, 0, t].outer(key)
        assert torch.allclose(delta_rule_sequential(q, k, v, beta, log_decay)[0, 0, t], state @ q[0, 0, t], atol=1e-13)


def test_forms_by_name():
    scan = scan_arguments(5, dtype=torch.float64, device="cpu")
    assert torch.equal(selective_scan(*scan), selective_scan_adjoint(*scan))  # on a CPU `auto` is a loop,
    with torch.no_grad():
        assert torch.equal(selective_scan(*scan), selective_scan_sequential(*scan))  # without a gradient the plain one
    assert torch.equal(selective_scan(*scan, form="chunked"), selective_scan_chunked(*scan))
    assert torch.allclose(selective_scan(*scan), selective_scan(*scan, form="chunked"), atol=1e-14)
    delta = delta_arguments(5, dtype=torch.float64, device="cpu")
    assert torch.equal(delta_rule(*delta), delta_rule_chunked(*delta))
    assert torch.allclose(delta_rule(*delta), delta_rule(*delta, form="sequential"), atol=1e-14)
    for function, arguments in ((selective_scan, scan), (delta_rule, delta)):
        with pytest.raises(InputError, match="form = 'magic': must be one of auto, sequential, chunked"):
            function(*arguments, form="magic")


def test_the_kernel_is_a_form_only_while_it_is_there(monkeypatch):
    monkeypatch.setattr(kernels, "selective_scan", lambda *arguments: "the kernel's")
    scan = scan_arguments(5, dtype=torch.float32, device="cpu")
    assert selective_scan(*scan, form="triton") == "the kernel's"
    with kernels.without_kernels(), pytest.raises(InputError, match="must be one of auto, sequential, chunked"):
        selective_scan(*scan, form="triton")
    assert selective_scan(*scan, form="triton") == "the kernel's"


def numpy_mamba(mixer, x):
    """One Mamba layer, channel by channel and step by step, from the equations alone.  x (T, D)."""
    w = {name: parameter.detach().double().numpy() for name, parameter in mixer.named_parameters()}
    silu = lambda a: a / (1.0 + np.exp(-a))  # noqa: E731
    length, channels = len(x), w["D"].size
    rank, states = w["dt_proj.weight"].shape[1], w["A_log"].shape[1]
    drive = x @ w["in_proj.weight"].T
    u, z = drive[:, :channels], drive[:, channels:]
    c = np.zeros((length, channels))
    for t in range(length):
        for lag in range(len(w["conv.weight"])):
            if t - lag >= 0:
                c[t] += w["conv.weight"][lag] * u[t - lag]
    c = silu(c + w["conv.bias"])
    y = np.zeros((length, channels))
    for e in range(channels):
        h = np.zeros(states)
        for t in range(length):
            r, b, readout = np.split(w["x_proj.weight"] @ c[t], [rank, rank + states])
            step = np.log1p(np.exp(w["dt_proj.weight"][e] @ r + w["dt_proj.bias"][e]))
            for s in range(states):
                h[s] = np.exp(-step * np.exp(w["A_log"][e, s])) * h[s] + step * b[s] * c[t, e]
            y[t, e] = readout @ h + w["D"][e] * c[t, e]
    return (y * silu(z)) @ w["out_proj.weight"].T


def test_mamba_layer_against_numpy():
    model = small("mamba", TUNNELS["hmm-rows"], width=8, depth=1, inner=6, rank=2, state=3, conv=3).double()
    mixer = model.blocks[0].mamba
    x = torch.randn(2, 11, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = np.stack([numpy_mamba(mixer, episode) for episode in x.numpy()])
    for tap in (None, Record()):
        assert np.abs(mixer(x, tap, "m").detach().numpy() - expected).max() < 1e-12


def test_mamba_starts_as_published():
    mixer = small("mamba", TUNNELS["hmm-rows"], width=64).blocks[0].mamba
    assert torch.allclose(mixer.A_log.exp(), torch.arange(1.0, 17.0).expand(128, 16), rtol=1e-6)
    step = torch.nn.functional.softplus(mixer.dt_proj.bias)
    assert 1e-3 * 0.999 <= step.min() < 3e-3 and 3e-2 < step.max() <= 0.1 * 1.001
    assert torch.equal(mixer.D, torch.ones(128))


def test_full_context_mlp_is_an_mlp_on_the_padded_flattened_context():
    tunnel = TUNNELS["hmm-rows"]
    model = small("mlp-full", tunnel).double()
    record = Record(["embed", "context.sum"])
    inputs = dense_inputs(tunnel, 2)
    model(inputs.tokens, inputs.features, inputs.readout, record)
    seen = record.tensors()
    flat_weight = model.mixing.weight.flatten(0, 1)  # (T · E, D)
    for t in range(tunnel.positions):
        padded = seen["embed"].clone()
        padded[:, t + 1 :] = 0
        assert torch.allclose(
            padded.flatten(1) @ flat_weight + model.position[t], seen["context.sum"][:, t], atol=1e-12
        )


def test_rotary_scores_depend_on_distance_only():
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = rotation_table(20, 8, q)
    q, k = (rotate(part.expand(1, 1, 20, 8), table) for part in (q, k))
    scores = (q @ k.transpose(-1, -2))[0, 0]
    for distance in (0, 1, 7):
        diagonal = scores.diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-12)
