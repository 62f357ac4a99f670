"""The belief planted in a subspace or a state moves with it, all the way; what does not carry it moves nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from tests.mechanism.planted import CIRCLE, TINY, ZEROS, Exact, InSubspace, Recurrent, planted
from tests.models.cases import TUNNELS
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import Bench, Pair, donors, swap, swap_changes
from windtunnel.mechanism.bases import PENALISED, bases, span
from windtunnel.mechanism.chance import DRAWS, subspace
from windtunnel.mechanism.donors import matched
from windtunnel.mechanism.dose import dose, steadiness
from windtunnel.mechanism.patch import patch
from windtunnel.mechanism.swap import fitted, measure_removal, measure_swap
from windtunnel.models import touch
from windtunnel.tunnels import HMM, Bijection, Inputs, Recall

EPISODES = TINY.sample(40)
STREAM = "blocks.0.residual"


def pairs(model, episodes=EPISODES) -> Pair:
    given = donors(TINY, episodes)
    return Pair.of(model, TINY, episodes, given.episodes, given.readouts)


def test_swapping_the_planted_subspace_moves_all_the_way_and_a_random_one_does_not():
    model = planted(InSubspace)
    pair = pairs(model)
    whole = measure_swap(pair, [], STREAM, "planted", model.module.basis, draws=5)
    assert whole.value == pytest.approx(1.0, abs=1e-6)
    assert whole.low <= whole.value <= whole.high
    assert max(sample.max() for sample in whole.nulls.values()) < 0.6
    rest = pair.moved(swap_changes(pair, STREAM, model.module.rest))
    assert rest == pytest.approx(0.0, abs=1e-9)
    lost = measure_removal(pair, [], STREAM, "planted", model.module.basis, "mean", draws=5)
    assert lost.low > 0.1 and lost.value > lost.nulls["random subspace, equal rank"].max()
    inert = measure_removal(pair, [], STREAM, "rest", model.module.rest, "resample", draws=2)
    assert abs(inert.value) < 1e-9


def test_the_fitted_subspaces_are_the_planted_one():
    model = planted(InSubspace)
    bench = Bench(model, TINY, TINY.sample(300, seed=4))
    found = fitted(bench, STREAM)
    for name in ("decoded belief", "written belief"):
        basis = found[name]
        assert isinstance(basis, torch.Tensor) and basis.shape[1] == 2
        outside = basis - model.module.basis @ model.module.basis.T @ basis
        assert outside.norm(dim=0).max() < 0.5, name  # 300 short sequences: a sample, not the truth
        assert pairs(model).moved(swap_changes(pairs(model), STREAM, basis)) > 0.6, name
    assert isinstance(found["hypothesis frame"], Missing)  # a foreign network has no `head`


def test_which_directions_are_read_is_a_matter_of_the_penalty():
    """The belief is told twice: loudly with some noise, and softly without any.  The best reader takes the soft one."""
    generator = torch.Generator().manual_seed(0)
    belief = TINY.sample(300, seed=4).posterior.double()
    noise = torch.randn(belief.shape, generator=generator, dtype=torch.float64)
    x = torch.cat([belief + 0.1 * noise, 0.01 * belief], -1)
    found = bases(torch.nn.Identity(), x, belief)

    def loud(name: str) -> float:
        basis = found[name]
        assert isinstance(basis, torch.Tensor)
        return float(basis[: belief.shape[-1]].square().sum() / basis.square().sum())

    assert loud("decoded belief") < 0.3 < 0.95 < loud(PENALISED) and loud("written belief") > 0.95


def test_entropy_is_not_an_axis_where_position_fixes_it():
    tunnel = Bijection(symbols=4, length=4)
    x = torch.randn(20, 4, 6, generator=torch.Generator().manual_seed(0))
    none = bases(torch.nn.Identity(), x, tunnel.sample(20).posterior)["entropy axis"]
    assert isinstance(none, Missing) and "position" in none.reason
    axis = bases(torch.nn.Identity(), x, Bijection(symbols=4, length=4, replacement=True).sample(20).posterior)
    assert isinstance(axis["entropy axis"], torch.Tensor) and axis["entropy axis"].shape == (6, 1)
    assert span(torch.ones(5, 3)).shape == (5, 1)


def test_patching_the_state_of_a_filter_moves_now_and_later():
    found = [m for m in patch(planted(Recurrent), TINY, EPISODES, []) if not isinstance(m, Missing)]
    by = {(m.where["tensor"], m.where["readouts"]): m for m in found}
    for when in ("at the step", "after it"):
        state = by["state of all layers", when]
        assert state.value == pytest.approx(1.0, abs=1e-9) and state.arrays["ceiling"] == pytest.approx(1.0, abs=1e-9)
        assert state.value > max(sample.max() for sample in state.nulls.values())
        assert by["embed", when].value == 0.0  # the planted filter does not read it
    own = by["state of all layers", "at the step"].arrays["own_bits_lost"]
    assert (own[:2] == 0).all() and own[2] > 0.1


def test_patching_one_position_of_a_stream_moves_that_readout_alone():
    found = patch(planted(InSubspace), TINY, EPISODES, [planted(InSubspace, seed=1)], step=3)
    by = {(m.where["tensor"], m.where["readouts"]): m for m in found if not isinstance(m, Missing)}
    assert by[STREAM, "at the step"].value == pytest.approx(1.0, abs=1e-6)
    assert by[STREAM, "after it"].value == pytest.approx(0.0, abs=1e-9)


def test_the_dose_response_is_monotone_and_the_mismatched_one_is_not():
    (found,) = dose(planted(InSubspace), TINY, EPISODES, [])
    assert not isinstance(found, Missing)
    moved = found.arrays["moved"]
    assert moved[0] == pytest.approx(0.0, abs=1e-9) and moved[-1] == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(moved) > 0).all() and found.low > 0
    assert found.nulls["mismatched donor"].max() < 0
    line = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert steadiness(line, np.array(1.0)) == pytest.approx(1.0)
    assert steadiness(line[::-1], np.array(1.0)) == pytest.approx(-1.0)
    assert steadiness(np.ones(6), np.array(1.0)) == 0.0


class PresentKey(torch.nn.Module):
    """An exact network whose middle stream holds the present token alone; another token there spoils the answer."""

    tunnel = Bijection(symbols=5, length=5)

    def forward(self, tokens, features, readout, tap=None):
        present = torch.nn.functional.one_hot(tokens, self.tunnel.vocabulary).double()
        stream = touch(tap, "blocks.0.residual", touch(tap, "embed", present))
        spoilt = (stream - present) @ torch.arange(50, dtype=torch.float64).sin().view(10, 5)
        answer = Exact(self.tunnel).log_probs(Inputs(tokens, features, readout)).clamp_min(-8)
        return touch(tap, "blocks.1.residual", answer + spoilt[:, readout])


def test_a_donor_who_changes_nothing_leads_nowhere():
    """Recipient and donor are asked for the same key, a mismatched donor for another: it leads away, and that alone
    makes nothing of 0."""
    tunnel = PresentKey.tunnel
    (found,) = dose(models.build(lambda _: PresentKey(), tunnel), tunnel, tunnel.sample(32), [])
    assert isinstance(found, Measurement) and found.where["tensor"] == STREAM
    assert found.value == 0.0 > found.nulls["mismatched donor"].max()
    assert found.p_value == 1.0


@pytest.mark.parametrize("step", [None, 2])
def test_donors_of_an_hmm_share_the_header_and_their_belief_is_exact(step):
    given = donors(TINY, EPISODES, step)
    mine, theirs = EPISODES.inputs, given.episodes.inputs
    assert torch.equal(mine.features, theirs.features)
    after = TINY.readouts if step is None else step + 1
    assert torch.equal(mine.tokens[:, 6 + after :], theirs.tokens[:, 6 + after :])
    assert (mine.tokens[:, 6 : 6 + after] != theirs.tokens[:, 6 : 6 + after]).any()
    assert torch.allclose(Exact(TINY).log_probs(theirs).exp(), given.episodes.posterior, atol=1e-12)
    assert given.readouts.tolist() == ([True] * 5 if step is None else [False, False, True, True, True])


def test_donors_of_the_other_tunnels_ask_the_same_question():
    for tunnel in (Bijection(symbols=5, length=6, replacement=True), TUNNELS["recall"]):
        episodes = tunnel.sample(30)
        given = donors(tunnel, episodes, 1).episodes
        assert torch.equal(episodes.entropy_bits, given.entropy_bits)  # equal evidence …
        assert not torch.equal(episodes.posterior, given.posterior)  # … for something else
        at = episodes.inputs.readout
        assert torch.equal(episodes.inputs.tokens[:, at], given.inputs.tokens[:, at])
    noisy = Recall(pairs=3, queries=2, filler=1, keys=4, values=4, noise=0.3, repeats=2)
    episodes = noisy.sample(30)
    given = donors(noisy, episodes).episodes
    assert torch.allclose(episodes.entropy_bits, given.entropy_bits)
    with pytest.raises(InputError, match="step = 9"):
        donors(TINY, EPISODES, 9)


def test_donors_that_agree_are_refused():
    blind = HMM(states=2, symbols=2, length=3, header=None, transition=((0.5, 0.5),) * 2, emission=((0.5, 0.5),) * 2)
    episodes = blind.sample(6)
    for chosen in (torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)):
        pair = Pair.of(planted(InSubspace, blind), blind, episodes, episodes, chosen)
        with pytest.raises(InputError, match="believe what their recipients do"):
            _ = pair.before


@pytest.mark.parametrize("instrument", [patch, dose])
def test_where_donors_agree_the_networks_own_error_is_not_taken_for_a_distance(instrument):
    """Before any pair is shown every value is as likely, whatever the permutation; a network is never quite so even."""
    tunnel = Bijection(symbols=4, length=4)
    model = models.build("transformer", tunnel, depth=1, width=16)
    with pytest.raises(InputError, match="believe what their recipients do"):
        instrument(model, tunnel, tunnel.sample(8), [], step=0, draws=2)


def test_a_random_subspace_is_seldom_claimed():
    """Its swap against those of 19 others, counted: p ≤ 0.05 in 5% of 200 draws, within the binomial bound."""
    tunnel, draws, claimed = HMM(states=3, symbols=2, length=2), 200, 0
    episodes, model = tunnel.sample(6), planted(InSubspace, tunnel, width=12)
    given = donors(tunnel, episodes)
    pair = Pair.of(model, tunnel, episodes, given.episodes, given.readouts)
    for seed in range(draws):
        moved = pair.moved_each([swap_changes(pair, STREAM, subspace(12, 2, seed, d)) for d in range(1 + DRAWS)])
        null = {"random": np.array(moved[1:])}
        p_value = Measurement("swap", moved[0], moved[0], moved[0], "sequences", nulls=null).p_value
        claimed += p_value is not None and p_value <= 0.05
    assert binom.ppf(0.0005, draws, 0.05) <= claimed <= binom.ppf(0.9995, draws, 0.05)


def test_the_instrument_tells_the_carrier_from_the_rest():
    found = swap(planted(InSubspace), TINY, TINY.sample(200), [planted(InSubspace, seed=3)], draws=3)
    named = {(m.name, m.where["subspace"]): m for m in found if not isinstance(m, Missing)}
    belief = named["moved to the donor by a swap", "decoded belief"]
    assert belief.value > 0.5 and belief.where["rank"] == 2
    assert belief.value > belief.nulls["random subspace, equal rank"].max()
    entropy = named["moved to the donor by a swap", "entropy axis"]
    assert entropy.where["rank"] == 1 and entropy.value < belief.value
    assert [m.reason for m in found if isinstance(m, Missing)] == [
        "the network has no linear readout named `head` on its stream"
    ]


class Remembers(torch.nn.Module):
    """A small network that names its stream."""

    def __init__(self, tunnel):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(tunnel.vocabulary, 8), torch.nn.Linear(8, tunnel.classes)

    def forward(self, tokens, features, readout, tap=None):
        x = touch(tap, "blocks.0.residual", touch(tap, "embed", self.embedding(tokens).cumsum(1)))
        return self.head(x[:, readout])


def test_donors_that_cannot_happen_are_left_out_and_told():
    """Another episode's beginning before one's own end: in a chain with zeros that may be impossible."""
    model, episodes = models.build(Remembers, ZEROS), ZEROS.sample(64)
    kept, given, note = matched(ZEROS, episodes, 3)
    assert 2 <= len(kept) == len(given.episodes) < 64 and given.episodes.possible.all()
    assert note == f"{64 - len(kept)} of 64 changed episodes left out: impossible under this chain, which has zeros"
    raw = donors(ZEROS, episodes, 3)
    assert int(raw.episodes.possible.all(1).sum()) == len(kept)
    with pytest.raises(InputError, match=r"^donors: must be possible, some have no belief under this chain, which has"):
        Pair.of(model, ZEROS, episodes, raw.episodes, raw.readouts)
    found = [*patch(model, ZEROS, episodes, [], draws=2), *dose(model, ZEROS, episodes, [], draws=2)]
    assert {m.name for m in found} == {"moved to the donor", "dose–response of the patch"}
    for m in found:
        assert note in m.note and all(np.isfinite(x).all() for x in (m.value, m.low, m.high, *m.nulls.values()))
        assert all(np.isfinite(array).all() for array in m.arrays.values())


def test_a_swap_leaves_impossible_donors_out():
    """Of a fixed chain every whole episode can happen; under another episode's header it need not."""
    for tunnel, lost in ((ZEROS, False), (HMM(states=3, symbols=3, length=4, concentration=0.001), True)):
        swapped = swap(models.build(Remembers, tunnel), tunnel, tunnel.sample(128), [], draws=1)
        found = [m for m in swapped if isinstance(m, Measurement)]
        assert {m.name for m in found} == {"moved to the donor by a swap", "bits lost to ablation of a subspace"}
        assert all(("of 64 changed episodes left out" in m.note) == lost for m in found)
        assert all(np.isfinite([m.value, m.low, m.high]).all() for m in found)


def test_too_few_donors_that_can_happen_are_refused():
    episodes = CIRCLE.sample(9)
    begins = episodes.latent["observations"][:, 0]
    two = episodes[torch.tensor([0, int((begins != begins[0]).nonzero()[0])])]  # neither can go on as the other does
    with pytest.raises(InputError, match=r"^2 of 2 changed episodes left out: .* zeros; at least 2 must remain$"):
        patch(models.build(Remembers, CIRCLE), CIRCLE, two, [])
