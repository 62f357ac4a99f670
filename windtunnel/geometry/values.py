"""The shape of values and residual stream, and whether it is ordered by entropy or merely by position.

Over the rows x (N, D), one per episode and readout:

    PC1 share, participation ratio     of the spectrum of their covariance
    entropy, position ignored          R² of x on the exact entropy: position may do all the work
    entropy after position             partial R² of x on the exact entropy once position dummies are regressed out
    position after entropy             the reverse
both for all of x and for its first principal component.  Entropy enters as itself and as dummies of its quantile bins,
so that it may act in any smooth way, as position does; of one component the R² is then no less than the squared
correlation with entropy.  Of all of x it is the share of the activations' variance that follows entropy, which may be
small however well entropy can be read from them: that is `beliefs`, "entropy decoded".

Where entropy is a function of position (bijection without replacement) no data can tell the two apart: the answer to
the last two is "not identifiable", never a number.

Nulls: untrained twins; labels shuffled (the entropies of another episode at the same positions; positions exchanged
among rows of like entropy); the stream before the first block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.geometry.stats import basis, dummies, residual

BINS = 10
NEIGHBOURS = 4  # rows of like entropy among which positions are exchanged


def entropy_columns(entropy: np.ndarray) -> np.ndarray:
    """(N, 1 + bins) regressors for entropy (N,) in bits: itself, and a dummy for each quantile bin."""
    return np.column_stack([entropy, dummies(entropy_bins(entropy))])


def entropy_bins(entropy: np.ndarray) -> np.ndarray:
    """(N,) number of the quantile bin of each entropy; few distinct values get a bin each."""
    levels = np.unique(np.round(entropy, 9))
    if len(levels) <= BINS:
        return np.searchsorted(levels, np.round(entropy, 9))
    return np.searchsorted(np.quantile(entropy, np.linspace(0, 1, BINS + 1)[1:-1]), entropy)


def why_unidentifiable(entropy: np.ndarray) -> str:
    """Why entropy (n, K) cannot be told from position, or "" when it can."""
    if np.ptp(entropy) < 1e-9:
        return "the exact entropy is the same everywhere"
    if np.ptp(entropy, axis=0).max() < 1e-9:
        return "the exact entropy is a function of position alone"
    return ""


def first_component(x: np.ndarray) -> np.ndarray:
    """(N, 1) scores on the first principal component of x (N, D)."""
    x = x - x.mean(0)
    _, vectors = np.linalg.eigh(x.T @ x)
    return x @ vectors[:, -1:]


class Partial:
    """Partial R² of y on columns `of` (N, p) after others, given by an orthonormal basis (N, q) that many may share."""

    def __init__(self, of: np.ndarray, after: np.ndarray) -> None:
        self.after = after
        fresh = residual(of, after)
        u, s, _ = np.linalg.svd(fresh, full_matrices=False)
        self.fresh = u[:, s > 1e-8 * max(float(np.linalg.norm(of)), 1e-30)]

    def left(self, y: np.ndarray) -> np.ndarray:
        """What `after` leaves of y (N, M), scaled to unit sum of squares; all zero if that is nothing."""
        rest = residual(y, self.after)
        total = float(np.sum(rest**2))
        return rest / np.sqrt(total) if total > 1e-12 * np.sum(y**2) else np.zeros_like(rest)

    def share(self, left: np.ndarray) -> float:
        """The share of it that `of` explains."""
        return float(np.sum((self.fresh.T @ left) ** 2))

    def __call__(self, y: np.ndarray) -> float:
        return self.share(self.left(y))


def entropy_alone(entropy: np.ndarray, orders: Sequence[np.ndarray] = ()) -> list[Partial]:
    """For rows (n · K) and entropy (n, K) in bits: the published question, then once per order of the episodes."""
    nothing = basis(np.empty((entropy.size, 0)))
    rows = [entropy, *(entropy[order] for order in orders)]
    return [Partial(entropy_columns(shown.ravel()), nothing) for shown in rows]


def entropy_after_position(entropy: np.ndarray, orders: Sequence[np.ndarray] = ()) -> list[Partial]:
    """For rows (n · K) and entropy (n, K) in bits: the question, then once per shuffled order of the episodes."""
    count, steps = entropy.shape
    position = basis(dummies(np.tile(np.arange(steps), count)))
    rows = [entropy, *(entropy[order] for order in orders)]
    return [Partial(entropy_columns(shown.ravel()), position) for shown in rows]


def position_after_entropy(entropy: np.ndarray, orders: Sequence[np.ndarray] = ()) -> list[Partial]:
    """For rows (n · K): the question, then once for each order of the rows, as `like_entropy` gives them."""
    count, steps = entropy.shape
    position, after = np.tile(np.arange(steps), count), basis(entropy_columns(entropy.ravel()))
    return [Partial(dummies(shown), after) for shown in (position, *(position[order] for order in orders))]


def like_entropy(entropy: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n · K,) an order that exchanges rows of like entropy at random: of the same where it has few levels, else a few
    neighbours.  In a wide bin position would still tell the entropy, and pass for an effect of its own."""
    flat = entropy.ravel()
    order = np.arange(len(flat))
    if len(np.unique(np.round(flat, 9))) <= BINS:
        bins = entropy_bins(flat)
        groups = [np.flatnonzero(bins == level) for level in np.unique(bins)]
    else:
        ranked = np.lexsort((rng.random(len(flat)), flat))  # ties in any order
        groups = np.array_split(ranked, max(1, len(flat) // NEIGHBOURS))
    for rows in groups:
        order[rows] = rng.permutation(rows)
    return order
