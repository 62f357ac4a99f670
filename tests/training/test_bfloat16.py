"""The step that committed recipes train with (bfloat16, our kernels, compiled, captured) against the plain one.

Two computations in bfloat16 agree no better than each agrees with float32.  So both are held against the float32 one,
written out without a kernel: the fast path may be off by half more than what bfloat16 alone is off by, and a little.
"""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor

from tests.training.cases import MUST_COMPILE, SMALL_HMM, VARIANTS, tiny
from windtunnel import models
from windtunnel.models import SequenceModel
from windtunnel.models.kernels import without_kernels
from windtunnel.training import Recipe
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.training.speed.cases import attempted

pytestmark = [pytest.mark.gpu, MUST_COMPILE]

DEVICE = "cuda"
RECIPES = {  # the widths and lengths of each, two blocks of it, and so many episodes: no kernel depends on those
    "hmm-transformer-9x256": 48,
    "bijection-transformer": 48,
    "bijection-replacement-transformer": 48,  # alibi, short
    "recall-transformer": 6,  # alibi, 416 positions: beyond the kernel for short ones
    "hmm-mamba": 48,
    "recall-mamba": 6,
    "hmm-lstm": 48,
    "hmm-mlp": 48,
    "hmm-linear-attention": 48,
    "recall-linear-attention": 6,
}


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    """cuDNN's LSTM would round float32 products to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def away(found: Tensor, exact: Tensor) -> float:
    """How far, in units of what is exact."""
    return float((found - exact).norm() / exact.norm())


def assert_as_good(fast: Tensor, plain: Tensor, exact: Tensor, at_most: float, a_little: float) -> None:
    """`at_most`: the plain path itself must be that close, or nothing is tested."""
    assert 0 < away(plain, exact) < at_most
    assert away(fast, exact) <= 1.5 * away(plain, exact) + a_little


def shaken(recipe: Recipe) -> Network:
    """A fresh network whose weights were all moved a little: a head that starts at zero would hide what lies below."""
    network = Network(recipe, 0, DEVICE)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters:
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator).to(parameter)
    return network


def loss_and_gradient(network: Network) -> tuple[Tensor, Tensor]:
    loss = network.loss()
    gradients = torch.autograd.grad(loss, network.parameters)
    return loss.detach().double(), torch.cat([gradient.flatten().double() for gradient in gradients])


def two_blocks(recipe: Recipe) -> Recipe:
    """Blocks as wide as the recipe's; deeper ones are compiled for minutes."""
    built = cast(SequenceModel, models.build(recipe.model, recipe.tunnel, **recipe.model_options))
    return recipe.with_options(model_options=built.spec["config"] | {"depth": 2})


@pytest.mark.parametrize("name", RECIPES)
def test_the_gradient_of_a_committed_recipe(name):
    """Fused, compiled, in its own precision."""
    torch.compiler.reset()
    recipe = two_blocks(attempted()[name]).with_options(batch=RECIPES[name])
    assert recipe.precision == "bfloat16"
    fast = shaken(recipe)
    fast.compile()
    loss, gradient = loss_and_gradient(fast)
    with without_kernels():
        plain_loss, plain = loss_and_gradient(shaken(recipe))
        exact_loss, exact = loss_and_gradient(shaken(recipe.with_options(precision="float32")))
    assert abs(loss - exact_loss) <= 1.5 * abs(plain_loss - exact_loss) + 1e-3 * exact_loss
    assert_as_good(gradient, plain, exact, at_most=0.1, a_little=5e-3)


def losses_and_way(network: Network, steps: int, compile: bool) -> tuple[Tensor, Tensor]:
    """The loss of every step; and how far all weights went."""
    engine, found = Engine([network], compile=compile), []
    assert bool(engine.graphs) == compile
    start = torch.cat([parameter.detach().flatten().double() for parameter in network.parameters])
    for _ in range(steps):
        before = float(network.loss_sum)
        engine.advance(1)
        found.append(float(network.loss_sum) - before)
    end = torch.cat([parameter.detach().flatten().double() for parameter in network.parameters])
    return torch.tensor(found, dtype=torch.float64), end - start


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_twenty_captured_steps(variant, optimiser):
    torch.compiler.reset()
    options = {"batch": 64, "steps": 20, "lr": 1e-3, "optimiser": optimiser}
    half, full = (tiny(SMALL_HMM, variant, precision=precision, **options) for precision in ("bfloat16", "float32"))
    fast = losses_and_way(shaken(half), 20, compile=True)
    with without_kernels():
        plain = losses_and_way(shaken(half), 20, compile=False)
        exact = losses_and_way(shaken(full), 20, compile=False)
    assert_as_good(fast[0], plain[0], exact[0], at_most=0.02, a_little=1e-3)
    assert_as_good(fast[1], plain[1], exact[1], at_most=0.5, a_little=0.02)
