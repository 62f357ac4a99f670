"""Was any test world also trained on?  Counted, by a 64-bit fingerprint of every hidden world.

Training draws episodes 0 … sequences − 1 of the stream "train"; the test stream has another key.  Two different
worlds have equal fingerprints as rarely as two 64-bit random numbers are equal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from windtunnel.training import Recipe
from windtunnel.tunnels import HMM, Bijection, Recall, Source, Tunnel, Urn

HIDDEN = {Bijection: ("permutation",), HMM: ("transition", "emission"), Recall: ("keys", "values"), Urn: ("shares",)}
"""What is hidden in each tunnel: the hypothesis, rather than what is shown of it."""
CHUNK = 2**16


def fingerprints(tunnel: Tunnel, latent: dict[str, Tensor]) -> Tensor:
    """(n,) int64, one for each hidden world: a random linear form of its bits, modulo 2^64."""
    parts = [latent[name].flatten(1) for name in HIDDEN[type(tunnel)]]
    bits = torch.cat([p.contiguous().view(torch.int64) if p.is_floating_point() else p.long() for p in parts], 1)
    generator = torch.Generator().manual_seed(20251222)
    factors = torch.randint(-(2**62), 2**62, (bits.shape[1],), generator=generator) * 2 + 1
    return (bits * factors.to(bits.device)).sum(1)


def overlap(recipe: Recipe, test: int, device: str, *, test_seed: int = 1) -> dict[str, Any] | None:
    """Test worlds among the trained ones: {"trained", "test", "shared"}; None for a tunnel we cannot fingerprint."""
    tunnel = recipe.tunnel
    if type(tunnel) not in HIDDEN:
        return None

    def drawn(seed: int, stream: str, count: int, start: int = 0) -> Tensor:
        return fingerprints(tunnel, tunnel.draw(Source.open(seed, stream, count, start=start, device=device)))

    tested = drawn(test_seed, "test", test)
    trained, shared = recipe.sequences(), torch.zeros(test, dtype=torch.bool, device=device)
    for seed in recipe.seeds:
        for start in range(0, trained, CHUNK):
            shared |= torch.isin(tested, drawn(seed, "train", min(CHUNK, trained - start), start))
    return {"trained": trained * len(recipe.seeds), "test": test, "shared": int(shared.sum())}
