"""Small statistics that several instruments share: pure functions on arrays.

R²    = 1 − Σ (y − ŷ)² / Σ (y − ȳ)²                      sums over rows and columns together
CKA   = ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖)                           columns centred, Frobenius norms; 1 for equal geometry
PR    = (Σ λ)² / Σ λ²                                    participation ratio of a spectrum λ
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

REPLICATES = 200


def resampling_weights(count: int, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """(B, n): how often each of n sequences enters each bootstrap replicate; rows sum to n."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(count, np.full(count, 1.0 / count), size=replicates).astype(float)


def resampled_mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, …) bootstrap replicates of the mean over sequences.  values (n, …), weights (B, n)."""
    return np.tensordot(weights, values, axes=1) / weights.sum(1).reshape(-1, *[1] * (values.ndim - 1))


def resampled_ratio(top: np.ndarray, bottom: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, …) bootstrap replicates of Σ top / Σ bottom, sums over sequences.  top, bottom (n, …)."""
    below = np.tensordot(weights, bottom, axes=1)
    return np.tensordot(weights, top, axes=1) / np.where(below == 0, 1.0, below)


def interval(value: float, replicates: np.ndarray) -> tuple[float, float]:
    """95% interval of a value from (B,) bootstrap replicates: as many of their standard deviations to either side as
    Student's t with B − 1 degrees of freedom asks for, since few replicates know their own spread badly.

    Centred on the value rather than on the replicates, because resampling biases statistics such as |cosine| or R².
    """
    if len(replicates) < 2:
        return float("nan"), float("nan")
    half = float(stdtrit(len(replicates) - 1, 0.975)) * float(np.std(replicates, ddof=1))
    return float(value) - half, float(value) + half


def r_squared(y: np.ndarray, prediction: np.ndarray) -> float:
    """Share of the variance of y (N, M) that the prediction (N, M) explains; negative when worse than the mean."""
    total = np.sum((y - y.mean(0)) ** 2)
    return float(1.0 - np.sum((y - prediction) ** 2) / total) if total > 0 else 0.0


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Similarity in [0, 1] of two geometries over the same N rows; blind to rotation, shift and overall scale."""
    x, y = x - x.mean(0), y - y.mean(0)
    if x.shape[1] + y.shape[1] > 2 * len(x):  # fewer rows than columns: the same numbers from the Gram matrices
        k, m = x @ x.T, y @ y.T
        cross, own = np.sum(k * m), np.linalg.norm(k) * np.linalg.norm(m)
    else:
        cross, own = np.sum((y.T @ x) ** 2), np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(cross / own) if own > 0 else 0.0


def basis(columns: np.ndarray) -> np.ndarray:
    """(N, r) orthonormal basis of the span of columns (N, p) and the constant; dependent columns are dropped."""
    full = np.column_stack([np.ones(len(columns)), columns])
    scale = np.linalg.norm(full, axis=0)
    u, s, _ = np.linalg.svd(full[:, scale > 0] / scale[scale > 0], full_matrices=False)
    return u[:, s > 1e-9 * s[0]]


def residual(y: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """y (N, M) less its projection on an orthonormal basis (N, r)."""
    return y - onto @ (onto.T @ y)


def spectrum(x: np.ndarray) -> np.ndarray:
    """(D,) variances of x (N, D) along its principal components, largest first."""
    x = x - x.mean(0)
    gram = x.T @ x if x.shape[1] <= len(x) else x @ x.T
    values = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0) / len(x)
    return np.pad(values, (0, x.shape[1] - len(values)))


def first_share(variances: np.ndarray) -> float:
    """Share of the variance on the first component."""
    return float(variances[0] / variances.sum()) if variances.sum() > 0 else 0.0


def participation_ratio(variances: np.ndarray) -> float:
    """Effective number of dimensions: 1 for a line, D for a ball."""
    return float(variances.sum() ** 2 / np.sum(variances**2)) if variances.sum() > 0 else 0.0


def dummies(labels: np.ndarray) -> np.ndarray:
    """(N, levels) one column of 0 and 1 for every level of labels (N,)."""
    return (labels[:, None] == np.unique(labels)[None, :]).astype(float)
