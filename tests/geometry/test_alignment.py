"""Attention with a known aim."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel import models
from windtunnel.geometry import alignment as pure
from windtunnel.geometry.alignment_survey import alignment, patterns_at_readout
from windtunnel.geometry.task import attention_targets
from windtunnel.tunnels import HMM, Bijection, Recall


def test_entropy_of_known_patterns():
    assert pure.entropy_bits(np.full(8, 1 / 8)) == pytest.approx(3.0)
    assert pure.entropy_bits(np.array([1.0, 0.0])) == 0.0


def test_evenness_counts_shown_values_only():
    mass = np.array([[0.2, 0.2, -1, -1], [0.4, 0.0, -1, -1], [0.3, -1, -1, -1]])
    found = pure.evenness(mass)
    assert found[0] == pytest.approx(1.0) and found[1] == pytest.approx(0.0) and np.isnan(found[2])


def test_change_with_depth():
    assert pure.slope(np.array([5.0, 3.0, 1.0])) == pytest.approx(-2.0)
    assert pure.fall(np.array([4.0, 9.0, 1.0])) == pytest.approx(0.75)
    assert np.isnan(pure.fall(np.array([0.0, 0.0]))) and pure.fall(np.array([[2.0, 1.0], [1.0, 1.0]])).tolist() == [
        0.5,
        0,
    ]


def planted(aimed: bool, seed: int = 0):
    """Attention of 2 layers × 2 heads; where aimed, head (1, 0) looks at the target of its own episode."""
    rng = np.random.default_rng(seed)
    patterns = rng.dirichlet(np.ones(9), size=(30, 2, 2, 3))
    target = rng.integers(9, size=(30, 3))
    mask = np.arange(9) == target[..., None]
    if aimed:
        patterns[:, 1, 0] = 0.5 * patterns[:, 1, 0] + 0.5 * mask
    return patterns, mask


def test_an_aimed_head_stands_out_from_other_episodes_targets():
    patterns, mask = planted(aimed=True)
    rows, table = pure.rows_of(mask), pure.overlaps(patterns, mask)
    own = pure.masses(patterns, mask)
    np.testing.assert_allclose(np.einsum("eelh->elh", table), own)
    null = pure.shuffled_masses(table, rows, 99, np.random.default_rng(0))
    value = own.sum(0) / rows.sum()
    assert np.unravel_index(value.argmax(), value.shape) == (1, 0)
    assert value[1, 0] > 0.5 > null.max()
    aimless, mask = planted(aimed=False)
    assert (pure.masses(aimless, mask).sum(0) / pure.rows_of(mask).sum()).max() < null.max() + 0.05


def test_targets_in_the_terms_of_each_task():
    tunnel = Bijection(symbols=3, length=5, replacement=True)
    episodes = tunnel.sample(40)
    targets = attention_targets(tunnel, episodes)
    keys, tokens = episodes.latent["keys"].numpy(), episodes.inputs.tokens.numpy()
    assert targets["spent values"].fixed and targets["spent values"].mask[0, 2].nonzero()[0].tolist() == [1, 3]
    for episode, step in ((e, k) for e in range(40) for k in range(5)):
        earlier = [2 * j for j in range(step) if keys[episode, j] == keys[episode, step]]
        assert targets["matching key"].mask[episode, step].nonzero()[0].tolist() == earlier
        for position in targets["matching value"].mask[episode, step].nonzero()[0]:
            assert tokens[episode, position] - 3 == episodes.labels[episode, step]  # a seen key's value is the answer

    recall = Recall(pairs=3, queries=2, filler=1, keys=6, values=5)
    episodes = recall.sample(10)
    value = attention_targets(recall, episodes)["matching value"].mask
    assert (value.sum(-1) == 1).all()
    shown = episodes.inputs.tokens.numpy()[np.arange(10)[:, None], value.argmax(-1)] - 6
    np.testing.assert_array_equal(shown, episodes.labels.numpy())

    hmm = HMM(states=2, symbols=2, length=5)
    targets = attention_targets(hmm, hmm.sample(2))
    together = sum(target.mask.astype(int) for target in targets.values())[0]
    np.testing.assert_array_equal(together, np.tril(np.ones((9, 9)))[4:])  # every visible position exactly once
    assert targets["transition rows"].mask[0, 0].nonzero()[0].tolist() == [0, 1]


def test_patterns_are_those_of_the_network_whatever_the_chunk(monkeypatch):
    tunnel = Bijection(symbols=4, length=4)
    model, episodes = models.build("transformer", tunnel, depth=2, width=16, heads=2), tunnel.sample(9)
    found = patterns_at_readout(model, episodes)
    whole = models.trace(model, episodes, "blocks.1.attention.pattern")["blocks.1.attention.pattern"]
    np.testing.assert_allclose(found[:, 1], whole[:, :, episodes.inputs.readout].numpy(), atol=1e-6)
    monkeypatch.setattr("windtunnel.geometry.alignment_survey.BUDGET", 1)  # one episode at a time
    np.testing.assert_allclose(patterns_at_readout(model, episodes), found, atol=1e-6)


def test_fixed_targets_say_that_shuffling_is_no_control():
    tunnel = Bijection(symbols=4, length=4)
    model = models.build("transformer", tunnel, depth=2, width=16, heads=2)
    records = {r.name: r for r in alignment(model, tunnel, tunnel.sample(8), [])}
    found = records["attention on spent values"]
    # readouts 0, 2, 4, 6 see 1, 3, 5, 7 positions with 0, 1, 2, 3 values: mean over the three that have any
    assert f"uniform attention gives {np.mean([1 / 3, 2 / 5, 3 / 7]):.3f}" in found.note


def test_attention_that_has_one_position_only_does_not_sharpen():
    """No entropy in the first layer: none can be lost, and least of all everything."""
    tunnel = Bijection(symbols=4, length=1)
    nets = [models.build("transformer", tunnel, depth=2, width=16, heads=2, seed=seed) for seed in range(3)]
    records = {r.name: r for r in alignment(nets[0], tunnel, tunnel.sample(8), nets[1:])}
    found = records["attention entropy, fall from first to last layer"]
    assert np.isnan(found.value) and "no entropy to lose" in found.note
    assert records["attention entropy"].value == 0.0
