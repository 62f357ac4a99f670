"""Training on a GPU: the captured step is the plain one, seeds do not touch, states go on, and memory is told.

Tolerances: a compiled forward pass rounds differently, so captured and plain steps are compared by their losses
(relative 1e-3 over 20 steps) and by how far the weights went.  AdamW in float32: half a per cent (changing the first
weights by one part in a million moves the last ones by up to 0.04%).  Muon iterates in bfloat16, where fused
arithmetic rounds at other places: a tenth (0.2% to 6% were seen).  The same captured step with other seeds beside it,
or after a restart, computes the same numbers but for the order of atomic additions: relative 1e-4.
"""

from __future__ import annotations

import gc
import re

import pytest
import torch
from safetensors.torch import load_file

from tests.training.cases import BIJECTION, MUST_COMPILE, SMALL_HMM, VARIANTS, counts, tiny
from windtunnel.errors import InputError
from windtunnel.training import Recipe, load, train
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.training.sitting import Sitting

pytestmark = [pytest.mark.gpu, MUST_COMPILE]

DEVICE = "cuda"


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    """cuDNN's LSTM would round float32 products to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def recipe(variant: str = "transformer", **options) -> Recipe:
    options = {"batch": 64, "steps": 20, "validate_every": 10, "checkpoint_every": 8, "lr": 1e-3} | options
    return tiny(SMALL_HMM, variant, **options)


def losses(engine: Engine, steps: int) -> torch.Tensor:
    """The loss of every step of every network, (steps, networks).

    A look at scores and weights in between must not matter to a captured step.
    """
    found: list[list[float]] = []
    for step in range(steps):
        before = [float(network.loss_sum) for network in engine.networks]
        engine.advance(1)
        found.append([float(n.loss_sum) - b for n, b in zip(engine.networks, before, strict=True)])
        if step == steps // 2 and engine.graphs:
            for network in engine.networks:
                network.validate()
                network.weights()
    return torch.tensor(found, dtype=torch.float64)


def assert_equal(a: torch.Tensor, b: torch.Tensor, rtol: float) -> None:
    torch.testing.assert_close(a, b, rtol=rtol, atol=0.0)


def weights_of(network: Network) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in network.weights().values()])


@pytest.mark.parametrize(("optimiser", "apart"), [("adamw", 0.005), ("muon", 0.1)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_captured_step_is_the_plain_step(variant, optimiser, apart):
    captured, plain = (Network(recipe(variant, optimiser=optimiser), 0, DEVICE) for _ in range(2))
    start = weights_of(plain)
    engine = Engine([captured])
    assert bool(engine.graphs) == (DEVICE == "cuda")
    assert int(captured.step) == 0 and torch.equal(weights_of(captured), start)  # warming up left no trace
    assert_equal(losses(engine, 20), losses(Engine([plain], compile=False), 20), rtol=1e-3)
    went, expected = weights_of(captured) - start, weights_of(plain) - start
    assert float(expected.norm()) > 0.1
    assert float((went - expected).norm() / expected.norm()) < apart
    assert int(captured.step) == int(plain.step) == 20 and int(captured.broken_at) == -1


def test_a_batch_that_grows_has_a_graph_for_each_size():
    growing = recipe(optimiser="adamw", first_batch=16)
    captured, plain = (Network(growing, 0, DEVICE) for _ in range(2))
    engine = Engine([captured])
    assert [stage.batch for stage in engine.graphs] == [16, 32, 64]
    assert_equal(losses(engine, 20), losses(Engine([plain], compile=False), 20), rtol=1e-3)


def test_a_gpu_takes_the_steps_a_cpu_would():
    gpu, cpu = Network(recipe(optimiser="adamw"), 3, DEVICE), Network(recipe(optimiser="adamw"), 3, "cpu")
    assert_equal(losses(Engine([gpu]), 20), losses(Engine([cpu]), 20), rtol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_seeds_together_equal_seeds_alone(variant):
    together = losses(Engine([Network(recipe(variant), seed, DEVICE) for seed in (0, 1, 2)]), 20)
    for index, seed in enumerate((0, 1, 2)):
        alone = losses(Engine([Network(recipe(variant), seed, DEVICE)]), 20)
        # Products over the matrices of three seeds may round differently from those of one.
        assert_equal(together[:, index], alone[:, 0], rtol=1e-3)
    assert together[0, 0] != together[0, 1]


def close(a: list[dict], b: list[dict]) -> bool:
    """The same records within rounding."""
    pairs = [(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in y]
    return all(y == x if y is None else x == pytest.approx(y, rel=1e-4) for x, y in pairs)


@pytest.mark.parametrize("growth", [{}, {"first_batch": 32}], ids=["one-batch", "growing"])
def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch, growth):
    """Two seeds in one graph, stopped again and again, at a step in the middle of nowhere and just before the end."""
    made = recipe(seeds=(0, 1), steps=16, checkpoint_every=100, **growth)
    whole = train(recipe=made, out=tmp_path / "whole", device=DEVICE)
    for stop_at in (3, 15):
        looks = iter(range(10**6))
        with monkeypatch.context() as patch:
            patch.setattr("windtunnel.training.sitting._GPU_CHUNK", 1)
            begun = load(tmp_path / "parts").steps if (tmp_path / "parts").exists() else 0
            patch.setattr(Sitting, "_should_stop", lambda *_, n=stop_at - begun, looks=looks: next(looks) >= n)
            run = train(recipe=made, out=tmp_path / "parts", device=DEVICE)
        assert run.steps == stop_at
    run = train(recipe=made, out=tmp_path / "parts", device=DEVICE)
    assert run.finished
    for seed in (0, 1):
        assert close(run.metrics(seed), whole.metrics(seed))


def test_one_step_is_enough():
    """Fewer steps than warming up takes; and fewer than a growing batch has sizes."""
    for made in (recipe(steps=1), recipe(steps=1, first_batch=8)):
        run = train(recipe=made, device=DEVICE)
        assert run.finished and run.models[0].head.weight.device.type == DEVICE


def test_a_loss_that_is_no_number_stops_and_is_never_saved(tmp_path):
    made = recipe(lr=1e38, optimiser="adamw", average=0.0, warmup=0, checkpoint_every=1, ladder=50)
    with pytest.raises(InputError, match=r"seed 0: the (loss was|weights were) not finite (at|after) step"):
        train(recipe=made, out=tmp_path, device=DEVICE)
    saved = [tensor for path in tmp_path.rglob("*.safetensors") for tensor in load_file(path).values()]
    assert all(bool(tensor.isfinite().all()) for tensor in saved)


def test_a_factory_trains():
    run = train(BIJECTION, counts, steps=60, batch=64, lr=1e-2, validate_every=60, device=DEVICE)
    assert run.finished and run.metrics()[-1]["kl_bits"] < run.metrics()[0]["kl_bits"]


def test_a_run_of_a_gpu_opens_on_a_cpu(tmp_path):
    run = train(recipe=recipe(steps=2), out=tmp_path, device=DEVICE)
    inputs = SMALL_HMM.sample(4).inputs
    there = run.models[0].log_probs(inputs.to(DEVICE)).cpu()
    assert torch.allclose(load(tmp_path).models[0].log_probs(inputs), there, atol=1e-5)


def test_out_of_memory_says_the_batch_that_would_fit():
    """A cap of 2 GiB above what other tests still hold; the batch that is named then trains under the same cap."""
    options = {"model_options": {"depth": 2, "width": 128, "heads": 4}, "steps": 2, "validation_episodes": 8}
    total = torch.cuda.get_device_properties(0).total_memory
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2 * 2**30) / total)
    try:
        with pytest.raises(InputError) as error:
            train(recipe=recipe(batch=2**19, **options), device=DEVICE)
        told = re.fullmatch(r"batch = 524288: does not fit into GPU memory; a batch of (\d+) does", str(error.value))
        assert told, str(error.value)
        fits = int(told[1])
        assert 256 <= fits < 2**19
        assert train(recipe=recipe(batch=fits, **options), device=DEVICE).finished
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
