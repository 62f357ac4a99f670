"""Shared statistics against values known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.geometry import ridge, stats
from windtunnel.geometry.records import profile
from windtunnel.geometry.simplex import corners, polygon


def test_cka_ignores_rotation_shift_and_scale_but_not_geometry():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 6)) * np.array([3, 2, 1, 1, 1, 1])
    turn, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    assert stats.linear_cka(x, 7 * x @ turn + 3) == pytest.approx(1.0)
    assert stats.linear_cka(x, rng.standard_normal((200, 6))) < 0.1


def test_cka_by_gram_matrices_is_the_same_number():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((9, 30)), rng.standard_normal((9, 40))
    xc, yc = x - x.mean(0), y - y.mean(0)
    direct = np.sum((yc.T @ xc) ** 2) / (np.linalg.norm(xc.T @ xc) * np.linalg.norm(yc.T @ yc))
    assert stats.linear_cka(x, y) == pytest.approx(direct)


def test_dimension_of_a_line_and_of_a_ball():
    line = np.outer(np.linspace(-1, 1, 50), [1.0, 2.0, -1.0])
    assert stats.first_share(stats.spectrum(line)) == pytest.approx(1.0)
    assert stats.participation_ratio(stats.spectrum(line)) == pytest.approx(1.0)
    ball = np.concatenate([np.eye(4), -np.eye(4)])
    assert stats.participation_ratio(stats.spectrum(ball)) == pytest.approx(4.0)
    assert stats.first_share(stats.spectrum(ball)) == pytest.approx(0.25)


def test_spectrum_is_the_same_with_more_columns_than_rows():
    x = np.random.default_rng(0).standard_normal((5, 12))
    wanted = np.linalg.svd(x - x.mean(0), compute_uv=False) ** 2 / 5
    found = stats.spectrum(x)
    assert found.shape == (12,)
    np.testing.assert_allclose(found[:5], wanted, atol=1e-12)


@pytest.mark.parametrize("replicates", [6, 200])
def test_bootstrap_interval_covers_the_mean_at_its_rate(replicates):
    rng, covered = np.random.default_rng(0), 0
    for draw in range(1000):
        values = rng.standard_normal(40)
        weights = stats.resampling_weights(40, replicates, seed=draw)
        low, high = stats.interval(values.mean(), stats.resampled_mean(values, weights))
        covered += low <= 0.0 <= high
    assert 0.915 <= covered / 1000 <= 0.965  # 95%, less the small bias of a bootstrap at n = 40


def test_folds_keep_sequences_apart_and_test_each_once():
    rounds = ridge.folds(22)
    assert sorted(np.concatenate([fold.test for fold in rounds])) == list(range(22))
    for fold in rounds:
        assert sorted(np.concatenate(fold)) == list(range(22))  # no overlap, nothing lost


def test_ridge_equals_the_closed_form_at_its_chosen_penalty():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    found = ridge.Solver(x[:40]).predict(y[None, :40], x[40:50], y[None, 40:50], x[50:])[0]
    mean_x, mean_y = x[:40].mean(0), y[:40].mean(0)
    a, b = x[:40] - mean_x, y[:40] - mean_y
    gram = a.T @ a
    fits = []
    for penalty in ridge.GRID * np.trace(gram) / 4:
        w = np.linalg.solve(gram + penalty * np.eye(4), a.T @ b)
        error = np.sum(((x[40:50] - mean_x) @ w + mean_y - y[40:50]) ** 2)
        fits.append((error, (x[50:] - mean_x) @ w + mean_y))
    np.testing.assert_allclose(found, min(fits, key=lambda fit: fit[0])[1], atol=1e-9)


def test_ridge_recovers_a_linear_map_and_each_target_has_its_own_penalty():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 5, 6))
    linear, noise = x @ rng.standard_normal((6, 3)), rng.standard_normal((30, 5, 3))
    found = ridge.held_out(x, np.stack([linear, noise]), ridge.folds(30))
    assert stats.r_squared(linear.reshape(-1, 3), found[0].reshape(-1, 3)) > 0.999
    assert stats.r_squared(noise.reshape(-1, 3), found[1].reshape(-1, 3)) < 0.05


def test_profile_searches_the_null_as_it_searches_the_data():
    table = np.array([[0.1, 0.2], [0.9, 0.3]])
    null = np.array([[[0.5, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.7]]])
    first, last, best = profile(
        "x", table, table[None].repeat(3, 0), {"n": null}, layers=[0, 1], picks=("first", "last", "best")
    )
    assert first.value == pytest.approx(0.15) and last.value == pytest.approx(0.6)
    assert best.value == 0.9 and best.where == {"layer": 1, "head": 0} and best.searched == 4
    np.testing.assert_allclose(best.nulls["n"], [0.5, 0.7])
    np.testing.assert_allclose(last.nulls["n"], [0.0, 0.35])
    (lowest,) = profile("x", table, table[None], {"n": null}, layers=[0, 1], picks=("best",), side="below")
    assert lowest.value == 0.1


def test_simplex_corners_and_centre():
    np.testing.assert_allclose(polygon(np.eye(5)), corners(5))
    np.testing.assert_allclose(polygon(np.full(5, 0.2)), 0.0, atol=1e-12)
    np.testing.assert_allclose(corners(5)[0], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(corners(5), axis=1), 1.0)
