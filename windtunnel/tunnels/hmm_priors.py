"""Where an HMM's matrices come from.  Everything has episodes last: rows (S, M, n) sum to 1 over their middle axis."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from windtunnel.tunnels.random import Source, add_up

GRID = 100  # the released prior works in hundredths …
GRID_FLOOR = 5  # … of at least 0.05


def mixed_chain(
    source: Source, sites: tuple[int, int, int], states: int, band: tuple[float, float], rotating: bool
) -> Float64[Tensor, "S S n"]:
    """T = r·P + (1 − r)·1πᵀ with r uniform in the band and π from Dirichlet(1).

    P is a random S-cycle (rotating) or the identity (sticky).  On the vectors that sum to zero T acts as r·P, whose
    eigenvalues all have modulus r; so the second eigenvalue modulus of T is exactly r.
    """
    mix_site, stationary_site, cycle_site = sites
    low, high = band
    r = low + (high - low) * source.uniform(mix_site, 1)[0]
    stationary = source.dirichlet(stationary_site, 1.0, states)
    here = torch.arange(states, device=r.device)[:, None]
    if rotating:
        order = source.permutation(cycle_site, states)  # visit the states in this order, then start again
        following = torch.zeros_like(order).scatter_(0, order, order.roll(-1, 0))
    else:
        following = here.expand(states, r.shape[0])
    jump = (following[:, None] == here[None]).to(r.dtype)  # (S, S, n): 1 where state i moves to state j
    return r * jump + (1.0 - r) * stationary


def released_grid(rows: Float64[Tensor, "S M n"]) -> Int64[Tensor, "S M n"]:
    """The authors' released prior: floor at 0.05, renormalise, round to hundredths of at least 5, make rows sum to 100.

    A shortfall is added one by one to the smallest entry, an excess taken one by one from the largest.
    """
    floored = rows.clamp_min(GRID_FLOOR / GRID)
    floored = floored / add_up(floored, 1)[:, None]
    grid = torch.round(floored * GRID).long().clamp_min(GRID_FLOOR)
    width = rows.shape[1]
    entry = torch.arange(width, device=rows.device)[None, :, None]
    # Rounding is off by at most 1/2 per entry and lifting to the floor by at most GRID_FLOOR: this many steps suffice.
    for _ in range(width * (GRID_FLOOR + 1)):
        missing = GRID - grid.sum(1, keepdim=True)
        if not torch.compiler.is_compiling() and not missing.any():
            break
        target = torch.where(missing > 0, grid.argmin(1, keepdim=True), grid.argmax(1, keepdim=True))
        grid = grid + missing.sign() * (entry == target)
    return grid
