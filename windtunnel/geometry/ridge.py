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
        centre = y.mean(1, keepdims=True)
        rotated = self.vectors.T @ (self.centred.T @ (y - centre))  # (G, D, M)
        shown = (x_validation - self.mean) @ self.vectors
        wanted = (x - self.mean) @ self.vectors
        best, weights = np.full(len(y), np.inf), np.zeros_like(rotated)
        for penalty in GRID * self.scale:
            fitted = rotated / (self.eigenvalues + penalty)[:, None]
            error = np.sum((shown @ fitted + centre - y_validation) ** 2, axis=(1, 2))
            better = error < best
            best, weights = np.where(better, error, best), np.where(better[:, None, None], fitted, weights)
        return wanted @ weights + centre


def held_out(x: np.ndarray, y: np.ndarray, rounds: list[Fold]) -> np.ndarray:
    """(G, n, K, M) predictions of y (G, n, K, M) from x (n, K, D), each sequence by a fit that never saw it."""
    prediction = np.empty_like(y)
    for fold in rounds:
        train, validation, test = (_rows(x[part]) for part in fold)
        targets, chosen = (_stacked(y[:, part]) for part in (fold.train, fold.validation))
        found = Solver(train).predict(targets, validation, chosen, test)
        prediction[:, fold.test] = found.reshape(len(y), len(fold.test), *y.shape[2:])
    return prediction


def errors(y: np.ndarray, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared error (n,) of the prediction and of the overall mean, per sequence.  y, prediction (n, K, M)."""
    axes = tuple(range(1, y.ndim))
    return np.sum((y - prediction) ** 2, axes), np.sum((y - y.mean((0, 1))) ** 2, axes)


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


def _stacked(y: np.ndarray) -> np.ndarray:
    return y.reshape(len(y), -1, y.shape[-1])
