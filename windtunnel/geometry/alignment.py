"""How sharp attention is, where it goes in terms of the task, and how both change with depth.

From attention patterns A (n, L, H, K, T) at the K readouts:

    entropy    −Σ_t A log2 A                                   bits; log2 of the number of positions it spreads over
    mass       Σ_{t in target} A                               share of attention on the positions that matter
    evenness   H(mass over the d distinct spent values) / log2 d     1 = all alike
    slope      least-squares slope over the layers of the mean over heads, per layer

Nulls: untrained twins; for positions that depend on the episode, those of another episode.
"""

from __future__ import annotations

import numpy as np

TINY = 1e-9  # bits: less is rounding


def entropy_bits(pattern: np.ndarray) -> np.ndarray:
    """(…) entropy of (…, T); zeros add nothing."""
    return -np.sum(pattern * np.log2(np.where(pattern > 0, pattern, 1.0)), axis=-1)


def overlaps(patterns: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(n, n, L, H): attention of episode e on the target positions of episode e′, summed over readouts.

    patterns (n, L, H, K, T), mask (n, K, T).  The diagonal e = e′ is the real thing, the rest serve as the null.
    """
    count, layers, heads = patterns.shape[:3]
    flat = patterns.reshape(count * layers * heads, -1) @ mask.reshape(count, -1).T.astype(patterns.dtype)
    return flat.reshape(count, layers, heads, count).transpose(0, 3, 1, 2).astype(float)


def rows_of(mask: np.ndarray) -> np.ndarray:
    """(n,) number of readouts with at least one target position.  mask (n, K, T)."""
    return mask.any(-1).sum(-1).astype(float)


def masses(patterns: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(n, L, H) attention on each episode's own targets, summed over readouts."""
    return np.einsum("nlhkt,nkt->nlh", patterns, mask.astype(patterns.dtype)).astype(float)


def shuffled_masses(table: np.ndarray, rows: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, L, H) mean mass on the targets of randomly matched episodes, from `overlaps` and `rows_of`."""
    count = len(rows)
    orders = [rng.permutation(count) for _ in range(draws)]
    return np.stack([table[np.arange(count), order].sum(0) / rows.sum() for order in orders])


def evenness(mass: np.ndarray) -> np.ndarray:
    """Normalised entropy of the mass (…, V) over values that were shown; 0 mass elsewhere.  NaN below two values.

    mass is negative (any number below 0) at values that were not shown.
    """
    shown = mass >= 0
    kept = np.where(shown, mass, 0.0)
    share = kept / np.maximum(kept.sum(-1, keepdims=True), 1e-30)
    number = shown.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(number >= 2, entropy_bits(share) / np.log2(np.maximum(number, 2)), np.nan)


def slope(by_layer: np.ndarray) -> np.ndarray:
    """(…) least-squares slope of (…, L) over 0 … L − 1."""
    depth = np.arange(by_layer.shape[-1]) - (by_layer.shape[-1] - 1) / 2
    return by_layer @ depth / np.maximum(depth @ depth, 1e-30)


def fall(by_layer: np.ndarray) -> np.ndarray:
    """(…) share lost from the first to the last layer of (…, L); NaN where the first has nothing to lose."""
    first, last = by_layer[..., 0], by_layer[..., -1]
    return np.where(first > TINY, 1.0 - last / np.maximum(first, TINY), np.nan)
