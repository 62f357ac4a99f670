"""The generator: published vectors, disjoint streams, chunk independence, and the laws of its draws."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from windtunnel.errors import InputError
from windtunnel.tunnels import HMM, Urn, random
from windtunnel.tunnels.philox import philox4x32
from windtunnel.tunnels.random import Source, categorical, order_by_rank, order_by_sort


def words(*values: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([value], dtype=torch.int64) for value in values)


# Known-answer vectors of Philox4x32-10 as published with Random123 (Salmon et al. 2011).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_known_answers(counter, key, expected):
    assert tuple(int(word) for word in philox4x32(words(*counter), words(*key))) == expected


def test_counter_layout_is_block_site_episode():
    """A word of the source is Philox of (block, site, episode low, episode high) under (seed, stream)."""
    episode = (7 << 32) | 9
    source = Source.open(11, "test", 1, start=episode)
    block, lane = 2, 3
    expected = philox4x32(words(block, 5, 9, 7), words(11, 2))[lane]
    assert int(source.bits(5, 4 * block + lane + 1)[-1, 0]) == int(expected)


@pytest.mark.parametrize("count", [1, 4, 25, 900])
@pytest.mark.parametrize("start", [0, 2**32 - 700, 2**62])
def test_cpu_bits_equal_plain_bits(monkeypatch, count, start):
    """In place on tiles (several here, the last one short) and in plain tensor operations: the same words."""
    source = Source.open(2**32 - 1, "test", 5000 if count < 900 else 100, start=start)
    on_cpu = source.bits(6, count)
    monkeypatch.setattr(random, "on_plain_cpu", lambda tensor: False)
    assert torch.equal(on_cpu, source.bits(6, count))


def test_episodes_do_not_depend_on_batching():
    whole = Source.open(3, "train", 100).bits(0, 9)
    parts = torch.cat([Source.open(3, "train", 10, start=10 * i).bits(0, 9) for i in range(10)], dim=1)
    assert torch.equal(whole, parts)


def test_more_draws_extend_fewer():
    source = Source.open(3, "train", 50)
    assert torch.equal(source.bits(1, 30)[:7], source.bits(1, 7))


def test_streams_sites_and_seeds_are_all_different():
    seen = set()
    for seed in (0, 1):
        for stream in ("train", "validation", "test"):
            for site in (0, 1):
                bits = Source.open(seed, stream, 500).bits(site, 2)
                seen |= {tuple(pair) for pair in bits.T.tolist()}
    assert len(seen) == 2 * 3 * 2 * 500  # 64-bit pairs: a repeat would be no coincidence


def test_seed_tensor_equals_separate_seeds():
    """Several seeds in one batch give what each gives alone."""
    seeds = torch.tensor([4, 9]).repeat_interleave(6)
    together = Source(seeds, 0, torch.arange(6).repeat(2)).bits(2, 5)
    alone = torch.cat([Source.open(seed, "train", 6).bits(2, 5) for seed in (4, 9)], dim=1)
    assert torch.equal(together, alone)


def test_uniform_is_uniform_and_never_an_endpoint():
    draws = Source.open(0, "test", 20_000).uniform(0, 3)
    assert 0 < float(draws.min())
    assert float(draws.max()) < 1
    assert stats.kstest(draws.flatten().numpy(), "uniform").pvalue > 1e-3


def test_permutations_are_uniform():
    draws = Source.open(1, "test", 24_000).permutation(0, 4)
    assert torch.equal(draws.sort(0).values, torch.arange(4)[:, None].expand(4, 24_000))
    code = (draws * torch.tensor([64, 16, 4, 1])[:, None]).sum(0)
    counts = code.unique(return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("size", [2, 5, 20, 64])
def test_order_by_rank_equals_order_by_sort(size):
    keys = Source.open(4, "test", 300).bits(0, size)
    assert torch.equal(order_by_rank(keys), order_by_sort(keys))


def test_without_a_shape_there_is_one_number_for_each_episode():
    source = Source.open(3, "train", 50)
    assert torch.equal(source.uniform(0), source.uniform(0, 1)[0])
    assert torch.equal(source.integers(1, 7), source.integers(1, 7, 1)[0]) and source.integers(1, 7).shape == (50,)


def test_integers_are_uniform():
    draws = Source.open(2, "test", 30_000).integers(0, 7, 2).flatten()
    assert stats.chisquare(draws.bincount(minlength=7).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("high", [0, -5, 2**31 + 1, 2**32, 2**40, 2.0, True])
def test_a_range_that_words_cannot_fill_is_refused(high):
    with pytest.raises(InputError, match=r"^high = .*: must be a whole number from 1 to 2147483648$"):
        Source.open(0, "test", 4).integers(0, high, 1)


def test_the_widest_range_is_uniform():
    draws = Source.open(0, "test", 20_000).integers(0, 2**31, 1)[0]
    assert stats.kstest(draws.double().numpy() / 2**31, "uniform").pvalue > 1e-3
    assert int(Source.open(0, "test", 50).integers(0, 1, 2).max()) == 0


@pytest.mark.parametrize("plain", [False, True], ids=["cpu", "plain"])
def test_no_draws_are_none(monkeypatch, plain):
    if plain:
        monkeypatch.setattr(random, "on_plain_cpu", lambda tensor: False)
    source = Source.open(0, "test", 4)
    assert source.uniform(0, 0).shape == source.integers(0, 5, 0).shape == (0, 4)


@pytest.mark.parametrize("concentration", [0, 0.0, -1.0, 1e-310, math.nan, math.inf, 1e308])
def test_a_concentration_without_rows_is_refused(concentration):
    with pytest.raises(
        InputError, match=r"^concentration = .*: must be (a finite number above 0|from 1e-300 to 1e\+30: .*)$"
    ):
        Source.open(0, "test", 4).dirichlet(0, concentration, 3)


@pytest.mark.parametrize("concentration", random.CONCENTRATIONS)
def test_the_last_concentrations_give_proper_worlds(concentration):
    rows = Source.open(0, "test", 1000).dirichlet(0, concentration, 3)
    assert torch.allclose(rows.sum(0), torch.ones(1000, dtype=torch.float64))
    for tunnel in (Urn(length=3, concentration=concentration), HMM(length=3, concentration=concentration)):
        for dtype in (torch.float32, torch.float64):
            belief = tunnel.sample(1000, dtype=dtype).posterior
            assert torch.allclose(belief.sum(-1), torch.ones_like(belief[..., 0]))


@pytest.mark.parametrize("concentration", [0.05, 0.3, 1.0, 2.5, 40.0])
def test_dirichlet_marginals_are_beta(concentration):
    """Each coordinate of a symmetric Dirichlet(a) on 4 categories is Beta(a, 3a)."""
    rows = Source.open(5, "test", 8_000).dirichlet(0, concentration, 2, 4)
    assert torch.allclose(rows.sum(1), torch.ones(2, 8_000, dtype=torch.float64), atol=1e-12)
    for coordinate in (0, 3):
        sample = rows[1, coordinate].numpy()
        assert stats.kstest(sample, stats.beta(concentration, 3 * concentration).cdf).pvalue > 1e-3


def test_categorical_never_draws_an_impossible_outcome():
    cumulative = torch.tensor([0.0, 0.5, 0.5, 1.0 - 1e-16], dtype=torch.float64)[None, :, None].expand(2, 4, 5000)
    draws = categorical(cumulative, Source.open(0, "test", 5000).uniform(0, 3))
    assert draws.shape == (3, 2, 5000)
    assert set(draws.flatten().tolist()) == {1, 3}


@pytest.mark.parametrize("categories", [2, 5, 127])
def test_cpu_categorical_equals_plain_categorical(monkeypatch, categories):
    source = Source.open(0, "test", 400)
    cumulative, uniform = source.dirichlet(0, 1.0, 3, categories).cumsum(1), source.uniform(1, 7)
    on_cpu = categorical(cumulative, uniform)
    monkeypatch.setattr(random, "on_plain_cpu", lambda tensor: False)
    plain = categorical(cumulative, uniform)
    assert on_cpu.dtype == plain.dtype
    assert torch.equal(on_cpu, plain)
