"""Labels follow the stated posterior, streams do not mix, and longer worlds extend shorter ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from windtunnel.errors import InputError
from windtunnel.tunnels import HMM, STREAMS, Bijection, Recall, Urn, from_dict, to_dict
from windtunnel.tunnels.blocks import in_blocks

SMALL_WORLDS = [
    Bijection(symbols=8, length=8),
    Bijection(symbols=8, length=12, replacement=True, layout="paper"),
    HMM(length=8),
    HMM(length=8, prior="released", predict="symbol"),
    HMM(length=8, dynamics="rotating"),
    HMM(length=8, dynamics="sticky", concentration=0.5),
    Recall(pairs=4, queries=3, filler=2, keys=8, values=8),
    Recall(pairs=4, queries=3, filler=2, keys=8, values=6, noise=0.4, repeats=3),
    Recall(pairs=4, queries=3, filler=2, keys=8, values=8, mixed=True),
    Urn(symbols=5, length=8),
    Urn(symbols=4, length=6, concentration=2.0),
]


@pytest.mark.parametrize("tunnel", SMALL_WORLDS, ids=repr)
def test_labels_are_drawn_from_the_posterior(tunnel):
    """Chi-square over 1e5 episodes: F(label − 1) + U·P(label) is uniform exactly if the label follows the belief."""
    episodes = tunnel.sample(100_000, seed=17, stream="test")
    picked = torch.nn.functional.one_hot(episodes.labels, tunnel.classes).bool()
    upper = episodes.posterior.cumsum(-1)[picked]
    mass = episodes.posterior[picked]
    assert float(mass.min()) > 0  # no label is ever impossible
    spread = np.random.default_rng(0).random(len(mass))
    position = (upper - mass).numpy() + spread * mass.numpy()
    per_step = position.reshape(-1, tunnel.readouts)  # steps of one episode are dependent: one test for each
    for step in range(tunnel.readouts):
        counts = np.histogram(per_step[:, step], bins=20, range=(0, 1))[0]
        assert counts.sum() == 100_000
        assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("tunnel", SMALL_WORLDS, ids=repr)
def test_batching_does_not_matter(tunnel):
    whole = tunnel.sample(9000, seed=3, stream="test")  # crosses the CPU block size
    first, rest = tunnel.sample(1234, seed=3, stream="test"), tunnel.sample(7766, seed=3, stream="test", start=1234)
    assert torch.equal(whole.inputs.tokens, torch.cat([first.inputs.tokens, rest.inputs.tokens]))
    assert torch.equal(whole.posterior, torch.cat([first.posterior, rest.posterior]))
    assert torch.equal(whole.labels, torch.cat([first.labels, rest.labels]))


@pytest.mark.parametrize("tunnel", [HMM(), Bijection(), Recall()], ids=repr)
def test_streams_and_seeds_share_no_episode(tunnel):
    seen, total = set(), 0
    for seed in (0, 1):
        for stream in STREAMS:
            tokens = tunnel.sample(2000, seed=seed, stream=stream)
            rows = tokens.inputs.tokens if tokens.inputs.features is None else tokens.inputs.features.flatten(1)
            seen |= {row.numpy().tobytes() for row in rows}
            total += 2000
    assert len(seen) == total


@pytest.mark.parametrize("dynamics", ["rotating", "sticky"])
def test_second_eigenvalue_modulus_is_exactly_r(dynamics):
    """A band of zero width fixes r: every other eigenvalue has that modulus, within 1e-12."""
    for r in (0.0, 0.5, 0.93):
        transition = HMM(dynamics=dynamics, mixing=(r, r)).sample(200, seed=2).latent["transition"]
        moduli = np.sort(np.abs(np.linalg.eigvals(transition.numpy())), axis=1)
        np.testing.assert_allclose(moduli[:, -1], 1.0, atol=1e-12)
        np.testing.assert_allclose(moduli[:, :-1], r, atol=1e-12 if r else 1e-7)  # r = 0: a defective matrix


@pytest.mark.parametrize("dynamics", ["rotating", "sticky"])
def test_mixing_fills_its_band(dynamics):
    transition = HMM(dynamics=dynamics, mixing=(0.6, 0.9)).sample(4000, seed=2).latent["transition"].numpy()
    moduli = np.sort(np.abs(np.linalg.eigvals(transition)), axis=1)[:, -2]
    assert stats.kstest(moduli, stats.uniform(0.6, 0.3).cdf).pvalue > 1e-3
    diagonal = np.einsum("nii->n", transition)
    assert (diagonal.min() > 5 * 0.6) == (dynamics == "sticky")


def test_rotating_chains_are_random_cycles():
    """With r = 1 the matrix is a permutation of one single cycle, and all 4! = 24 cycles of five states occur."""
    transition = HMM(dynamics="rotating", mixing=(1.0, 1.0)).sample(2000, seed=0).latent["transition"]
    seen = set()
    for matrix in transition.tolist():
        following = [row.index(1.0) for row in matrix]
        state, orbit = 0, set()
        while state not in orbit:
            orbit.add(state)
            state = following[state]
        assert len(orbit) == 5
        seen.add(tuple(following))
    assert len(seen) == 24


def test_chain_and_emissions_follow_their_matrices():
    transition, emission = [[0.8, 0.2], [0.4, 0.6]], [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]]
    tunnel = HMM(states=2, symbols=3, length=5, header=None, transition=transition, emission=emission)
    latent = tunnel.sample(50_000, seed=6).latent
    states, symbols = latent["states"], latent["observations"]
    assert stats.chisquare(states[:, 0].bincount().numpy()).pvalue > 1e-3  # uniform start
    for state in (0, 1):
        following = states[:, 1:][states[:, :-1] == state].bincount(minlength=2).numpy()
        assert stats.chisquare(following, np.array(transition[state]) * following.sum()).pvalue > 1e-3
        emitted = symbols[states == state].bincount(minlength=3).numpy()
        expected = np.array(emission[state]) * emitted.sum()
        assert emitted[expected == 0].sum() == 0
        assert stats.chisquare(emitted[expected > 0], expected[expected > 0]).pvalue > 1e-3


def released_row(row: list[float]) -> list[int]:
    """The released prior's rounding, one row at a time, as the paper's code is described."""
    floored = [max(p, 0.05) for p in row]
    grid = [max(5, round(100 * p / sum(floored))) for p in floored]
    while sum(grid) < 100:
        grid[grid.index(min(grid))] += 1
    while sum(grid) > 100:
        grid[grid.index(max(grid))] -= 1
    return grid


def test_released_prior_rounds_as_described():
    plain = HMM().sample(500, seed=9).latent
    released = HMM(prior="released").sample(500, seed=9).latent
    for name in ("transition", "emission"):
        expected = [[released_row(row) for row in matrix] for matrix in plain[name].tolist()]
        assert torch.equal((released[name] * 100).round().long(), torch.tensor(expected))
        assert torch.allclose(released[name].sum(-1), torch.ones(500, 5, dtype=torch.float64), atol=1e-12)


def test_released_prior_terminates_at_its_widest():
    """Twenty symbols of at least 5 hundredths leave exactly one row."""
    emission = HMM(symbols=20, prior="released").sample(50, seed=1).latent["emission"]
    assert torch.allclose(emission, torch.full_like(emission, 0.05))


@pytest.mark.parametrize("options", [{}, {"prior": "released", "header": "tokens"}], ids=["rows", "tokens"])
def test_hmm_inputs_state_the_matrices(options):
    tunnel = HMM(states=3, symbols=4, length=6, **options)
    episodes = tunnel.sample(50, seed=1)
    transition, emission, observations = tunnel.read(episodes.inputs)
    assert torch.equal(transition, episodes.latent["transition"])
    assert torch.equal(emission, episodes.latent["emission"])
    assert torch.equal(observations, episodes.latent["observations"])


def test_token_header_has_the_released_length():
    assert HMM(prior="released", header="tokens").header_positions == 53
    assert HMM().header_positions == 10


def test_with_length_extends_the_same_episode():
    short, long = (HMM(length=20).with_length(k).sample(20, seed=2, stream="test") for k in (20, 50))
    assert torch.equal(short.inputs.tokens, long.inputs.tokens[:, :30])
    assert torch.equal(short.posterior, long.posterior[:, :20])
    assert Bijection().with_length(10).length == 10


def test_recall_answers_never_appear_after_the_store():
    tunnel = Recall(pairs=8, queries=8, filler=4, keys=16, values=16)
    episodes = tunnel.sample(200, seed=0)
    tail = episodes.inputs.tokens[:, 4 * 8 :]
    is_value = (tail >= tunnel.keys) & (tail < tunnel.keys + tunnel.values)
    assert not bool(is_value.any())
    queries = episodes.latent["queries"]
    assert torch.equal(queries.sort(1).values, episodes.latent["keys"].sort(1).values)  # each key asked once
    assert len({tuple(row) for row in episodes.latent["order"].tolist()}) > 150  # store order is random


def test_a_mixed_store_holds_one_two_four_pairs_and_all_equally_often():
    tunnel = Recall(pairs=6, queries=6, filler=0, keys=16, values=16, mixed=True)
    latent = tunnel.sample(8000, seed=0).latent
    distinct = latent["order"].amax(1) + 1
    counts = torch.bincount(distinct, minlength=7).tolist()
    assert [i for i, count in enumerate(counts) if count] == [1, 2, 4, 6]
    assert all(abs(counts[i] - 2000) < 5 * (2000 * 0.75) ** 0.5 for i in (1, 2, 4, 6))
    stored = latent["keys"].gather(1, latent["order"])
    assert bool((latent["queries"][:, :, None] == stored[:, None]).any(-1).all())  # nothing is asked that was not shown


def test_noise_channel_has_its_rate():
    tunnel = Recall(pairs=4, keys=8, values=5, noise=0.4, repeats=2)
    latent = tunnel.sample(20_000, seed=0).latent
    kept = (latent["shown"] == latent["values"].gather(1, latent["order"])).double().mean()
    assert float(kept) == pytest.approx(1 - 0.4 + 0.4 / 5, abs=0.005)


def test_edited_worlds_get_their_own_belief():
    """Change one observation in the latent world: later beliefs change, earlier ones do not."""
    tunnel = HMM(length=10)
    episodes = tunnel.sample(100, seed=5)
    latent = dict(episodes.latent)
    latent["observations"] = latent["observations"].clone()
    latent["observations"][:, 4] = (latent["observations"][:, 4] + 1) % 5
    edited = tunnel.episodes(latent)
    assert torch.equal(episodes.posterior[:, :4], edited.posterior[:, :4])
    assert bool((episodes.posterior[:, 4] != edited.posterior[:, 4]).any(-1).all())


@pytest.mark.parametrize(
    "tunnel",
    [*SMALL_WORLDS, HMM(states=2, symbols=2, header=None, transition=((1, 0), (0, 1)), emission=((1, 0), (0, 1)))],
    ids=repr,
)
def test_one_episodes_world_can_be_edited_in_place(tunnel):
    latent, fresh = tunnel.sample(3).latent, tunnel.sample(3).latent
    for name, value in latent.items():
        value[1] = value[1].flip(-1) + 1
        assert torch.equal(value[::2], fresh[name][::2]), name


def test_bijection_entropy_is_position_alone_only_without_replacement():
    entropy = Bijection(symbols=6, length=6).sample(100, seed=0).entropy_bits
    expected = torch.log2(6 - torch.arange(6, dtype=torch.float64))
    assert torch.allclose(entropy, expected.expand(100, 6))
    assert float(Bijection(symbols=6, length=6, replacement=True).sample(100, seed=0).entropy_bits.std(0)[3]) > 0.5


def test_urns_never_mix_between_streams():
    """Draws of a lopsided urn repeat by chance; its shares never do."""
    seen = {
        row.numpy().tobytes()
        for seed in (0, 1)
        for stream in STREAMS
        for row in Urn().sample(2000, seed=seed, stream=stream).latent["shares"]
    }
    assert len(seen) == 2 * len(STREAMS) * 2000


def test_urn_shares_follow_their_prior_and_draws_their_shares():
    latent = Urn(symbols=4, length=30, concentration=0.5).sample(20_000, seed=1).latent
    shares = latent["shares"].numpy()
    assert stats.kstest(shares[:, 2], stats.beta(0.5, 1.5).cdf).pvalue > 1e-3  # a margin of the Dirichlet
    often = shares[:, 0] > 0.5
    drawn = (latent["draws"][often] == 0).double().mean().item()
    assert drawn == pytest.approx(shares[often, 0].mean(), abs=0.005)


def test_subsets_split_the_readouts():
    tunnel = Bijection(symbols=6, length=12, replacement=True)
    episodes = tunnel.sample(300, seed=0)
    masks = tunnel.subsets(episodes)
    assert torch.equal(masks["seen"], ~masks["unseen"])
    assert float(episodes.entropy_bits[masks["seen"]].max()) == 0.0
    expected = 1 - (5 / 6) ** np.arange(12)
    np.testing.assert_allclose(masks["seen"].double().mean(0).numpy(), expected, atol=0.12)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_recall_calls_for_accumulation_where_one_showing_does_not_settle_the_belief(mixed, repeats):
    tunnel = Recall(pairs=4, queries=2, filler=0, keys=6, values=5, noise=0.3, repeats=repeats, mixed=mixed)
    assert tunnel.primitives[0] == "binding"
    most = tunnel.sample(64).posterior.amax(-1)
    assert ("accumulation" in tunnel.primitives) == (float(most.std()) > 1e-9)
    assert Recall(pairs=4, mixed=mixed, repeats=repeats).primitives == ("binding",)


def test_hypothesis_spaces():
    assert Bijection().hypotheses_log2 == pytest.approx(math.log2(math.factorial(20)))
    assert HMM().hypotheses_log2 == Urn().hypotheses_log2 == math.inf
    assert HMM(prior="released").hypotheses_log2 == pytest.approx(10 * math.log2(math.comb(79, 4)))
    assert Recall(pairs=1, queries=1, keys=4, values=8).hypotheses_log2 == pytest.approx(5.0)


@pytest.mark.parametrize(
    "tunnel",
    [*SMALL_WORLDS, HMM(states=2, symbols=2, header=None, transition=((1, 0), (0, 1)), emission=((1, 0), (0, 1)))],
    ids=repr,
)
def test_description_round_trips_through_json(tunnel):
    assert from_dict(json.loads(json.dumps(to_dict(tunnel)))) == tunnel


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 127]), st.sampled_from([torch.float64, torch.float32]))
def test_a_world_of_fixed_matrices_is_what_its_description_gives_back(seed, size, dtype):
    """To the last bit, whatever the rows; those of float32 sum to 1 only within 1e-7, and are divided once."""
    generator = np.random.default_rng(seed)
    rows = [torch.from_numpy(generator.dirichlet(np.full(size, share), size)).to(dtype) for share in (0.3, 1.0)]
    tunnel = HMM(states=size, symbols=size, header=None, transition=rows[0], emission=rows[1])
    assert from_dict(json.loads(json.dumps(to_dict(tunnel)))) == tunnel
    assert tunnel.with_length(tunnel.length) == replace(tunnel) == tunnel
    kept = [torch.tensor(matrix, dtype=torch.float64) for matrix in (tunnel.transition, tunnel.emission)]
    assert all(float((matrix.sum(1) - 1).abs().max()) < 1e-12 for matrix in kept)
    if dtype == torch.float64:
        assert all(map(torch.equal, kept, rows))


def test_given_rows_are_kept_as_they_are_written():
    rows = ((0.7, 0.2, 0.1), (0.1, 0.6, 0.3), (1 / 3, 1 / 3, 1 / 3))
    tunnel = HMM(states=3, symbols=3, header=None, transition=rows, emission=rows)
    assert tunnel.transition == tunnel.emission == rows


@pytest.mark.parametrize("tunnel", SMALL_WORLDS, ids=repr)
def test_shapes_are_as_stated(tunnel):
    episodes = tunnel.sample(7, seed=0)
    assert episodes.inputs.tokens.shape == (7, tunnel.positions)
    assert int(episodes.inputs.tokens.max()) < tunnel.vocabulary == len(tunnel.token_names())
    assert (0 if episodes.inputs.features is None else episodes.inputs.features.shape[2]) == tunnel.feature_width
    assert episodes.posterior.shape == (7, tunnel.readouts, tunnel.classes)
    assert episodes.posterior.dtype == torch.float64
    assert episodes.labels.shape == episodes.entropy_bits.shape == (7, tunnel.readouts)
    assert len(episodes[2:5]) == 3
    assert episodes.inputs.readout.shape == (tunnel.readouts,)


def test_large_batches_leave_the_thread_setting_alone():
    import threading

    before, seen = torch.get_num_threads(), []
    HMM(length=2).sample(9000)
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert torch.get_num_threads() == before == seen[0]


def test_large_batches_can_be_drawn_in_inference_mode():
    """The mode holds for one thread, and blocks are drawn on others."""
    tunnel = HMM(states=2, symbols=2, length=2)
    with torch.inference_mode():
        found = tunnel.sample(4100)
    assert all(map(torch.equal, found.tensors(), tunnel.sample(4100).tensors()))


def test_large_batches_of_a_belief_from_weights_can_be_drawn():
    """Blocks are drawn on threads of their own, where gradients are on whatever the caller says."""
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)

    class Weighed(HMM):
        def episodes(self, latent, dtype=torch.float64):
            found = super().episodes(latent, dtype)
            latent = {**found.latent, "half": (weight.bfloat16() / 2).expand(len(found))}  # NumPy has no such type
            return replace(found, posterior=found.posterior * weight, latent=latent)

    found = Weighed(states=2, symbols=2, length=2).sample(4100)
    assert not any(tensor.requires_grad for tensor in found.tensors())
    assert torch.equal(found.posterior, HMM(states=2, symbols=2, length=2).sample(4100).posterior)
    assert (found.latent["half"] == 0.5).all()


def test_a_failure_leaves_the_thread_setting_alone():
    import threading

    def part(first: int, size: int):
        if size > 1:
            raise RuntimeError("broken inside")
        return HMM(length=2).sample(size)

    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="broken inside"):
            in_blocks(part, 9000)
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert torch.get_num_threads() == 2 == seen[0]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("tunnel", [HMM(states=2, symbols=3, length=4), Bijection(symbols=4, length=4)], ids=repr)
def test_a_single_episode_is_a_batch_of_one(tunnel):
    episodes = tunnel.sample(5)
    for index, same in ((0, 0), (3, 3), (-1, 4), (-5, 0), (np.int64(2), 2), (torch.tensor(2), 2)):
        wanted = episodes[same : same + 1]
        assert all(torch.equal(a, b) for a, b in zip(episodes[index].tensors(), wanted.tensors()))
        assert torch.equal(episodes.inputs[index].tokens, wanted.inputs.tokens)
        assert (episodes.inputs[index].features is None) == (wanted.inputs.features is None)
        assert torch.equal(episodes[index].inputs.readout, episodes.inputs.readout)
    assert [len(one) for one in episodes] == [len(one) for one in episodes.inputs] == [1] * 5
    assert torch.equal(torch.cat([one.labels for one in episodes]), episodes.labels)
    for outside in (5, -6):
        for index in (outside, [0, outside], np.array([outside]), torch.tensor([1, outside])):
            for batch in (episodes, episodes.inputs):
                with pytest.raises(InputError, match=rf"^episode = {outside}: must be from -5 to 4$"):
                    batch[index]
    assert len(episodes[torch.tensor([False, True, False, True, True])]) == 3  # the other forms are as they were
    assert len(episodes[[0, 2]]) == 2 and len(episodes[1:1]) == 0 and len(episodes[torch.tensor([2])]) == 1
    assert len(episodes[:1][torch.tensor([False])]) == 0


@pytest.mark.parametrize(
    "index",
    [True, None, ..., (0, 1), "a", 1.0, [0.5], [[0, 1]], torch.tensor(True), torch.zeros(5, 1).bool(), [True, False]],
    ids=repr,
)
def test_what_would_not_be_a_batch_is_refused(index):
    episodes = Urn(length=3).sample(5)
    told = r"^episodes = .*: must be a number, a slice, or one row of numbers or of 5 times True or False$"
    for batch in (episodes, episodes.inputs):
        with pytest.raises(InputError, match=told):
            batch[index]


def test_a_batch_in_every_form_of_index():
    episodes = Urn(length=3).sample(5)
    mask = [False, True, False, True, False]
    for index in ([1, 3], [-4, -2], range(1, 4, 2), np.array([1, 3]), torch.tensor([1, 3]), np.array(mask), mask):
        assert torch.equal(episodes[index].labels, episodes.labels[[1, 3]])
    for index in (slice(None, None, -1), slice(3, 0, -2), slice(1, 3, -1)):
        assert torch.equal(episodes[index].labels, episodes.labels[list(range(5)[index])])
    assert len(episodes[[]]) == len(episodes.inputs[np.array([], dtype=int)]) == 0
    assert torch.equal(episodes[np.array([1, 0], dtype=np.uint8)].labels, episodes.labels[[1, 0]])  # numbers, no mask


def test_batches_can_be_compared_and_kept_in_sets():
    """By identity: whether all their tensors are equal is a question of its own."""
    episodes, same = Urn(length=3).sample(5), Urn(length=3).sample(5)
    assert episodes == episodes and episodes != same and episodes.inputs != same.inputs
    assert len({episodes, same, episodes}) == 2


def test_tiny_noise_keeps_a_proper_belief():
    posterior = Recall(pairs=2, queries=1, keys=4, values=4, noise=1e-310).sample(20).posterior
    assert bool(posterior.isfinite().all())


def test_episodes_and_inputs_are_told_in_one_line():
    episodes = HMM(states=3, symbols=4, length=6).sample(5)
    told = "tokens (5, 12), features (5, 12, 4), readout (6,)"
    assert repr(episodes.inputs) == f"<Inputs of 5 episodes: {told}>"
    latent = "transition (5, 3, 3), emission (5, 3, 4), states (5, 6), observations (5, 6)"
    assert repr(episodes) == f"<5 episodes: {told}, labels (5, 6), posterior (5, 6, 3); latent {latent}>"
    bare = replace(Bijection(symbols=4, length=4).sample(1), latent={})
    assert repr(bare) == "<1 episode: tokens (1, 7), readout (4,), labels (1, 4), posterior (1, 4, 4)>"
