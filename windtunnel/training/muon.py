"""Muon: momentum, then the nearest orthogonal matrix, batched over all matrices of one shape.

For a weight matrix with gradient G (Jordan et al. 2024):

    M ← β M + (1 − β) G          momentum
    U = (1 − β) G + β M          Nesterov look-ahead
    O = U Vᵀ of the SVD of U     by five Newton–Schulz iterations, no SVD needed
    W ← (1 − lr·decay) W − lr · √max(1, rows/columns) · O

torch has an optimiser of the same name that goes matrix by matrix; ours stacks matrices of equal shape, so the
iteration is a handful of batched products however deep the network.  Tested against torch's.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest slope at 0 while singular values stay within about [0.7, 1.2]
_ITERATIONS = 5


def orthogonalise(matrices: Float[Tensor, "g m n"]) -> Float[Tensor, "g m n"]:
    """Push all singular values of each matrix towards 1, by a quintic iteration x ← ax + b(xxᵀ)x + c(xxᵀ)²x."""
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if tall else x


class Muon:
    """Muon over some matrices.  State: one momentum tensor (g, m, n) per shape."""

    def __init__(self, matrices: Iterable[Tensor], momentum: float, weight_decay: float, dtype: torch.dtype) -> None:
        self.momentum, self.weight_decay, self.dtype = momentum, weight_decay, dtype
        groups: dict[tuple[int, ...], list[Tensor]] = {}
        for matrix in matrices:
            groups.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = list(groups.values())
        self.state = [torch.zeros(len(g), *g[0].shape, device=g[0].device) for g in self.groups]

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """One update from the `.grad` of each matrix."""
        for matrices, momentum in zip(self.groups, self.state, strict=True):
            # A weight that the loss does not reach has no gradient: it stays, but for the decay.
            gradient = torch.stack([torch.zeros_like(m) if m.grad is None else m.grad for m in matrices])
            momentum.lerp_(gradient, 1.0 - self.momentum)
            ahead = gradient.lerp(momentum, self.momentum)
            direction = orthogonalise(ahead.to(self.dtype)).to(gradient.dtype)
            rows, columns = gradient.shape[-2:]
            scale = max(1.0, rows / columns) ** 0.5
            torch._foreach_mul_(matrices, 1.0 - lr * self.weight_decay)  # pyright: ignore[reportPrivateImportUsage]
            updates = list((direction * (lr * scale)).unbind(0))
            torch._foreach_sub_(matrices, updates)  # pyright: ignore[reportPrivateImportUsage]
