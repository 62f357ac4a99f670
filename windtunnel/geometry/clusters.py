"""Is a cloud of points organised into clusters, how many, and are they the hidden states?

    silhouette(i)  (b − a) / max(a, b)      a mean distance to one's own cluster, b to the nearest other
    gap(k)         E log W_k(uniform box) − log W_k(data)           W_k within-cluster sum of squares
                   chosen: the smallest k with gap(k) ≥ gap(k+1) − s(k+1); 1 means no clusters
    Rand           agreement of two labellings over all pairs, adjusted for chance: 0 by chance, 1 the same

The exact belief itself, with no network, clusters into about one cluster per state (corners of the simplex), so it
is the control that counts: a network that merely carries the belief will show as many.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

MOST = 8  # clusters that are tried; more where more are asked for, so that they can be chosen and be too many
RESTARTS = 3
REFERENCES = 8
DIMENSIONS = 10
PAIRED = 400  # rows whose pairwise distances are taken


class Clustering(NamedTuple):
    """What the instrument says of one cloud.

    by_silhouette, by_gap   number of clusters chosen
    silhouettes             (M − 1,) for k = 2 … M, where M is 8, or three more than asked for if that is more
    gaps                    (M,) for k = 1 … M
    labels                  (N,) the k-means clusters at the asked number
    """

    by_silhouette: int
    by_gap: int
    silhouettes: np.ndarray
    gaps: np.ndarray
    labels: np.ndarray


def cluster(x: np.ndarray, asked: int, seed: int = 0) -> Clustering:
    """The instrument on rows x (N, D): every k from 1 to M, and the labels at k = asked."""
    choices = range(2, max(MOST, asked + 3) + 1)
    rng = np.random.default_rng(seed)
    x = principal(x, DIMENSIONS)
    some = rng.permutation(len(x))[:PAIRED]
    fits = {k: kmeans(x, k, rng) for k in (1, *choices)}
    silhouettes = np.array([silhouette(x[some], fits[k][0][some]) for k in choices])
    gaps, spread = gap_curve(x, [fits[k][1] for k in (1, *choices)], rng)
    labels = fits[asked][0]
    return Clustering(choices[int(np.argmax(silhouettes))], choose_by_gap(gaps, spread), silhouettes, gaps, labels)


def principal(x: np.ndarray, most: int) -> np.ndarray:
    """Scores of x (N, D) on its first components (at most `most`), scaled to unit total variance."""
    x = x - x.mean(0)
    _, vectors = np.linalg.eigh(x.T @ x)
    scores = x @ vectors[:, ::-1][:, :most]
    return scores / max(float(np.sqrt(np.sum(scores**2) / len(x))), 1e-30)


def kmeans(x: np.ndarray, k: int, rng: np.random.Generator, restarts: int = RESTARTS) -> tuple[np.ndarray, float]:
    """Labels (N,) and within-cluster sum of squares of the best of several k-means++ starts."""
    best: tuple[np.ndarray, float] = (np.zeros(len(x), dtype=int), float(np.sum((x - x.mean(0)) ** 2)))
    if k == 1:
        return best
    for _ in range(restarts):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster: the start loses to the others
            centres, labels = kmeans2(x, k, iter=30, minit="++", rng=rng)
        inertia = float(np.sum((x - centres[labels]) ** 2))
        if inertia < best[1]:
            best = labels, inertia
    return best


def silhouette(x: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of rows x (N, D); −1 when there is only one cluster."""
    present, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(present) < 2:
        return -1.0
    member = np.eye(len(present))[inverse]
    total = cdist(x, x) @ member  # (N, k) summed distance to every cluster
    own_size = sizes[inverse]
    own = total[np.arange(len(x)), inverse] / np.maximum(own_size - 1, 1)
    other = np.where(member > 0, np.inf, total / sizes).min(1)
    score = (other - own) / np.maximum(np.maximum(own, other), 1e-30)
    return float(np.where(own_size > 1, score, 0.0).mean())


def gap_curve(x: np.ndarray, inertia: list[float], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """gap(k) for k = 1 … M and its standard error s(k), against uniform boxes along the principal axes of x."""
    low, high = x.min(0), x.max(0)
    logs = np.empty((REFERENCES, len(inertia)))
    for draw in range(REFERENCES):
        box = rng.uniform(low, high, size=x.shape)
        logs[draw] = [np.log(max(kmeans(box, k, rng, 1)[1], 1e-30)) for k in range(1, len(inertia) + 1)]
    gaps = logs.mean(0) - np.log(np.maximum(inertia, 1e-30))
    return gaps, logs.std(0) * np.sqrt(1 + 1 / REFERENCES)


def choose_by_gap(gaps: np.ndarray, spread: np.ndarray) -> int:
    """The smallest k whose gap is not clearly beaten by the next."""
    for index in range(len(gaps) - 1):
        if gaps[index] >= gaps[index + 1] - spread[index + 1]:
            return index + 1
    return len(gaps)


def adjusted_rand(a: np.ndarray, b: np.ndarray) -> float:
    """Agreement of two labellings (N,), adjusted for chance."""
    _, a = np.unique(a, return_inverse=True)
    _, b = np.unique(b, return_inverse=True)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)

    def pairs(counts: np.ndarray) -> float:
        return float(np.sum(counts * (counts - 1) / 2))

    both, rows, columns = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = rows * columns / max(pairs(np.array([len(a)])), 1e-30)
    most = (rows + columns) / 2
    return (both - expected) / (most - expected) if most > expected else 0.0
