"""Planted keys: orthogonal ones are found, an offset fools only the raw cosine, a change of basis no score."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from windtunnel import models
from windtunnel.geometry import Measurement, key_survey
from windtunnel.geometry.key_survey import GROUPS, Means, _formed, bare_keys, gather_means
from windtunnel.geometry.keys import centred_scores, cosine, margin, matched_at_random, random_vectors, sharpness
from windtunnel.tunnels import Bijection, Recall

V, D = 20, 32


def against_random(keys: np.ndarray, *, centred: bool) -> Measurement:
    rng = np.random.default_rng(0)
    sample = np.array([cosine(draw, centred=centred) for draw in random_vectors(keys.shape, 99, rng)])
    value = float(cosine(keys, centred=centred))
    return Measurement("key cosine", value, value, value, "sequences", nulls={"random": sample}, side="below")


def test_orthogonal_keys_are_found():
    keys = np.linalg.qr(np.random.default_rng(0).standard_normal((D, V)))[0].T
    raw, centred = (against_random(keys, centred=flag) for flag in (False, True))
    assert raw.value < 1e-12 and raw.p_value == pytest.approx(0.01)
    assert centred.value == pytest.approx(1 / (V - 1)) and centred.p_value == pytest.approx(0.01)


def test_a_shared_offset_moves_the_raw_cosine_and_nothing_else():
    rng = np.random.default_rng(0)
    keys, queries, offset = rng.standard_normal((V, D)), rng.standard_normal((V, D)), 3 * rng.standard_normal(D)
    assert cosine(keys, centred=False) == pytest.approx(0.14, abs=0.02)
    assert cosine(keys + offset, centred=False) > 0.85
    assert cosine(keys + offset, centred=True) == pytest.approx(cosine(keys, centred=True), abs=1e-12)
    before, after = centred_scores(queries, keys), centred_scores(queries, keys + offset)
    np.testing.assert_allclose(after, before, atol=1e-10)
    attention = [np.exp(s) / np.exp(s).sum(-1, keepdims=True) for s in (queries @ keys.T, queries @ (keys + offset).T)]
    np.testing.assert_allclose(attention[0], attention[1], atol=1e-10)


def test_centred_random_keys_sit_at_one_over_v_minus_one():
    keys = np.random.default_rng(0).standard_normal((V, 20_000))
    assert cosine(keys, centred=True) == pytest.approx(1 / 19, abs=0.002)
    assert cosine(keys, centred=False) < 0.01


def test_a_change_of_basis_moves_cosines_but_no_score():
    rng = np.random.default_rng(0)
    keys, queries = rng.standard_normal((V, D)), rng.standard_normal((V, D))
    change = rng.standard_normal((D, D)) + 2 * np.outer(rng.standard_normal(D), rng.standard_normal(D))
    turned_keys, turned_queries = keys @ change.T, queries @ np.linalg.inv(change)
    assert abs(cosine(turned_keys, centred=True) - cosine(keys, centred=True)) > 0.1
    for functional in (margin, sharpness):
        before = functional(centred_scores(queries, keys))
        assert functional(centred_scores(turned_queries, turned_keys)) == pytest.approx(before, rel=1e-8)


def test_margin_of_a_hand_made_score_matrix():
    scores = np.array([[4.0, 1.0, 1.0], [0.0, 6.0, 0.0], [2.0, 2.0, 5.0]])
    centred = scores - scores.mean(1, keepdims=True)
    assert margin(centred) == pytest.approx((3 + 6 + 3) / 3)
    assert sharpness(10 * centred) == pytest.approx(sharpness(centred))


def test_own_hypothesis_is_told_from_random_matching():
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((V, D))
    scores = centred_scores(keys + rng.standard_normal((V, D)), keys, D**-0.5)
    null = margin(matched_at_random(scores, 99, rng))
    assert margin(scores) > null.max() and abs(null.mean()) < 0.3


def test_means_are_taken_where_a_token_stands():
    tunnel = Bijection(symbols=5, length=4)
    model, episodes = models.build("transformer", tunnel, depth=2, width=16, heads=2), tunnel.sample(12)
    keys, values = gather_means(model, episodes, [np.arange(5), 5 + np.arange(5)])
    k, _ = values.average()
    kept = models.trace(model, episodes, "blocks.1.attention.k")["blocks.1.attention.k"]
    here = episodes.inputs.tokens == 7
    by_hand = kept.transpose(1, 2)[here].mean(0)  # (H, d)
    np.testing.assert_allclose(k[1, :, 2], by_hand.numpy(), atol=1e-5)
    # keys are read at every readout, so their queries come from there: here all the places where a key stands
    assert keys.q_count.sum() == 12 * 4 and values.q_count.sum() == values.k_count.sum() == 12 * 3


def test_a_token_that_a_replicate_has_not_is_left_out_of_it():
    """Each token has the same key and query in every sequence, and all have nearly the same: no number depends on the
    draw.  One stands in a single group of sequences, which a third of the replicates do not draw, and another is asked
    for in that group only."""
    counts, asked = np.ones((GROUPS, 5)), np.ones((GROUPS, 5))
    counts[1:, 0] = asked[1:, 0] = asked[1:, 1] = 0
    near = 1.0 + 1e-3 * np.eye(5, 8)  # nearly one direction, so that all pairs have a cosine of nearly 1
    k, q = (table[:, None, None, :, None] * near for table in (counts, asked))
    found = [m for m in _formed("symbols", [0], Means(k, q, counts, asked, 1.0), []) if isinstance(m, Measurement)]
    widths = {m.name: m.high - m.low for m in found}
    assert len(widths) == 4 and widths["key cosine, raw"] < 1e-6
    assert all(width < 1e-6 for name, width in widths.items() if "margin" in name), widths


@pytest.mark.parametrize("group", ["keys", "values"])
def test_the_interval_of_the_cosine_of_rare_tokens_is_as_wide_as_their_scatter(group):
    """64 tokens in 24 sequences of 16: against the scatter over other sequences.  With zeros for what a replicate has
    not, it was nearly three times as wide."""
    tunnel = Recall(pairs=16, queries=2, filler=4, keys=64, values=64)
    model = models.build("transformer", tunnel, depth=1, width=32, heads=2, seed=0)
    found = [f for seed in range(10) for f in key_survey.keys(model, tunnel, tunnel.sample(24, seed=seed), [])]
    found = [f for f in found if f.name == "key cosine, raw" and f.where["path"] == "formed"]
    found = [f for f in found if f.where["hypotheses"] == group]
    scatter = 2 * 1.96 * np.std([f.value for f in found], ddof=1)
    assert len(found) == 10 and 0.5 < np.mean([f.high - f.low for f in found]) / scatter < 1.8


def test_bare_keys_hold_the_token_and_no_position():
    tunnel = Bijection(symbols=5, length=4)
    model, episodes = models.build("transformer", tunnel, depth=2, width=16, heads=2), tunnel.sample(2)
    found, name = bare_keys(model, episodes, np.arange(10))
    block = model.blocks[0]
    with torch.no_grad():
        qkv = block.attention.qkv(block.attention_norm(model.embedding.weight)).view(10, 3, 2, 8)
    assert name == "blocks.0.attention.k"
    np.testing.assert_allclose(found, qkv[:, 1].transpose(0, 1).numpy(), atol=1e-6)
