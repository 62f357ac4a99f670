"""On matching noise each instrument says "p ≤ 0.05" in about one of twenty draws: 200 cheap draws each.

Where draws and data are exchangeable the counted p-value is exact, so the number of false alarms is
Binomial(200, 0.05): it must lie within the central 99.9% of that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import binom

from windtunnel.geometry import Measurement, alignment, beliefs, keys, lens, values
from windtunnel.geometry.clusters import adjusted_rand, kmeans
from windtunnel.geometry.ladder_survey import _dissociation
from windtunnel.geometry.ridge import errors, folds, held_out

DRAWS, RATE, B = 200, 0.05, 19
LOW, HIGH = (int(binom.ppf(q, DRAWS, RATE)) for q in (0.0005, 0.9995))


def key_cosine(rng):
    value = keys.cosine(rng.standard_normal((8, 6)), centred=True)
    return value, [keys.cosine(draw, centred=True) for draw in keys.random_vectors((8, 6), B, rng)], "below"


def best_key_cosine(rng):
    """The smallest of six heads, each null draw the smallest of six as well."""
    value = keys.cosine(rng.standard_normal((6, 8, 6)), centred=False).min()
    null = [keys.cosine(draw, centred=False).min() for draw in keys.random_vectors((6, 8, 6), B, rng)]
    return value, null, "below"


def key_margin(rng):
    scores = keys.centred_scores(rng.standard_normal((8, 4)), rng.standard_normal((8, 4)))
    return keys.margin(scores), keys.margin(keys.matched_at_random(scores, B, rng)), "above"


def attention_mass(rng):
    patterns, mask = rng.dirichlet(np.ones(7), size=(12, 2, 2, 3)), np.zeros((12, 3, 7), dtype=bool)
    np.put_along_axis(mask, rng.integers(7, size=(12, 3, 1)), True, -1)
    rows, table = alignment.rows_of(mask), alignment.overlaps(patterns, mask)
    null = alignment.shuffled_masses(table, rows, B, rng).max((1, 2))
    return (alignment.masses(patterns, mask).sum(0) / rows.sum()).max(), null, "above"


def entropy_order(rng):
    """Points ordered by position: entropy, which falls with position, explains nothing more."""
    entropy = 2.0 - 0.3 * np.arange(4) + rng.uniform(size=(15, 4))
    x = np.tile(np.arange(4.0), 15)[:, None] + rng.standard_normal((60, 1))
    real, *null = values.entropy_after_position(entropy, [rng.permutation(15) for _ in range(B)])
    return real(x), [partial(x) for partial in null], "above"


def position_order(rng):
    """Points ordered by entropy, of four levels, which falls with position."""
    entropy = np.clip(rng.integers(3, size=(15, 4)) - (np.arange(4) > 1), 0, 3).astype(float)
    x = entropy.ravel()[:, None] + rng.standard_normal((60, 1))
    real, *null = values.position_after_entropy(entropy, [values.like_entropy(entropy, rng) for _ in range(B)])
    return real(x), [partial(x) for partial in null], "above"


def position_order_of_a_curve(rng):
    """Points on a curve that follows entropy alone, which is graded and falls with position."""
    entropy = rng.random((60, 6)) + 2.0 / (1.0 + np.arange(6))
    x = np.exp(entropy.ravel())[:, None]
    real, *null = values.position_after_entropy(entropy, [values.like_entropy(entropy, rng) for _ in range(B)])
    return real(x), [partial(x) for partial in null], "above"


def decoding(rng):
    x, belief = rng.standard_normal((16, 3, 4)), rng.dirichlet(np.ones(3), size=(16, 3))
    targets = beliefs.shuffled_targets(belief, B, rng)
    found = held_out(x, targets, folds(16))
    scores = [beliefs.ratio(errors(y, guess)) for y, guess in zip(targets, found)]
    return scores[0], scores[1:], "above"


def entropy_decoding(rng):
    """x holds position and noise: of entropy, which falls with position, it tells no more than of another episode's."""
    entropy = 2.0 - 0.3 * np.arange(4) + rng.uniform(size=(16, 4))
    x = np.concatenate([np.broadcast_to(np.eye(4), (16, 4, 4)), rng.standard_normal((16, 4, 3))], -1)
    targets = beliefs.shuffled_targets(entropy[..., None], B, rng)
    scores = [beliefs.ratio(errors(*pair)) for pair in zip(targets, held_out(x, targets, folds(16)))]
    return scores[0], scores[1:], "above"


def decoding_beyond(rng):
    """x holds the window and noise; the belief holds the window and other noise."""
    window = rng.standard_normal((24, 3, 2))
    belief = window + rng.standard_normal((24, 3, 2))
    x = np.concatenate([window + 0.1 * rng.standard_normal((24, 3, 2)), rng.standard_normal((24, 3, 2))], -1)
    orders = [rng.permutation(24) for _ in range(B)]
    scores = [beliefs.ratio(pair) for pair in beliefs.Beyond(belief, window, folds(24), orders)(x)]
    return scores[0], scores[1:], "above"


def lens_kl(rng):
    posterior = torch.from_numpy(rng.dirichlet(np.ones(3), size=(10, 2)))
    log_q = torch.from_numpy(rng.standard_normal((10, 2, 3))).log_softmax(-1)
    return lens.kl_of(posterior, log_q).mean(), lens.shuffled_kl(posterior, log_q, B, rng), "below"


def cluster_agreement(rng):
    labels, truth = kmeans(rng.standard_normal((40, 3)), 3, rng, 1)[0], rng.integers(3, size=40)
    return adjusted_rand(labels, truth), [adjusted_rand(labels, rng.permutation(truth)) for _ in range(B)], "above"


def dissociation(rng):
    """Six networks, whose layers are nearly alike: four times six differences are not twenty-four draws."""
    gap = rng.standard_normal((6, 1)) + 0.3 * rng.standard_normal((6, 4))  # in log10 steps
    found = _dissociation(np.full((6, 4), 99.0), 10.0 ** (2 + gap) - 1)
    return found.value, found.nulls["names exchanged"], "both"


def untrained_twins(rng):
    """Five twins with the law of a maximum: the t route, whose rate that of Student's would not be."""
    sample = rng.gumbel(size=6)
    return sample[0], sample[1:], "above"


NOISE: list[Callable] = [
    key_cosine,
    best_key_cosine,
    key_margin,
    attention_mass,
    entropy_order,
    position_order,
    position_order_of_a_curve,
    decoding,
    entropy_decoding,
    decoding_beyond,
    lens_kl,
    cluster_agreement,
    dissociation,
    untrained_twins,
]


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.__name__)
def test_false_alarms_come_at_the_stated_rate(noise):
    alarms = 0
    for draw in range(DRAWS):
        value, null, side = noise(np.random.default_rng(draw))
        record = Measurement("x", float(value), 0.0, 0.0, "draws", nulls={"null": np.asarray(null)}, side=side)
        assert record.p_value is not None
        alarms += record.p_value <= RATE
    assert LOW <= alarms <= HIGH, f"{alarms} of {DRAWS}"
