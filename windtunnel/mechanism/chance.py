"""Seeded chance: who donates to whom, and directions that mean nothing.

Everything is drawn on the CPU from its own generator, so a null is the same on every device and in every order.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import torch
from torch import Tensor

from windtunnel.errors import require
from windtunnel.geometry.measurement import COUNTED

DRAWS = COUNTED
"""Draws of every null: the fewest whose counted p-value can reach 0.05."""


def generator(*seed: int) -> torch.Generator:
    """A generator that depends on a few small numbers, e.g. (seed, layer, draw)."""
    mixed = 0
    for word in seed:
        mixed = (mixed * 1_000_003 + word + 1) % (1 << 62)
    return torch.Generator().manual_seed(mixed)


def derangement(count: int, *seed: int) -> Tensor:
    """(n,) int64: for every episode another one.  All episodes stand in a random circle and look at the next."""
    require(count >= 2, "episodes", count, "at least 2: resampling takes a tensor from another episode")
    circle = torch.randperm(count, generator=generator(*seed))
    partner = torch.empty_like(circle)
    partner[circle] = circle.roll(-1)
    return partner


def mismatches(count: int, draws: int) -> range:
    """Numbers of draws for a null of derangements: no more than there are circles, (n − 1)!.  To draw the only other
    order of two episodes a hundred times would count it a hundred times.

    >>> mismatches(3, 19), mismatches(6, 19)
    (range(0, 2), range(0, 19))
    """
    return range(min(draws, factorial(max(0, count - 1))))


@lru_cache(maxsize=64)  # the same few draws serve every place of a network; nobody writes to them
def rotation(width: int, *seed: int) -> Tensor:
    """(D, D) float64, orthogonal, uniform over all rotations and reflections."""
    q, r = torch.linalg.qr(torch.randn(width, width, generator=generator(*seed), dtype=torch.float64))
    return q * r.diagonal().sign()  # without the signs QR favours some rotations


def subspace(width: int, rank: int, *seed: int) -> Tensor:
    """(D, r) float64 with orthonormal columns: a random subspace."""
    require(0 <= rank <= width, "rank", rank, f"from 0 to the width {width}")
    return rotation(width, *seed)[:, :rank]
