"""The cluster instrument on a network's last layer, beside the exact belief put through the same; calls `clusters`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from windtunnel.geometry.belief_survey import NOTHING, too_few
from windtunnel.geometry.beliefs import Beyond, ratio
from windtunnel.geometry.clusters import Clustering, adjusted_rand, cluster
from windtunnel.geometry.gather import at_readout, label, layer_of, named, residual_names
from windtunnel.geometry.measurement import Measurement, Missing, Result
from windtunnel.geometry.records import Side, scalar, unanswerable
from windtunnel.geometry.ridge import errors, folds, rows
from windtunnel.geometry.stats import dummies, resampled_ratio, resampling_weights
from windtunnel.geometry.task import exact_belief
from windtunnel.tunnels import HMM, Episodes, Tunnel

SEQUENCES = 48  # sequences that are clustered: 960 points at 20 readouts
REPLICATES = 6
SHUFFLES = 199
DRAWS = 39


def clusters(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Number of clusters in the last layer, their agreement with the likeliest state and with the symbol just seen (of
    which there may be as many), and what they leave unsaid."""
    if not isinstance(tunnel, HMM):
        return [Missing("clusters", f"{type(tunnel).__name__} has no hidden states to form clusters")]
    if not named(model, episodes):
        return [Missing("clusters", f"{label(model)} has no taps")]
    belief = exact_belief(tunnel, episodes)
    if why := too_few(*belief.shape):
        return [Missing("clusters", why)]
    name = residual_names(model, episodes)[-1]
    x = at_readout(model, episodes, [name])[name]
    twins = [at_readout(twin, episodes, [name])[name] for twin in untrained]
    states, rng = tunnel.states, np.random.default_rng(0)
    few = np.arange(min(len(x), SEQUENCES))
    picks = [rng.choice(len(x), size=len(few)) for _ in range(REPLICATES)]
    seen = episodes.latent["observations"][:, : tunnel.length].cpu().numpy()
    truths = np.stack([belief.argmax(-1), seen])
    own = _reading(x[few], truths[:, few], states)
    again = [_reading(x[pick], truths[:, pick], states) for pick in picks]
    exact = [_reading(belief[pick], truths[:, pick], states) for pick in picks]
    fresh = [_reading(twin[few], truths[:, few], states) for twin in twins]
    likeliest, where = truths[0, few].ravel(), {"layer": layer_of(name), "positions": "readouts"}
    arrays = {"silhouettes": own[0].silhouettes, "gaps": own[0].gaps, "labels": own[0].labels, "likeliest": likeliest}
    arrays |= {"exact belief: silhouettes": np.mean([reading[0].silhouettes for reading in exact], axis=0)}
    found: list[Measurement | Missing] = []
    titles: tuple[tuple[str, Side], ...] = (
        ("clusters by silhouette", "both"),
        ("clusters by gap", "both"),
        (f"silhouette at {states} clusters", "above"),
        ("adjusted Rand with the likeliest state", "above"),
        ("adjusted Rand with the symbol just seen", "above"),
    )
    graded = len(titles) - len(truths)  # from here on, agreement with a labelling
    for index, (title, side) in enumerate(titles):
        nulls = {
            "exact belief": np.array([reading[1][index] for reading in exact]),
            "untrained": np.array([reading[1][index] for reading in fresh]),
        }
        if index >= graded:
            truth = truths[index - graded, few]  # shuffled by episode: its rows are alike, in labels and activations
            orders = [rng.permutation(len(truth)) for _ in range(SHUFFLES)]
            nulls["shuffled labels"] = np.array([adjusted_rand(own[0].labels, truth[o].ravel()) for o in orders])
        replicates = np.array([reading[1][index] for reading in again])
        found.append(scalar(title, own[1][index], replicates, nulls, side=side, where=where, arrays=arrays))
    return [*found, _within(x, belief, twins, states, where)]


def _reading(x: np.ndarray, truths: np.ndarray, states: int) -> tuple[Clustering, np.ndarray]:
    """The instrument on x (n, K, D), with some labellings (t, n, K) to agree with.

    Its numbers: clusters by silhouette, by gap, silhouette at S clusters, adjusted Rand with each labelling.
    """
    found = cluster(rows(x), states)
    index = max(states, 2) - 2
    agree = [adjusted_rand(found.labels, truth.ravel()) for truth in truths]
    return found, np.array([found.by_silhouette, found.by_gap, found.silhouettes[index], *agree], dtype=float)


def _within(x: np.ndarray, belief: np.ndarray, twins: list[np.ndarray], states: int, where: dict) -> Measurement:
    """How much of the belief is still readable inside the clusters, once their means are regressed out."""
    rounds, rng, title = folds(len(x)), np.random.default_rng(1), "belief within clusters, R²"
    whole = errors(belief, belief)[1].sum()

    def inside(y: np.ndarray, orders: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """(error, total) of the belief and of each order of the episodes; none where the clusters say all of it."""
        labels = cluster(rows(y), states).labels
        pairs = Beyond(belief, dummies(labels).reshape(*y.shape[:2], -1), rounds, orders)(y)
        return pairs if pairs[0][1].sum() > NOTHING * whole else []

    pairs = inside(x, [rng.permutation(len(x)) for _ in range(DRAWS)])
    if not pairs:
        return unanswerable(title, "the clusters leave nothing of the exact belief to explain", where)
    untrained = [ratio(found[0]) for twin in twins if (found := inside(twin, []))]
    replicates = 1.0 - resampled_ratio(*pairs[0], resampling_weights(len(x)))
    nulls = {"untrained": np.array(untrained), "shuffled episodes": np.array([ratio(pair) for pair in pairs[1:]])}
    return scalar(title, ratio(pairs[0]), replicates, nulls, where=where)
