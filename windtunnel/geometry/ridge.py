"""Ridge regression in closed form, its λ chosen on held-out sequences, scored on other sequences still.

    W(λ) = (XᵀX + λ I)⁻¹ XᵀY     X (N, D) and Y (N, M) centred on the training rows

One eigendecomposition of XᵀX serves every λ and every Y, so many shuffled targets cost little more than one.
Splits are by sequence: positions of one sequence never stand on both sides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GRID = 10.0 ** np.arange(-6, 3)  # λ in units of the mean eigenvalue of XᵀX
FOLDS = 4


class Fold(NamedTuple):
    """Sequence numbers of one round: fit on `train`, choose λ on `validation`, predict `test`."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def folds(count: int, number: int = FOLDS, seed: int = 0) -> list[Fold]:
    """Every sequence is tested once; a fifth of the rest chooses λ."""
    order = np.random.default_rng(seed).permutation(count)
    parts = np.array_split(order, min(number, count))
    found = []
    for index, test in enumerate(parts):
        rest = np.concatenate([part for other, part in enumerate(parts) if other != index])
        cut = max(1, len(rest) // 5)
        found.append(Fold(rest[cut:], rest[:cut], test))
    return found


class Solver:
    """X of the training rows, decomposed once."""

    def __init__(self, x: np.ndarray) -> None:
        self.mean = x.mean(0)
        self.centred = x - self.mean
        eigenvalues, self.vectors = np.linalg.eigh(self.centred.T @ self.centred)
        self.eigenvalues = np.maximum(eigenvalues, 0.0)
        self.scale = max(float(self.eigenvalues.mean()), 1e-30)

    def predict(self, y: np.ndarray, x_validation: np.ndarray, y_validation: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(G, N', M) predictions at x from targets y (G, N, M), λ chosen for each of the G targets by its own rows."""
        number, _, columns = y.shape
        y, y_validation = _side_by_side(y), _side_by_side(y_validation)  # one large product instead of G small ones
        centre = y.mean(0)
        rotated = self.vectors.T @ (self.centred.T @ (y - centre))  # (D, G·M)
        shown = (x_validation - self.mean) @ self.vectors
        # Squared error on the validation rows for each λ, from Gram matrices: |S w − t|² = w·(SᵀS w) − 2 w·Sᵀt + |t|²,
        # of which the last term is the same for all λ.
        gram, cross = shown.T @ shown, shown.T @ (y_validation - centre)
        best, chosen = np.full(number, np.inf), np.zeros(number)
        for penalty in GRID * self.scale:
            fitted = rotated / (self.eigenvalues + penalty)[:, None]
            error = np.sum(fitted * (gram @ fitted - 2 * cross), axis=0).reshape(number, columns).sum(1)
            better = error < best
            best, chosen = np.where(better, error, best), np.where(better, penalty, chosen)
        weights = rotated / (self.eigenvalues[:, None] + np.repeat(chosen, columns))
        found = ((x - self.mean) @ self.vectors) @ weights + centre
        return found.reshape(len(x), number, columns).transpose(1, 0, 2)


def held_out(x: np.ndarray, y: np.ndarray, rounds: list[Fold]) -> np.ndarray:
    """(G, n, K, M) predictions of y (G, n, K, M) from x (n, K, D), each sequence by a fit that never saw it."""
    prediction = np.empty_like(y)
    for fold in rounds:
        train, validation, test = (rows(x[part]) for part in fold)
        targets, chosen = (stacked(y[:, part]) for part in (fold.train, fold.validation))
        found = Solver(train).predict(targets, validation, chosen, test)
        prediction[:, fold.test] = found.reshape(len(y), len(fold.test), *y.shape[2:])
    return prediction


def errors(y: np.ndarray, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared error (n,) of the prediction and of the overall mean, per sequence.  y, prediction (n, K, M)."""
    axes = tuple(range(1, y.ndim))
    return np.sum((y - prediction) ** 2, axes), np.sum((y - y.mean((0, 1))) ** 2, axes)


def _side_by_side(y: np.ndarray) -> np.ndarray:
    """(N, G·M) from (G, N, M)."""
    return y.transpose(1, 0, 2).reshape(y.shape[1], -1)


def rows(x: np.ndarray) -> np.ndarray:
    """(N, D) from (…, D)."""
    return x.reshape(-1, x.shape[-1])


def stacked(y: np.ndarray) -> np.ndarray:
    """(G, N, M) from (G, …, M)."""
    return y.reshape(len(y), -1, y.shape[-1])
