"""A planted linear code is decoded, noise is not; beyond a window only what lies beyond it counts."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.geometry import beliefs as pure
from windtunnel.geometry.ridge import errors, folds
from windtunnel.geometry.task import exact_belief, next_token, window_belief
from windtunnel.tunnels import HMM, Bijection

N, K, C, D = 60, 5, 4, 24


def planted(seed: int = 0, noise: float = 0.02):
    """Beliefs (N, K, C), and x (N, K, D) that carries them in a random C-dimensional subspace among loud noise."""
    rng = np.random.default_rng(seed)
    belief = rng.dirichlet(np.ones(C), size=(N, K))
    axes = np.linalg.qr(rng.standard_normal((D, D)))[0]
    other = rng.standard_normal((N, K, D - C)) * 2.0
    x = belief @ axes[:C] + other @ axes[C:] + noise * rng.standard_normal((N, K, D))
    return belief, x, rng


def r2(target: np.ndarray, x: np.ndarray) -> float:
    return pure.ratio(errors(target, pure.decode(x, target[None], folds(len(x)))[0]))


def test_a_linear_code_in_a_random_subspace_is_decoded():
    belief, x, rng = planted()
    decoded = pure.decode(x, belief[None], folds(N))[0]
    assert pure.ratio(errors(belief, decoded)) > 0.95
    assert pure.decoded_kl_bits(belief, decoded, log=False).mean() < 0.05
    shuffled = [r2(belief[rng.permutation(N)], x) for _ in range(10)]
    small = [r2(belief, pure.random_subspace(x, C - 1, rng)) for _ in range(10)]
    assert max(shuffled) < 0.1 and max(small) < 0.5


def test_nothing_is_decoded_from_noise():
    belief, _, rng = planted()
    x = rng.standard_normal((N, K, D))
    decoded = pure.decode(x, belief[None], folds(N))[0]
    assert pure.ratio(errors(belief, decoded)) < 0.05
    spread = -np.sum(belief * np.log2(belief.mean((0, 1))), -1) + np.sum(belief * np.log2(belief), -1)
    assert pure.decoded_kl_bits(belief, decoded, log=False).mean() == pytest.approx(spread.mean(), rel=0.15)


def test_a_log_code_is_decoded_in_bits():
    belief, _, rng = planted()
    target = pure.centred_log(belief)
    x = target @ rng.standard_normal((C, D)) + 0.01 * rng.standard_normal((N, K, D))
    decoded = pure.decode(x, target[None], folds(N))[0]
    assert pure.decoded_kl_bits(belief, decoded, log=True).mean() < 1e-3
    np.testing.assert_allclose(pure.from_decoded(target, log=True)[0], np.log(belief)[0], atol=1e-9)


def test_decoded_numbers_become_distributions():
    wild = np.array([[-0.3, 0.5, 0.9]])
    p = np.exp(pure.from_decoded(wild, log=False))
    assert p.sum() == pytest.approx(1.0) and (p > 0).all() and p[0, 2] == pytest.approx(0.9 / (1.4 + pure.FLOOR))


def test_only_what_lies_beyond_the_window_counts():
    rng = np.random.default_rng(0)
    window = rng.standard_normal((N, K, 3))
    fresh = rng.standard_normal((N, K, 3))
    belief = window + 0.5 * fresh
    mix = rng.standard_normal((3, D))
    near = window @ mix + 0.01 * rng.standard_normal((N, K, D))
    full = near + fresh @ rng.standard_normal((3, D))
    rounds = folds(N)
    assert pure.ratio(errors(belief, pure.decode(near, belief[None], rounds)[0])) > 0.7  # looks like a belief code …
    assert pure.ratio(pure.Beyond(belief, window, rounds, [])(near)[0]) < 0.05  # … but holds the window only
    pairs = pure.Beyond(belief, window, rounds, [rng.permutation(N) for _ in range(5)])(full)
    assert pure.ratio(pairs[0]) > 0.95 and max(pure.ratio(pair) for pair in pairs[1:]) < 0.1


def test_a_shuffled_target_keeps_its_relation_to_the_window():
    rng = np.random.default_rng(0)
    window = rng.standard_normal((N, K, 2))
    belief = window @ rng.standard_normal((2, C)) + rng.standard_normal((N, K, C))
    real, shuffled = pure.keeping(belief, window, [rng.permutation(N)])
    z = np.column_stack([np.ones(N * K), window.reshape(-1, 2)])
    fits = [z @ np.linalg.lstsq(z, y.reshape(-1, C), rcond=None)[0] for y in (real, shuffled)]
    assert (
        np.abs(fits[0] - fits[1]).mean() < 0.2 * np.abs(fits[0]).mean()
    )  # only the rest's chance relation to z differs
    np.testing.assert_array_equal(real, belief)
    assert abs(np.corrcoef((belief.ravel() - fits[0].ravel()), (shuffled.ravel() - fits[1].ravel()))[0, 1]) < 0.2


@pytest.mark.parametrize(
    "tunnel", [Bijection(symbols=4, length=6, replacement=True), HMM(states=3, symbols=3, length=6)], ids=str
)
def test_a_window_that_sees_all_is_the_exact_belief_and_a_short_one_is_not(tunnel):
    episodes = tunnel.sample(30)
    exact = exact_belief(tunnel, episodes)
    np.testing.assert_allclose(window_belief(tunnel, episodes, 6), exact, atol=1e-9)
    assert np.abs(window_belief(tunnel, episodes, 1) - exact).max() > 0.1


def test_a_symbol_predictor_is_held_against_the_state_belief():
    states, symbols = (HMM(states=3, symbols=2, length=5, predict=what) for what in ("state", "symbol"))
    episodes = symbols.sample(8)
    belief = exact_belief(symbols, episodes)
    assert belief.shape == (8, 5, 3) and episodes.posterior.shape == (8, 5, 2)
    latent = {
        name: value[:, :5] if name in ("states", "observations") else value for name, value in episodes.latent.items()
    }
    np.testing.assert_allclose(belief, states.episodes(latent).posterior.numpy(), atol=1e-12)
    np.testing.assert_allclose(next_token(symbols, episodes), episodes.posterior.numpy(), atol=1e-12)
    np.testing.assert_allclose(window_belief(symbols, episodes, 5), belief, atol=1e-9)
