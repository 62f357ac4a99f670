"""Ordered by entropy or by position: the two are told apart, and where they are one, that is said."""

from __future__ import annotations

import math

import numpy as np

from windtunnel import models
from windtunnel.geometry import values as pure
from windtunnel.geometry.stats import basis
from windtunnel.geometry.value_survey import values
from windtunnel.tunnels import Bijection, Recall

N, K = 60, 6


def world(seed: int = 0):
    """Entropy (N, K) that depends on position and on chance, and the row's position."""
    rng = np.random.default_rng(seed)
    entropy = 3.0 - 0.3 * np.arange(K) + rng.uniform(-1, 1, (N, K))
    return entropy, np.tile(np.arange(K), N).astype(float), rng


def curve(order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(N·K, 8) points on a bent line along `order`, with a little noise."""
    z = (order - order.mean()) / order.std()
    bent = np.column_stack([3 * z, z**2, np.sin(z)])
    return bent @ rng.standard_normal((3, 8)) + 0.1 * rng.standard_normal((len(z), 8))


def both(x: np.ndarray, entropy: np.ndarray) -> tuple[float, float]:
    first = pure.first_component(x)
    return pure.entropy_after_position(entropy)[0](first), pure.position_after_entropy(entropy)[0](first)


def test_a_curve_ordered_by_entropy_and_one_ordered_by_position_are_told_apart():
    entropy, position, rng = world()
    by_entropy, by_position = curve(entropy.ravel(), rng), curve(position, rng)
    of_entropy, of_position = both(by_entropy, entropy)
    assert of_entropy > 0.9 and of_position < 0.1
    of_entropy, of_position = both(by_position, entropy)
    assert of_entropy < 0.1 and of_position > 0.9


def test_the_shuffled_null_separates_them():
    entropy, position, rng = world()
    episodes = [rng.permutation(N) for _ in range(50)]
    rows = [pure.like_entropy(entropy, rng) for _ in range(50)]

    def ask(question, orders, x) -> tuple[float, float]:
        real, *null = (partial(x) for partial in question(entropy, orders))
        return real, max(null)

    x = pure.first_component(curve(entropy.ravel(), rng))
    real, null = ask(pure.entropy_after_position, episodes, x)
    assert real > 3 * null
    x = pure.first_component(curve(position, rng))
    real, null = ask(pure.position_after_entropy, rows, x)
    assert real > 3 * null
    real, null = ask(pure.entropy_after_position, episodes, x)
    assert real < 1.5 * null


def test_partial_r_squared_is_that_of_two_nested_regressions():
    rng = np.random.default_rng(0)
    y, of, after = (rng.standard_normal((50, k)) for k in (3, 2, 4))

    def unexplained(columns: np.ndarray) -> float:
        full = np.column_stack([np.ones(50), columns])
        return float(np.sum((y - full @ np.linalg.lstsq(full, y, rcond=None)[0]) ** 2))

    wanted = 1 - unexplained(np.column_stack([after, of])) / unexplained(after)
    assert math.isclose(pure.Partial(of, basis(after))(y), wanted, rel_tol=1e-9)


def test_few_levels_of_entropy_get_a_bin_each():
    entropy = np.array([0.0, 1.0, 2.0, 1.0, 0.0])
    assert pure.entropy_bins(entropy).tolist() == [0, 1, 2, 1, 0]
    assert len(np.unique(pure.entropy_bins(np.random.default_rng(0).uniform(size=500)))) == pure.BINS


def test_without_replacement_it_is_not_identifiable_and_with_it_is():
    for tunnel, why in (
        (Bijection(symbols=4, length=4), "a function of position alone"),
        (Recall(pairs=3, queries=2, filler=1, keys=4, values=4), "the same everywhere"),
        (Bijection(symbols=4, length=6, replacement=True), ""),
    ):
        model = models.build("transformer", tunnel, depth=1, width=8, heads=2)
        records = [r for r in values(model, tunnel, tunnel.sample(20), []) if "after" in r.name]
        assert records
        for found in records:
            assert math.isnan(found.value) == bool(why)
            assert why in found.note and ("not identifiable" in found.note) == bool(why)
