"""Planted keys: orthogonal ones are found, an offset fools only the raw cosine, a change of basis no score."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from windtunnel import models
from windtunnel.geometry import Measurement
from windtunnel.geometry.key_survey import bare_keys, gather_means
from windtunnel.geometry.keys import centred_scores, cosine, margin, matched_at_random, random_vectors, sharpness
from windtunnel.tunnels import Bijection

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


def test_bare_keys_hold_the_token_and_no_position():
    tunnel = Bijection(symbols=5, length=4)
    model, episodes = models.build("transformer", tunnel, depth=2, width=16, heads=2), tunnel.sample(2)
    found, name = bare_keys(model, episodes, np.arange(10))
    block = model.blocks[0]
    with torch.no_grad():
        qkv = block.attention.qkv(block.attention_norm(model.embedding.weight)).view(10, 3, 2, 8)
    assert name == "blocks.0.attention.k"
    np.testing.assert_allclose(found, qkv[:, 1].transpose(0, 1).numpy(), atol=1e-6)
