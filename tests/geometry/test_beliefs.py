"""A planted linear code is decoded, noise is not; beyond a window only what lies beyond it counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from windtunnel import models
from windtunnel.geometry import Measurement, belief_survey, values
from windtunnel.geometry import beliefs as pure
from windtunnel.geometry.ridge import errors, folds, held_out
from windtunnel.geometry.task import exact_belief, next_token, window_belief
from windtunnel.tunnels import HMM, Bijection, Recall

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
    return pure.ratio(errors(target, held_out(x, target[None], folds(len(x)))[0]))


def test_a_linear_code_in_a_random_subspace_is_decoded():
    belief, x, rng = planted()
    decoded = held_out(x, belief[None], folds(N))[0]
    assert pure.ratio(errors(belief, decoded)) > 0.95
    assert pure.decoded_kl_bits(belief, decoded, log=False).mean() < 0.05
    shuffled = [r2(belief[rng.permutation(N)], x) for _ in range(10)]
    small = [r2(belief, pure.random_subspace(x, C - 1, rng)) for _ in range(10)]
    assert max(shuffled) < 0.1 and max(small) < 0.5


def test_nothing_is_decoded_from_noise():
    belief, _, rng = planted()
    x = rng.standard_normal((N, K, D))
    decoded = held_out(x, belief[None], folds(N))[0]
    assert pure.ratio(errors(belief, decoded)) < 0.05
    spread = -np.sum(belief * np.log2(belief.mean((0, 1))), -1) + np.sum(belief * np.log2(belief), -1)
    assert pure.decoded_kl_bits(belief, decoded, log=False).mean() == pytest.approx(spread.mean(), rel=0.15)


def test_a_log_code_is_decoded_in_bits():
    belief, _, rng = planted()
    target = pure.centred_log(belief)
    x = target @ rng.standard_normal((C, D)) + 0.01 * rng.standard_normal((N, K, D))
    decoded = held_out(x, target[None], folds(N))[0]
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
    assert pure.ratio(errors(belief, held_out(near, belief[None], rounds)[0])) > 0.7  # looks like a belief code …
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


def decoded_entropy(tunnel, episodes) -> list[Measurement]:
    model = models.build("transformer", tunnel, depth=1, width=8, heads=2)
    found = belief_survey.beliefs(
        model, tunnel, episodes, [models.build("transformer", tunnel, depth=1, width=8, seed=1)]
    )
    return [m for m in found if isinstance(m, Measurement) and m.name.startswith("entropy decoded")]


def test_a_faint_direction_that_tells_entropy_is_read_and_noise_is_not(monkeypatch):
    """A thousandth of the layer's variance: its shape does not follow entropy, and a linear map reads all of it."""
    tunnel = HMM(states=3, symbols=3, length=6)
    episodes, rng = tunnel.sample(96), np.random.default_rng(0)
    entropy = episodes.entropy_bits.double().numpy()
    axes = np.linalg.qr(rng.standard_normal((D, D)))[0]
    loud = rng.standard_normal((2, 96, 6, D - 1)) * 5.0
    told = np.concatenate([entropy[..., None], loud[1]], -1) @ axes
    layers = {"embed": loud[0], "blocks.0.residual": told}
    noise = {name: rng.standard_normal(x.shape) for name, x in layers.items()}
    given = iter([layers, noise])
    monkeypatch.setattr(belief_survey, "at_readout", lambda *_: next(given))
    last, best = decoded_entropy(tunnel, episodes)
    assert last.value > 0.99 and last.low > 0.99
    assert best.where["layer"] == last.where["layer"] == 0 and best.searched == 2
    assert last.arrays["value"][0] < 0.05  # the noise before the block
    assert set(last.nulls) == {"untrained", "shuffled episodes"}
    assert last.nulls["untrained"].max() < 0.05 and last.nulls["shuffled episodes"].max() < 0.1
    assert len(last.nulls["shuffled episodes"]) == belief_survey.DRAWS
    share = values.entropy_alone(entropy)[0]
    rows = told.reshape(-1, D)
    assert share(rows) < 0.05 and share(values.first_component(rows)) < 0.05


def test_what_position_tells_of_entropy_is_in_the_shuffled_null(monkeypatch):
    tunnel = Bijection(symbols=6, length=8, replacement=True)
    episodes = tunnel.sample(96)
    position = np.broadcast_to(np.eye(8), (96, 8, 8)) + 0.01 * np.random.default_rng(0).standard_normal((96, 8, 8))
    monkeypatch.setattr(belief_survey, "at_readout", lambda *_: {"embed": position, "blocks.0.residual": position})
    last = decoded_entropy(tunnel, episodes)[0]
    shuffled = last.nulls["shuffled episodes"]
    assert last.value > 0.2 and shuffled.mean() == pytest.approx(last.value, abs=0.02)


@pytest.mark.parametrize(
    ("tunnel", "why"),
    [
        (Bijection(symbols=4, length=4), "a function of position alone"),
        (Recall(pairs=3, queries=2, filler=1, keys=4, values=4), "the same everywhere"),
    ],
    ids=["bijection", "recall"],
)
def test_where_position_fixes_the_entropy_none_is_decoded(tunnel, why):
    (found,) = decoded_entropy(tunnel, tunnel.sample(24))
    assert math.isnan(found.value) and "not identifiable" in found.note and why in found.note


LEAVES = "leave nothing of the exact belief to explain"
EMPTY = {
    "bijection": (
        Bijection(symbols=4, length=1),
        {
            "belief decoded, R²": "the exact belief is the same everywhere",
            "log-belief decoded, R²": "the exact belief is the same everywhere",
            "belief beyond window 1, R²": LEAVES,
            "belief beyond windows 1 and 2, R²": LEAVES,
        },
    ),
    "hmm": (
        HMM(states=3, symbols=3, length=1),
        {"belief beyond window 1, R²": LEAVES, "belief beyond windows 1 and 2, R²": LEAVES},
    ),
    "two steps": (HMM(states=3, symbols=3, length=2), {"belief beyond windows 1 and 2, R²": LEAVES}),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", EMPTY)
def test_where_there_is_nothing_to_explain_nothing_is_explained(case):
    """A variance of 0, or what a ridge leaves of one: no share of it is known, least of all the whole."""
    tunnel, wanted = EMPTY[case]
    nets = [models.build("transformer", tunnel, depth=1, width=8, heads=2, seed=seed) for seed in range(3)]
    found = belief_survey.beliefs(nets[0], tunnel, tunnel.sample(40), nets[1:])
    silent = {m.name: m.note for m in found if isinstance(m, Measurement) and math.isnan(m.value)}
    assert all(why in silent.pop(name) for name, why in wanted.items())
    assert all(name.startswith("entropy") for name in silent)
