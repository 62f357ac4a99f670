"""Planted clusters are found, noise has none, and the exact belief shows what it always shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from windtunnel import models
from windtunnel.geometry import Missing
from windtunnel.geometry.cluster_survey import clusters
from windtunnel.geometry.clusters import adjusted_rand, choose_by_gap, cluster, kmeans, silhouette
from windtunnel.geometry.gather import untrained_twins
from windtunnel.tunnels import HMM


def blobs(k: int, spread: float = 0.15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=400)
    centres = np.eye(k) @ np.linalg.qr(rng.standard_normal((30, 30)))[0][:k]
    return centres[labels] + spread * rng.standard_normal((400, 30)) / np.sqrt(30), labels


def test_five_planted_clusters_are_found():
    x, labels = blobs(5)
    found = cluster(x, 5)
    assert found.by_silhouette == 5 and found.by_gap == 5
    assert adjusted_rand(found.labels, labels) == pytest.approx(1.0)
    assert found.silhouettes[5 - 2] > 0.7


def test_more_clusters_than_eight_can_be_asked_for_and_found():
    rng = np.random.default_rng(0)
    centres = 6 * np.eye(10)
    x = (centres[:, None] + 0.3 * rng.standard_normal((10, 30, 10))).reshape(300, 10)
    found = cluster(x, 10)
    assert found.by_silhouette == 10 and len(found.silhouettes) == 12 and found.silhouettes.argmax() == 10 - 2
    assert adjusted_rand(found.labels, np.repeat(np.arange(10), 30)) == 1.0


def test_noise_has_no_clusters():
    x = np.random.default_rng(0).standard_normal((400, 30))
    found = cluster(x, 5)
    assert found.by_gap == 1 and found.silhouettes.max() < 0.15


def test_silhouette_by_hand():
    x = np.array([[0.0], [1.0], [10.0]])
    # point 0: own 1, other 10; point 1: own 1, other 9; a cluster of one scores 0
    assert silhouette(x, np.array([0, 0, 1])) == pytest.approx((0.9 + 8 / 9 + 0.0) / 3)
    assert silhouette(x, np.zeros(3)) == -1.0


def test_rand_by_hand():
    a = np.array([0, 0, 1, 1])
    assert adjusted_rand(a, 1 - a) == pytest.approx(1.0)
    assert adjusted_rand(a, np.array([0, 1, 0, 1])) == pytest.approx(-0.5)
    assert adjusted_rand(a, np.zeros(4, dtype=int)) == 0.0
    rng = np.random.default_rng(0)
    chance = [adjusted_rand(rng.integers(5, size=200), rng.integers(5, size=200)) for _ in range(50)]
    assert abs(np.mean(chance)) < 0.01


def test_gap_takes_the_first_k_that_is_not_clearly_beaten():
    assert choose_by_gap(np.array([0.0, 1.0, 1.05, 0.9]), np.full(4, 0.1)) == 2
    assert choose_by_gap(np.array([0.5, 0.4, 0.3]), np.zeros(3)) == 1
    assert choose_by_gap(np.array([0.0, 1.0, 2.0]), np.zeros(3)) == 3


def test_inertia_falls_with_k():
    x, _ = blobs(3)
    inertia = [kmeans(x, k, np.random.default_rng(0))[1] for k in (1, 2, 3)]
    assert inertia[0] > inertia[1] > inertia[2]


def test_the_exact_belief_alone_forms_a_cluster_per_state():
    """With clear observations, beliefs sit at the corners of the simplex: no network is needed for clusters."""
    sharp = 0.92 * np.eye(5) + 0.02 * (1 - np.eye(5))
    flat = np.full((5, 5), 0.2)
    tunnel = HMM(
        states=5,
        symbols=5,
        length=8,
        header=None,
        emission=tuple(map(tuple, sharp)),
        transition=tuple(map(tuple, flat)),
    )
    belief = tunnel.sample(40).posterior.numpy()
    found = cluster(belief.reshape(-1, 5) + 1e-3 * np.random.default_rng(0).standard_normal((320, 5)), 5)
    assert found.by_silhouette == 5
    assert adjusted_rand(found.labels, belief.argmax(-1).ravel()) == pytest.approx(1.0)


def test_five_clusters_of_an_untrained_network_are_the_five_symbols():
    """As many symbols as states: a count of clusters cannot tell them apart, agreement can."""
    tunnel = HMM(length=12)
    model = models.build("mamba", tunnel, depth=2, width=128)
    found = clusters(model, tunnel, tunnel.sample(24, stream="test"), untrained_twins(model, 2))
    read = {reading.name: reading for reading in found}
    assert read["clusters by silhouette"].value == 5
    assert read["adjusted Rand with the symbol just seen"].value == pytest.approx(1.0)
    assert read["adjusted Rand with the likeliest state"].value < 0.2
    assert {"exact belief", "untrained", "shuffled labels"} == set(
        read["adjusted Rand with the symbol just seen"].nulls
    )


class LastSymbol(nn.Module):
    """Its stream is the symbol just seen."""

    def __init__(self, tunnel) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.eye(tunnel.vocabulary))

    def forward(self, tokens, features, readout, tap=None):
        return models.touch(tap, "blocks.0.residual", self.embedding(tokens))[:, readout]


def test_clusters_that_say_all_of_the_belief_leave_nothing_to_read():
    """Each state shows itself and goes on to the next: the symbol is the belief.  Rounding has no R²."""
    sure, moves = ((tuple(map(tuple, np.roll(np.eye(3), shift, axis=1)))) for shift in (0, 1))
    tunnel = HMM(states=3, symbols=3, length=6, header=None, transition=moves, emission=sure)
    model = models.build(LastSymbol, tunnel)
    read = {reading.name: reading for reading in clusters(model, tunnel, tunnel.sample(16), [])}
    assert read["adjusted Rand with the likeliest state"].value == 1.0
    within = read["belief within clusters, R²"]
    assert math.isnan(within.value) and within.note.endswith(
        "the clusters leave nothing of the exact belief to explain"
    )


def test_as_many_clusters_as_points_are_not_read():
    tunnel = HMM(states=12, symbols=4, length=1)
    (refused,) = clusters(models.build("lstm", tunnel, depth=1, width=8), tunnel, tunnel.sample(8), [])
    assert isinstance(refused, Missing) and refused.reason == "8 episodes of 1 readouts are too few for 12 classes"
