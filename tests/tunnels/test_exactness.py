"""Every posterior against brute-force enumeration of the whole joint, and against a second formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tunnels import oracles
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

EXACT = 1e-12
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(symbols=st.integers(2, 6), data=st.data(), replacement=st.booleans(), seed=SEEDS)
def test_bijection_equals_enumeration(symbols, data, replacement, seed):
    length = data.draw(st.integers(1, 8 if replacement else symbols))
    layout = data.draw(st.sampled_from(["plain", "paper"]))
    tunnel = Bijection(symbols=symbols, length=length, replacement=replacement, layout=layout)
    episodes = tunnel.sample(2, seed=seed, stream="test")
    for i in range(2):
        expected = oracles.bijection_posterior(*(episodes.latent[k][i].tolist() for k in ("keys", "values")), symbols)
        np.testing.assert_allclose(episodes.posterior[i].numpy(), expected, atol=EXACT)


@settings(max_examples=25, deadline=None)
@given(
    states=st.integers(2, 3),
    symbols=st.integers(2, 4),
    length=st.integers(1, 6),
    kind=st.sampled_from(["dirichlet", "rotating", "sticky", "released"]),
    concentration=st.floats(0.2, 3.0),
    predict=st.sampled_from(["state", "symbol"]),
    seed=SEEDS,
)
def test_hmm_equals_enumeration(states, symbols, length, kind, concentration, predict, seed):
    options = {"prior": "released"} if kind == "released" else {"dynamics": kind, "concentration": concentration}
    tunnel = HMM(states=states, symbols=symbols, length=length, predict=predict, **options)
    episodes = tunnel.sample(1, seed=seed, stream="test")
    transition, emission = (episodes.latent[k][0].numpy() for k in ("transition", "emission"))
    observations = episodes.latent["observations"][0, :length].tolist()
    oracle = oracles.hmm_state_posterior if predict == "state" else oracles.hmm_symbol_posterior
    np.testing.assert_allclose(episodes.posterior[0].numpy(), oracle(transition, emission, observations), atol=EXACT)


@pytest.mark.parametrize("dynamics", ["dirichlet", "rotating", "sticky"])
def test_hmm_equals_a_second_formula(dynamics):
    """Unnormalised matrix products diag(E[:, o_t]) Tᵀ … diag(E[:, o_1]) 1/S, in extended range."""
    tunnel = HMM(states=5, symbols=4, length=30, dynamics=dynamics)
    episodes = tunnel.sample(20, seed=8, stream="test")
    for i in range(20):
        transition, emission = (episodes.latent[k][i].numpy() for k in ("transition", "emission"))
        vector = np.full(5, 0.2, dtype=np.longdouble)
        for t, symbol in enumerate(episodes.latent["observations"][i].tolist()):
            vector = np.diag(emission[:, symbol]) @ (transition.T @ vector if t else vector)
            expected = (vector / vector.sum()).astype(float)
            np.testing.assert_allclose(episodes.posterior[i, t].numpy(), expected, atol=EXACT)


@settings(max_examples=25, deadline=None)
@given(
    pairs=st.integers(1, 3),
    values=st.integers(3, 4),
    repeats=st.integers(1, 3),
    noise=st.one_of(st.just(0.0), st.floats(0.01, 0.99)),
    mixed=st.booleans(),
    seed=SEEDS,
)
def test_recall_equals_enumeration(pairs, values, repeats, noise, mixed, seed):
    sizes = {"pairs": pairs, "queries": pairs, "filler": 1, "keys": 5, "values": values}
    tunnel = Recall(**sizes, noise=noise, repeats=repeats, mixed=mixed)
    episodes = tunnel.sample(1, seed=seed, stream="test")
    stored, shown, queries = (part[0].tolist() for part in tunnel.read(episodes.inputs))
    keys = episodes.latent["keys"][0].tolist()
    expected = oracles.recall_posterior(stored, shown, queries, keys, values, noise)
    np.testing.assert_allclose(episodes.posterior[0].numpy(), expected, atol=EXACT)


@settings(max_examples=25, deadline=None)
@given(symbols=st.integers(2, 6), length=st.integers(1, 12), concentration=st.floats(0.05, 5.0), seed=SEEDS)
def test_urn_equals_a_ratio_of_evidences(symbols, length, concentration, seed):
    tunnel = Urn(symbols=symbols, length=length, concentration=concentration)
    episodes = tunnel.sample(2, seed=seed, stream="test")
    for i in range(2):
        draws = tunnel.read(episodes.inputs)[i].tolist()
        expected = oracles.urn_posterior(draws, symbols, concentration)
        np.testing.assert_allclose(episodes.posterior[i].numpy(), expected, atol=1e-11)


@pytest.mark.parametrize("concentration", [2.0, 3.5])
def test_urn_equals_numerical_integration(concentration):
    """A second formula: the integral over the hidden shares, on a grid.  (α ≥ 2: smooth, so midpoints are exact.)"""
    tunnel = Urn(symbols=2, length=8, concentration=concentration)
    episodes = tunnel.sample(5, seed=3, stream="test")
    for i in range(5):
        expected = oracles.urn_grid_posterior(tunnel.read(episodes.inputs)[i].tolist(), concentration)
        np.testing.assert_allclose(episodes.posterior[i].numpy(), expected, atol=1e-6)


def test_fixed_matrices_equal_enumeration():
    transition, emission = [[0.9, 0.1], [0.0, 1.0]], [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]
    tunnel = HMM(states=2, symbols=3, length=6, header=None, transition=transition, emission=emission)
    episodes = tunnel.sample(30, seed=1, stream="test")
    for i in range(30):
        expected = oracles.hmm_state_posterior(transition, emission, episodes.latent["observations"][i].tolist())
        np.testing.assert_allclose(episodes.posterior[i].numpy(), expected, atol=EXACT)


@pytest.mark.parametrize(
    "tunnel",
    [
        Bijection(replacement=True, length=40),
        HMM(length=50),
        HMM(length=50, prior="released", predict="symbol"),
        HMM(length=50, dynamics="rotating"),
        Recall(pairs=8, keys=16, values=16, noise=0.3, repeats=3),
        Urn(length=50),
    ],
    ids=repr,
)
def test_float32_agrees_with_float64(tunnel):
    """Same episodes in both precisions, beliefs within 1e-5."""
    exact = tunnel.sample(2000, seed=4, stream="test")
    single = tunnel.sample(2000, seed=4, stream="test", dtype=torch.float32)
    assert single.posterior.dtype == torch.float32
    assert torch.equal(exact.inputs.tokens, single.inputs.tokens)
    assert torch.equal(exact.labels, single.labels)
    assert float((exact.posterior - single.posterior.double()).abs().max()) < 1e-5
