"""Are the keys of rival hypotheses kept apart?  As published (cosines), centred, and in what attention can feel.

Over the mean keys k_1 … k_V (V, d) of V hypotheses in one head, and their mean queries q_1 … q_V:

    raw cosine      mean over i ≠ j of |cos(k_i, k_j)|
    centred cosine  the same of k_i − k̄;  never below 1/(V − 1) when centred keys are alike in length
    scores          S_ij = q_i · k_j / √d, each row less its mean over j
    margin          mean over i of S_ii − mean_{j≠i} S_ij             in nats: log-odds of attending to one's own
    sharpness       margin / root mean square of the other S_ij       a pure number

A vector added to all keys moves the raw cosine at will and changes no attention; centring undoes it.  A change of
basis k → A k, q → A⁻ᵀ q moves both cosines; scores, margin and sharpness stay as they are.

Nulls: untrained twins; Gaussian vectors of the same number and dimension; hypotheses matched at random (margin).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

TINY = 1e-12


def cosine(keys: np.ndarray, *, centred: bool) -> np.ndarray:
    """Mean absolute off-diagonal cosine of keys (…, V, d) -> (…)."""
    if centred:
        keys = keys - keys.mean(-2, keepdims=True)
    unit = keys / np.maximum(np.linalg.norm(keys, axis=-1, keepdims=True), TINY)
    table = np.abs(unit @ np.swapaxes(unit, -1, -2))
    count = keys.shape[-2]
    return (table.sum((-1, -2)) - np.trace(table, axis1=-2, axis2=-1)) / (count * (count - 1))


def centred_scores(queries: np.ndarray, keys: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Row-centred query–key scores (…, V, V) in nats, from queries and keys (…, V, d)."""
    scores = scale * queries @ np.swapaxes(keys, -1, -2)
    return scores - scores.mean(-1, keepdims=True)


def margin(scores: np.ndarray) -> np.ndarray:
    """Own hypothesis against the mean of the rest, averaged over hypotheses: row-centred scores (…, V, V) -> (…)."""
    count = scores.shape[-1]
    own = np.diagonal(scores, axis1=-2, axis2=-1)
    return (own - (scores.sum(-1) - own) / (count - 1)).mean(-1)


def sharpness(scores: np.ndarray) -> np.ndarray:
    """Margin in units of the root mean square of the off-diagonal scores: free of the scale of q and k."""
    count = scores.shape[-1]
    own = np.diagonal(scores, axis1=-2, axis2=-1)
    rest = np.sum(scores**2, axis=(-1, -2)) - np.sum(own**2, axis=-1)
    return margin(scores) / np.sqrt(np.maximum(rest, TINY) / (count * (count - 1)))


def matched_at_random(scores: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, …) scores whose columns are permuted: every hypothesis is given another as its own."""
    orders = [rng.permutation(scores.shape[-1]) for _ in range(draws)]
    return np.stack([scores[..., order] for order in orders])


def random_vectors(shape: tuple[int, ...], draws: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Gaussian vectors of the same number and dimension, one draw (…, V, d) at a time."""
    return (rng.standard_normal(shape, dtype=np.float32) for _ in range(draws))
