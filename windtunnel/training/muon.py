"""Muon: momentum, then the nearest orthogonal matrix, batched over all matrices of one shape.

For a weight matrix with gradient G (Jordan et al. 2024):

    M ← β M + (1 − β) G          momentum
    U = (1 − β) G + β M          Nesterov look-ahead
    O = U Vᵀ of the SVD of U     by five Newton–Schulz iterations, no SVD needed
    W ← (1 − lr·decay) W − lr · √max(1, rows/columns) · O

torch has an optimiser of the same name that goes matrix by matrix; ours stacks matrices of equal shape, so the
iteration is a handful of batched products however deep the network and however many seeds.  Tested against torch's.
(The size of an update does not depend on which way a matrix lies: the iteration commutes with transposition.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

_foreach_lerp, _foreach_lerp_ = torch._foreach_lerp, torch._foreach_lerp_  # pyright: ignore[reportPrivateImportUsage]
_foreach_mul_, _foreach_sub_ = torch._foreach_mul_, torch._foreach_sub_  # pyright: ignore[reportPrivateImportUsage]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest slope at 0 while singular values stay within about [0.7, 1.2]
_ITERATIONS = 5


def orthogonalise(matrices: Float[Tensor, "g m n"]) -> Float[Tensor, "g m n"]:
    """Push all singular values of each matrix towards 1, by a quintic iteration x ← ax + b(xxᵀ)x + c(xxᵀ)²x.

    Fastest where m ≤ n.  Each line of the iteration is one batched product, its sum with what it is added to included.
    """
    a, b, c = _COEFFICIENTS
    if _is_tall(matrices):
        return orthogonalise(matrices.mT).mT
    x = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


class Muon:
    """Muon over some matrices.  Tall ones are laid on their side and go together with wide ones of the same shape.

    State: one momentum tensor (g, m, n), m ≤ n, per shape and dtype of matrices, in that dtype.

    dtype  of the iteration
    """

    def __init__(self, matrices: Iterable[Tensor], momentum: float, weight_decay: float, dtype: torch.dtype) -> None:
        self.momentum, self.weight_decay, self.dtype = momentum, weight_decay, dtype
        groups: dict[tuple[object, ...], list[Tensor]] = {}
        for matrix in sorted(matrices, key=_is_tall):  # in every group the wide ones come first
            groups.setdefault((matrix.dtype, *sorted(matrix.shape)), []).append(matrix)
        self.groups = list(groups.values())
        self.state = [g[0].new_zeros(len(g), *sorted(g[0].shape)) for g in self.groups]

    def step(self, lr: float | Tensor) -> None:
        """One update from the `.grad` of each matrix."""
        step_together([self], [lr])


@torch.no_grad()
def step_together(optimisers: Sequence[Muon], rates: Sequence[float | Tensor]) -> None:
    """One update of some networks of the same shape and settings, each at its own rate.

    Matrices of equal shape of all networks go through the iteration as one batch: for several seeds it takes as many
    kernels as for one, and those of small matrices fill a card no better than that.
    """
    first = optimisers[0]
    for index, groups in enumerate(zip(*(optimiser.groups for optimiser in optimisers), strict=True)):
        gradients = [torch.stack([_gradient(matrix) for matrix in group]) for group in groups]
        momenta = [optimiser.state[index] for optimiser in optimisers]
        _foreach_lerp_(momenta, gradients, 1.0 - first.momentum)
        ahead = torch.stack(_foreach_lerp(gradients, momenta, first.momentum))  # (networks, g, m, n)
        direction = orthogonalise(ahead.flatten(0, 1).to(first.dtype)).to(ahead.dtype).view_as(ahead) * _column(rates)
        if first.weight_decay:
            for matrices, lr in zip(groups, rates, strict=True):
                _foreach_mul_(matrices, 1.0 - lr * first.weight_decay)
        matrices = [matrix for group in groups for matrix in group]
        _foreach_sub_(matrices, _as_they_stand(direction.to(ahead.dtype), groups[0]))  # rates may be of another dtype


def _gradient(matrix: Tensor) -> Tensor:
    """On its side, if tall.  A weight that the loss does not reach has none: it stays, but for the decay."""
    gradient = torch.zeros_like(matrix) if matrix.grad is None else matrix.grad
    return gradient.mT if _is_tall(gradient) else gradient


def _column(rates: Sequence[float | Tensor]) -> float | Tensor:
    """The rates, to be multiplied with (networks, g, m, n)."""
    if len(rates) == 1:
        return rates[0]
    return torch.stack([torch.as_tensor(rate) for rate in rates]).view(-1, 1, 1, 1)


def _is_tall(matrix: Tensor) -> bool:
    return matrix.shape[-2] > matrix.shape[-1]


def _as_they_stand(direction: Float[Tensor, "networks g m n"], matrices: list[Tensor]) -> list[Tensor]:
    """The step of each matrix in its own shape, times √max(1, rows/columns), network by network."""
    wide, tall = direction.split([sum(not _is_tall(m) for m in matrices), sum(_is_tall(m) for m in matrices)], dim=1)
    rows_per_column = direction.shape[-1] / direction.shape[-2]
    standing = (tall.mT * rows_per_column**0.5).contiguous()
    return [step for own in zip(wide, standing, strict=True) for kind in own for step in kind]
