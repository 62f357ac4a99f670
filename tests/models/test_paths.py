"""Fused and tapped paths agree; nothing looks ahead; episodes do not see each other; precisions and compilers work."""

from __future__ import annotations

import sys
import warnings
from unittest.mock import MagicMock

import pytest
import torch

from tests.models.cases import (
    TUNNELS,
    VARIANTS,
    dense_inputs,
    every_device,
    every_tunnel,
    every_variant,
    full_precision,
    logits,
    looking,
    relative,
    small,
)
from windtunnel import models
from windtunnel.models import kernels
from windtunnel.models.compiled import CompilationFailed, must_compile, specialised
from windtunnel.models.lstm import LSTM
from windtunnel.tunnels import Inputs


def output_and_gradients(model, inputs, tap):
    model.zero_grad()
    out = model.log_probs(inputs, tap)
    weights = torch.linspace(-1.0, 1.0, out.numel(), device=out.device, dtype=out.dtype).view(out.shape)
    (out * weights).sum().backward()
    return out.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_paths_agree(model, inputs, tolerance):
    if isinstance(model, LSTM) and inputs.tokens.is_cuda and model.head.weight.dtype == torch.float32:
        tolerance *= 7  # cuDNN approximates tanh and sigmoid: 6e-6 from float64 where the written-out loop is 3e-7
    with full_precision():
        fused, fused_grads = output_and_gradients(model, inputs, None)
        tapped, tapped_grads = output_and_gradients(model, inputs, looking)
    assert relative(fused, tapped) <= tolerance
    assert fused_grads.keys() == tapped_grads.keys()
    largest = max(float(grad.abs().max()) for grad in tapped_grads.values())
    for name, grad in tapped_grads.items():
        # Of its own size, or of the whole gradient's where a parameter hardly matters (key biases cancel exactly).
        scale = max(float(grad.abs().max()), 1e-2 * largest)
        assert float((fused_grads[name] - grad).abs().max()) <= 10 * tolerance * scale, name


@every_device
@every_tunnel
@every_variant
def test_tapped_equals_fused(variant, tunnel, device):
    inputs = tunnel.sample(5, seed=1, dtype=torch.float32).inputs.to(device)
    assert_paths_agree(small(variant, tunnel).to(device), inputs, 2e-6)


@every_device
@pytest.mark.parametrize(
    ("count", "length", "width", "depth"), [(1, 1, 8, 1), (3, 2, 24, 3), (2, 17, 40, 1), (1, 70, 16, 2)]
)
@every_variant
def test_tapped_equals_fused_over_odd_shapes(variant, count, length, width, depth, device):
    tunnel = TUNNELS["hmm-rows"]
    model = small(variant, tunnel, depth=depth, width=width, max_length=max(length, tunnel.positions)).to(device)
    assert_paths_agree(model, dense_inputs(tunnel, count, length=length).to(device), 3e-6)
    assert_paths_agree(model.double(), dense_inputs(tunnel, count, length=length).to(device), 1e-12)


@every_device
@pytest.mark.parametrize("tap", [None, looking], ids=["fused", "tapped"])
@every_tunnel
@every_variant
def test_later_inputs_never_change_earlier_predictions(variant, tunnel, tap, device):
    model = small(variant, tunnel).double().to(device)
    before, other = dense_inputs(tunnel, 3, seed=0).to(device), dense_inputs(tunnel, 3, seed=1).to(device)
    reference = logits(model, before, tap)
    changes_seen = False
    for cut in range(1, tunnel.positions):
        tokens = torch.cat([before.tokens[:, :cut], other.tokens[:, cut:]], dim=1)
        features = None
        if before.features is not None:
            features = torch.cat([before.features[:, :cut], other.features[:, cut:]], dim=1)
        changed = logits(model, Inputs(tokens, features, before.readout), tap)
        assert torch.equal(changed[:, :cut], reference[:, :cut])  # to the last bit
        changes_seen |= not torch.equal(changed[:, cut:], reference[:, cut:])
    assert changes_seen


@every_variant
def test_earlier_inputs_matter_wherever_the_architecture_can_see_them(variant):
    tunnel = TUNNELS["bijection"]
    model, inputs = small(variant, tunnel).double(), dense_inputs(tunnel, 1)
    tokens = inputs.tokens.clone()
    tokens[:, 0] = (tokens[:, 0] + 1) % tunnel.vocabulary
    same = torch.equal(logits(model, inputs)[:, -1], logits(model, Inputs(tokens, None, inputs.readout))[:, -1])
    assert same == (variant == "mlp-position")


@every_device
@every_tunnel
@every_variant
def test_batch_order_does_not_matter(variant, tunnel, device):
    model = small(variant, tunnel).double().to(device)
    inputs = tunnel.sample(7, seed=2).inputs.to(device)
    order = torch.tensor([3, 0, 6, 5, 1, 4, 2], device=device)
    together = logits(model, inputs)
    assert relative(logits(model, inputs[order]), together[order]) < 1e-12
    for i in (0, 6):
        assert relative(logits(model, inputs[i : i + 1]), together[i : i + 1]) < 1e-12


@every_variant
def test_predictor_contract(variant):
    tunnel = TUNNELS["hmm-rows"]
    log_probs = small(variant, tunnel).log_probs(tunnel.sample(3).inputs)  # float64 features, float32 model
    assert log_probs.shape == (3, tunnel.readouts, tunnel.classes)
    assert log_probs.dtype == torch.float32
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(3, tunnel.readouts), atol=1e-6)


@every_device
@pytest.mark.parametrize("tap", [None, looking], ids=["fused", "tapped"])
@every_variant
def test_bf16_autocast(variant, tap, device):
    """The trunk may run in bf16; logits come out in float32 and near the float32 ones, gradients finite."""
    tunnel = TUNNELS["hmm-rows"]
    model = small(variant, tunnel).to(device)
    inputs = tunnel.sample(4, dtype=torch.float32).inputs.to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        low = logits(model, inputs, tap)
    low.square().sum().backward()
    assert low.dtype == torch.float32
    assert (low - logits(model, inputs, tap)).square().mean().sqrt() < 0.05  # logits are of order 1
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("tap", [None, looking], ids=["fused", "tapped"])
@every_variant
def test_bf16_weights(variant, tap):
    """The whole network in bf16, as `model.bfloat16()` makes it."""
    tunnel = TUNNELS["hmm-rows"]
    model, inputs = small(variant, tunnel), tunnel.sample(4, dtype=torch.float32).inputs
    exact = logits(model, inputs, tap)
    low = logits(model.bfloat16(), inputs, tap)
    assert low.dtype == torch.float32
    assert (low - exact).square().mean().sqrt() < 0.05


@pytest.mark.parametrize("variant", [v for v in VARIANTS if "lstm" not in v])
def test_fused_path_is_one_graph(variant):
    """`torch.compile` traces the whole forward: no graph break.  (The backend that only replays needs no compiler.)"""
    torch.compiler.reset()
    tunnel = TUNNELS["hmm-rows"]
    model, inputs = small(variant, tunnel), tunnel.sample(3, dtype=torch.float32).inputs
    graph = torch.compile(model.forward, backend="eager", fullgraph=True, dynamic=False)
    with torch.no_grad():  # where a gradient is wanted, Mamba has another form of its scan for a compiler
        assert torch.equal(graph(inputs.tokens, inputs.features, inputs.readout), logits(model, inputs))
    assert relative(graph(inputs.tokens, inputs.features, inputs.readout), logits(model, inputs)) < 1e-6


@pytest.mark.gpu
@every_variant
def test_a_cuda_graph_captures_forward_and_backward(variant):
    """What the trainer builds on; also for the LSTM, which no compiler takes."""
    tunnel = TUNNELS["hmm-rows"]
    model = small(variant, tunnel).cuda()
    held, fresh = (tunnel.sample(6, seed=seed, dtype=torch.float32).inputs.to("cuda") for seed in (0, 1))

    def step(inputs):
        out = logits(model, inputs)
        out.square().sum().backward()
        return out.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate their workspaces here, not inside the graph
        for _ in range(3):
            step(held)
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(held)
    held.tokens.copy_(fresh.tokens)
    held.features.copy_(fresh.features)
    graph.replay()
    replayed = [captured.clone(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    model.zero_grad(set_to_none=True)
    eager = [step(fresh), *(p.grad for p in model.parameters() if p.grad is not None)]
    for a, b in zip(replayed, eager, strict=True):
        assert float((a - b).abs().max()) <= 1e-5 * max(1.0, float(b.abs().max()))


@pytest.mark.slow
@every_device
@pytest.mark.parametrize("variant", [v for v in VARIANTS if "lstm" not in v])
def test_compiled_equals_eager(variant, device):
    torch.compiler.reset()
    tunnel = TUNNELS["hmm-rows"]
    model = small(variant, tunnel).to(device)
    inputs = tunnel.sample(3, dtype=torch.float32).inputs.to(device)
    compiled = models.compiled(model)
    found = []
    for forward in (compiled, model):
        out = forward(inputs.tokens, inputs.features, inputs.readout)
        model.zero_grad(set_to_none=True)
        out.square().sum().backward()
        found.append([out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    (fast, *gradients), (eager, *others) = found
    assert relative(fast, eager) < 5e-6 and len(gradients) == len(others) > 0
    for ours, theirs in zip(gradients, others, strict=True):
        # Eager float32 is up to 4e-5 from float64 itself, where a gradient nearly cancels (linear attention's beta).
        assert relative(ours, theirs) < 1e-4


def test_compilation_that_fails_falls_back_to_eager_with_one_line(monkeypatch):
    def broken(function, **options):
        def fail(*arguments):
            raise RuntimeError("no C++ compiler\nand a long story")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    tunnel = TUNNELS["hmm-rows"]
    model, inputs = small("mlp-full", tunnel), tunnel.sample(2, dtype=torch.float32).inputs
    forward = models.compiled(model)
    with pytest.warns(UserWarning, match="running eagerly: no C\\+\\+ compiler$"):
        first = forward(inputs.tokens, inputs.features, inputs.readout)
    assert torch.equal(first, logits(model, inputs))
    assert torch.equal(forward(inputs.tokens, inputs.features, inputs.readout), first)  # and does not warn again


def test_where_speed_is_measured_a_failed_compilation_is_an_error(monkeypatch):
    def broken(function, **options):
        def fail(*arguments):
            raise RuntimeError("no C++ compiler\nand a long story")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    tunnel = TUNNELS["hmm-rows"]
    inputs = tunnel.sample(2, dtype=torch.float32).inputs
    forward = models.compiled(small("mlp-full", tunnel))
    with pytest.raises(RuntimeError, match=r"^not measured.*running eagerly: no C\+\+ compiler$"), must_compile():
        forward(inputs.tokens, inputs.features, inputs.readout)
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with must_compile():  # other warnings stay warnings, and what is not compiled on purpose runs
            warnings.warn("something else", stacklevel=1)
            models.compiled(small("lstm-residual", tunnel))(inputs.tokens, inputs.features, inputs.readout)
    assert [str(one.message) for one in others] == ["something else"]


def test_where_speed_is_measured_the_compilers_own_errors_are_one_line():
    """Of what has no slower form, as a sampler; an error of the code itself stays what it is."""

    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(CompilationFailed, match=r"^not measured, as it does not compile: [^\n]+$"), must_compile():
        specialised(broken, fullgraph=True, backend="eager")(torch.ones(2))
    with pytest.raises(ZeroDivisionError), must_compile():
        specialised(lambda x: x + 1 / 0, backend="eager")(torch.ones(2))


def test_kernels_that_cannot_be_imported_are_told_in_one_line(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)  # no Triton: nothing to tell
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernels._of_triton() == {}
    monkeypatch.setattr(kernels, "find_spec", lambda name: "here")
    monkeypatch.delattr(models, "attention_triton", raising=False)
    monkeypatch.setitem(sys.modules, "windtunnel.models.attention_triton", None)
    with pytest.warns(
        UserWarning, match=r"^the Triton kernels cannot be imported, using the plain forms instead: .*$"
    ) as told:
        assert kernels._of_triton() == {}
    assert len(told) == 1 and "\n" not in str(told[0].message)


def test_the_kernels_of_triton_go_by_the_names_they_are_asked_for(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: "here")
    for name in ("attention_triton", "block_triton", "scan_triton", "triangular_triton"):
        monkeypatch.setattr(models, name, MagicMock(), raising=False)
        monkeypatch.setitem(sys.modules, f"windtunnel.models.{name}", getattr(models, name))
    found = kernels._of_triton()
    assert kernels.__annotations__.keys() - found.keys() == {"mamba_core", "mamba_core_compiles"}
    assert found.keys() <= kernels.__annotations__.keys() and None not in found.values()


def test_the_kernels_in_use_are_named(monkeypatch):
    for name in kernels.__annotations__:
        monkeypatch.setattr(kernels, name, lambda: None)
    assert [*kernels.in_use("cuda"), "mamba_core_compiles"] == [*kernels.__annotations__]  # which is no kernel
    with kernels.without_kernels():
        assert kernels.in_use("cuda") == []
        monkeypatch.setattr(kernels, "add_norm", lambda: None)
        monkeypatch.setattr(kernels, "mamba_core", lambda: None)
        assert kernels.in_use("cuda:0") == ["add_norm", "mamba_core"] and kernels.in_use("cpu") == []


def test_every_shape_is_compiled_however_many_there_are():
    """torch itself would run the ninth uncompiled; fullgraph turns that into the warning of a failed compilation."""
    torch.compiler.reset()
    tunnel, shapes = TUNNELS["hmm-rows"], []

    def backend(graph, examples):
        shapes.append([tuple(example.shape) for example in examples if torch.is_tensor(example)])
        return graph.forward

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for count in range(2, 14):
            model = small("mlp-full", tunnel)  # another network each time, as in a study
            inputs = tunnel.sample(count, dtype=torch.float32).inputs
            fast = models.compiled(model, backend=backend)(inputs.tokens, inputs.features, inputs.readout)
            assert torch.equal(fast, logits(model, inputs))
    assert len(shapes) == 12


def test_a_model_that_cannot_be_compiled_stays_eager():
    model = small("lstm-residual", TUNNELS["hmm-rows"])
    assert not model.compilable
    assert models.compiled(model) == model.forward
