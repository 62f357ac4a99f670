"""Muon: the iteration does what it says, batching changes nothing, and torch's optimiser of that name agrees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from windtunnel.training.muon import Muon, orthogonalise, step_together

SHAPES = [(16, 16), (48, 16), (16, 48), (5, 64), (1, 8), (8, 1)]
any_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def random_matrices(count: int, shape: tuple[int, int], seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


@any_shape
def test_singular_values_come_near_one_and_vectors_stay(shape):
    matrices = random_matrices(3, shape)
    result = orthogonalise(matrices)
    assert result.shape == matrices.shape
    values = torch.linalg.svdvals(result)
    assert float(values.min()) > 0.5 and float(values.max()) < 1.3
    # U Vᵀ of the same SVD: up to the spread of the singular values the same matrix.
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    in_basis = u.mT @ result @ vt.mT
    off_diagonal = in_basis - torch.diag_embed(in_basis.diagonal(dim1=-2, dim2=-1))
    assert float(off_diagonal.abs().max()) < 1e-4


@any_shape
def test_scale_does_not_matter(shape):
    matrices = random_matrices(2, shape)
    torch.testing.assert_close(orthogonalise(1e-3 * matrices), orthogonalise(matrices), rtol=1e-4, atol=1e-5)


def test_zero_stays_zero():
    assert torch.equal(orthogonalise(torch.zeros(2, 4, 8)), torch.zeros(2, 4, 8))


@any_shape
def test_batched_equals_one_by_one(shape):
    matrices = random_matrices(4, shape)
    one_by_one = torch.cat([orthogonalise(matrix[None]) for matrix in matrices])
    torch.testing.assert_close(orthogonalise(matrices), one_by_one, rtol=1e-5, atol=1e-6)


def twins(dtype: torch.dtype, weight_decay: float = 0.1) -> tuple[list[Tensor], list[Tensor]]:
    """Where six steps of ours and of torch's took the same weights, with the same gradients; two matrices per shape."""
    start = [weight for seed, shape in enumerate(SHAPES) for weight in random_matrices(2, shape, seed)]
    ours, theirs = ([torch.nn.Parameter(weight.clone()) for weight in start] for _ in range(2))
    muon = Muon(ours, momentum=0.9, weight_decay=weight_decay, dtype=dtype)
    torch_muon = torch.optim.Muon(
        theirs, lr=0.05, momentum=0.9, weight_decay=weight_decay, nesterov=True, adjust_lr_fn="original"
    )
    for step in range(6):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            gradient = random_matrices(1, tuple(mine.shape), 1000 * step + index)[0]
            mine.grad, other.grad = gradient, gradient.clone()
        muon.step(0.05)
        torch_muon.step()
    return [weight.detach() - old for weight, old in zip(ours, start, strict=True)], [
        weight.detach() - old for weight, old in zip(theirs, start, strict=True)
    ]


def far_apart(a: list[Tensor], b: list[Tensor]) -> float:
    """Largest difference between where two matrices went, relative to how far they went."""
    return max(float((x - y).norm() / x.norm()) for x, y in zip(a, b, strict=True))


def test_equals_torch_but_for_its_rounding(monkeypatch):
    """torch rounds to bfloat16 first; with that rounding taken out the two do the same."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    assert far_apart(*twins(torch.float32)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_is_as_close_to_torch_as_bfloat16_allows(dtype):
    assert far_apart(*twins(dtype)) < 0.03


def test_decay_is_felt():
    """Otherwise the comparisons above could not see it."""
    assert far_apart(twins(torch.float32)[0], twins(torch.float32, weight_decay=0.0)[0]) > 1e-2


def test_momentum_is_shared_by_no_two_matrices():
    """A matrix moves the same whether or not others of its shape are stepped with it."""

    def after(count: int) -> Tensor:
        weights = [torch.nn.Parameter(weight) for weight in random_matrices(3, (8, 16))[:count]]
        muon = Muon(weights, momentum=0.9, weight_decay=0.0, dtype=torch.float32)
        for step in range(3):
            for index, weight in enumerate(weights):
                weight.grad = random_matrices(1, (8, 16), 10 * step + index)[0]
            muon.step(0.05)
        return weights[0].detach()

    torch.testing.assert_close(after(1), after(3), rtol=1e-5, atol=1e-6)


def test_a_matrix_without_gradient_stays():
    used, unused = (torch.nn.Parameter(weight) for weight in random_matrices(2, (4, 4)))
    before = unused.detach().clone()
    muon = Muon([used, unused], momentum=0.9, weight_decay=0.0, dtype=torch.float32)
    used.grad = torch.ones(4, 4)
    muon.step(0.1)
    assert torch.equal(unused, before)


def networks(count: int) -> list[list[torch.nn.Parameter]]:
    """Weights of some networks of one shape, wide and tall and square, two of each."""
    found = [
        [weight for i, shape in enumerate(SHAPES) for weight in random_matrices(2, shape, 50 * n + i)]
        for n in range(count)
    ]
    return [[torch.nn.Parameter(weight.clone()) for weight in weights] for weights in found]


def give_gradients(weights: list[torch.nn.Parameter], seed: int) -> None:
    for index, weight in enumerate(weights):
        weight.grad = random_matrices(1, tuple(weight.shape), 100 * seed + index)[0]


def test_networks_together_move_as_each_alone():
    """Each with its own rate and momentum; wide and tall matrices of all of them in one batch."""
    together, alone = networks(3), networks(3)
    settings = {"momentum": 0.9, "weight_decay": 0.1, "dtype": torch.float32}
    many, single = ([Muon(weights, **settings) for weights in side] for side in (together, alone))
    for step in range(4):
        for n in range(3):
            give_gradients(together[n], 10 * n + step)
            give_gradients(alone[n], 10 * n + step)
            single[n].step(0.01 * (n + 1))
        step_together(many, [torch.tensor(0.01 * (n + 1)) for n in range(3)])
    for mine, own in zip(many, single, strict=True):
        torch.testing.assert_close(mine.state, own.state, rtol=1e-5, atol=1e-6)
    for mine, own in zip(together, alone, strict=True):
        torch.testing.assert_close([w.data for w in mine], [w.data for w in own], rtol=1e-5, atol=1e-6)


def test_a_broken_network_does_not_touch_its_neighbour():
    broken, whole = networks(2)
    muons = [Muon(weights, momentum=0.9, weight_decay=0.0, dtype=torch.float32) for weights in (broken, whole)]
    give_gradients(whole, 0)
    for weight in broken:
        weight.grad = torch.full_like(weight, torch.nan)
    step_together(muons, [0.1, 0.1])
    assert all(weight.isnan().all() for weight in broken) and all(weight.isfinite().all() for weight in whole)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rates", [(0.05, 0.05), tuple(torch.full((2,), 0.05))], ids=["floats", "tensors"])
def test_matrices_of_another_dtype_move_as_those_of_float32_do(dtype, rates):
    """Beside some of float32 and the same shape, with which they cannot share a momentum."""
    start = [*random_matrices(2, (6, 8)), *random_matrices(2, (8, 6))]
    dtypes = (torch.float32, dtype, torch.float32, dtype)
    plain = [torch.nn.Parameter(weight.clone()) for weight in start]
    mixed = [[torch.nn.Parameter(weight.to(kind, copy=True)) for weight, kind in zip(start, dtypes)] for _ in rates]
    expected = Muon(plain, 0.9, 0.1, torch.float32)
    optimisers = [Muon(matrices, 0.9, 0.1, torch.float32) for matrices in mixed]
    for step in range(3):
        for index, matrix in enumerate(plain):
            matrix.grad = random_matrices(1, tuple(matrix.shape), 10 * step + index)[0]
            for matrices in mixed:
                matrices[index].grad = matrix.grad.to(matrices[index].dtype)
        expected.step(0.05)
        step_together(optimisers, rates)
    for optimiser, matrices in zip(optimisers, mixed, strict=True):
        assert [value.dtype for value in optimiser.state] == [torch.float32, dtype]
        for matrix, other, kind in zip(matrices, plain, dtypes, strict=True):
            assert matrix.dtype == kind
            torch.testing.assert_close(matrix.float(), other, rtol=0.0, atol=4 * torch.finfo(dtype).eps + 1e-5)
