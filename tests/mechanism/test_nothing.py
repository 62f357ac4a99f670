"""What changes nothing costs exactly nothing; what replaces everything gives exactly the other answer."""

from __future__ import annotations

import re

import pytest
import torch

from tests.mechanism.planted import TINY, OneHead, planted
from tests.models.cases import TUNNELS, VARIANTS, small
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.mechanism import Bench, Pair, Place, ablation, bits_lost, patch_changes, swap_changes
from windtunnel.mechanism.ablate import METHODS, targets
from windtunnel.mechanism.chance import derangement, rotation, subspace
from windtunnel.mechanism.losses import damage
from windtunnel.mechanism.patch import Setting, carriers
from windtunnel.mechanism.place import Place as Where
from windtunnel.models import touch

TUNNEL = TUNNELS["hmm-rows"]
EPISODES = TUNNEL.sample(7)
WITH_HEADS = [name for name in VARIANTS if "transformer" in name or name == "linear-attention"]
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def bench(variant: str, *, chunk: int = 256, **options) -> Bench:
    return Bench(small(variant, TUNNEL, **options), TUNNEL, EPISODES, chunk=chunk)


@every_variant
def test_resampling_from_oneself_costs_exactly_nothing(variant):
    one = bench(variant, chunk=3)
    itself = torch.arange(len(EPISODES))
    for name in one.anatomy.shapes:
        lost = bits_lost(one, [Place(name)], "resample", partner=itself)
        assert torch.equal(lost, torch.zeros_like(lost)), name


@every_variant
def test_an_empty_subspace_costs_exactly_nothing_and_a_full_one_does_not(variant):
    one = bench(variant)
    name = one.anatomy.streams[1]
    nothing = Place(name, basis=torch.zeros(32, 0, dtype=torch.float64))
    for method in METHODS:
        assert torch.equal(bits_lost(one, [nothing], method), torch.zeros(7, TUNNEL.readouts, dtype=torch.float64))
        assert bits_lost(one, [Place(name, basis=rotation(32, 0))], method).abs().max() > 1e-4


def test_an_edit_that_returns_the_value_costs_exactly_nothing():
    one = bench("transformer")
    assert torch.equal(one.run({"embed": lambda value, step, rows: value}), one.clean)


@every_variant
def test_resampling_the_whole_stream_is_predicting_another_episodes_answer(variant):
    """After any block: nothing but the stream passes on from one to the next."""
    one = Bench(small(variant, TUNNEL).double(), TUNNEL, EPISODES)
    partner = derangement(len(EPISODES), 3)
    wanted = kl_bits(EPISODES.posterior, one.clean[partner]) - one.clean_kl
    for name in dict.fromkeys(["embed", *one.anatomy.streams]):
        lost = bits_lost(one, [Place(name)], "resample", partner=partner)
        assert float((lost - wanted).abs().max()) < 1e-13, name  # a batched solver may round by place in the batch
        assert lost.abs().max() > 1e-3


RECURRENT = {
    "lstm-residual": ("lstm-residual", {}),
    "lstm-stacked": ("lstm-stacked", {}),
    **{f"mamba, conv {size}": ("mamba", {"conv": size}) for size in (1, 2, 4)},
    **{f"linear-attention, conv {size}": ("linear-attention", {"conv": size}) for size in (1, 4)},
}


@pytest.mark.parametrize(("variant", "options"), RECURRENT.values(), ids=RECURRENT)
def test_patching_the_whole_state_gives_the_donors_answer_ever_after(variant, options):
    """All that later steps know of earlier ones is the donor's, and they see the same."""
    model, tunnel = small(variant, TUNNELS["urn"], **options).double(), TUNNELS["urn"]
    setting = Setting.of(model, tunnel, tunnel.sample(7), [], 1)
    pair, later = setting.pair, setting.ranges["after it"]
    places = carriers(pair.recipient.anatomy, setting.position)["state of all layers"]
    patched, own, given = pair.recipient.run(patch_changes(pair, places)), pair.recipient.clean, pair.donor.clean
    assert float((patched - given)[:, later].abs().max()) < 1e-13  # the loop is written out only in one of them
    assert float((patched - own)[:, : setting.step].abs().max()) < 1e-13
    assert (own - given)[:, later].abs().max() > 1e-3


@pytest.mark.parametrize(("variant", "options"), RECURRENT.values(), ids=RECURRENT)
def test_without_its_memory_a_network_knows_the_present_only(variant, options):
    one = Bench(small(variant, TUNNELS["urn"], **options).double(), TUNNELS["urn"], TUNNELS["urn"].sample(12))
    last = int(one.episodes.inputs.readout[-1])
    places = [Place(name, positions=(last - 1,)) for name in one.anatomy.memory]
    said = one.run(ablation(one, places, "mean"))[:, -1]
    token = one.episodes.inputs.tokens[:, last]
    alike = [said[token == symbol] for symbol in token.unique()]
    assert all(float((group - group[0]).abs().max()) < 1e-13 for group in alike) and max(map(len, alike)) > 1


@every_variant
def test_a_swap_with_itself_is_the_identity_bit_for_bit(variant):
    model = small(variant, TUNNEL)
    pair = Pair.of(model, TUNNEL, EPISODES, EPISODES, torch.ones(TUNNEL.readouts, dtype=torch.bool))
    for name in pair.recipient.anatomy.streams[1:]:
        assert torch.equal(pair.recipient.run(swap_changes(pair, name, subspace(32, 5, 0))), pair.recipient.clean)
        for dose in (0.3, 1.0):
            changes = patch_changes(pair, [Place(name)], dose=dose)
            assert torch.equal(pair.recipient.run(changes), pair.recipient.clean)


@pytest.mark.parametrize("variant", ["transformer", "lstm-residual", "linear-attention", "mamba"])
def test_a_layer_set_to_zero_is_a_network_without_it(variant):
    one = Bench(small(variant, TUNNEL, depth=3).double(), TUNNEL, EPISODES)
    layer = [target for target in targets(one.anatomy) if target.where["layer"] == 1][-1]
    whole = one.clean
    without = one.run(ablation(one, layer.places, "zero"))
    del one.model.blocks[1]
    with torch.no_grad():
        shorter = one.model.log_probs(EPISODES.inputs, lambda name, value: value).double()
    assert torch.allclose(without, shorter, atol=1e-12)
    assert not torch.allclose(without, whole, atol=1e-3)


@pytest.mark.parametrize("variant", WITH_HEADS)
def test_methods_put_what_they_say(variant):
    one = Bench(small(variant, TUNNEL, heads=4).double(), TUNNEL, EPISODES, chunk=3)
    name, partner = "blocks.0.attention.head_out", derangement(7, 1)
    clean = one.recorded(name)
    wanted = {"zero": torch.zeros_like(clean), "mean": clean.mean(0).expand_as(clean), "resample": clean[partner]}
    for method, put in wanted.items():
        changes = ablation(one, [Place(name, head=2, positions=(1, 4))], method, partner=partner)
        parts = [changes[name](clean[a : a + 3], None, slice(a, min(a + 3, 7))) for a in (0, 3, 6)]
        edited, expected = torch.cat(parts), clean.clone()
        expected[:, 2, [1, 4]] = put[:, 2, [1, 4]]
        assert torch.equal(edited, expected)


def test_a_recurrent_tensor_is_changed_only_at_its_steps():
    one = Bench(small("lstm-residual", TUNNEL).double(), TUNNEL, EPISODES)
    at = int(EPISODES.inputs.readout[2])
    lost = bits_lost(one, [Place("blocks.0.lstm.cell", positions=(at,))], "zero")
    assert torch.equal(lost[:, :2], torch.zeros_like(lost[:, :2]))
    assert (lost[:, 2:] != 0).any(0).all()


def test_the_random_direction_null_does_equal_damage():
    one = Bench(small("transformer", TUNNEL, heads=4).double(), TUNNEL, EPISODES)
    for place in (Place("blocks.1.residual", positions=(3,)), Place("blocks.1.attention.head_out", head=1)):
        clean = one.recorded(place.tensor)
        plain, turned = (
            ablation(one, [place], "mean", turn=turn)[place.tensor](clean, None, slice(0, 7)) - clean
            for turn in (None, 4)
        )
        axis = (1, 3) if clean.ndim == 4 else (2,)
        assert torch.allclose(plain.square().sum(axis), turned.square().sum(axis), atol=1e-12)
        assert not torch.allclose(plain, turned, atol=1e-3)


@pytest.mark.parametrize(
    ("variant", "names"),
    [
        ("lstm-residual", ["blocks.0.lstm.hidden"]),  # the next step starts from a changed one
        ("lstm-stacked", ["blocks.0.lstm.cell", "blocks.0.lstm.hidden"]),
        ("mamba", ["blocks.0.mamba.window", "blocks.0.mamba.state"]),
        ("transformer", ["blocks.0.attention.out", "blocks.0.ff.out", "blocks.1.attention.out"]),  # so does a layer
        ("linear-attention", ["blocks.0.attention.head_out", "blocks.1.attention.head_out"]),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_it_does_so_after_other_damage_too(variant, names, method):
    one = Bench(small(variant, TUNNEL).double(), TUNNEL, EPISODES, chunk=4)
    places = [Place(name) for name in names]

    def sizes(changes) -> list[torch.Tensor]:
        found = []

        def spy(name, change):
            def spied(value, step, rows):
                changed = change(value, step, rows)
                axes = (1, -1) if name.endswith("head_out") else -1
                found.append((changed - value).norm(dim=axes).flatten())
                return changed

            return spied

        one.run({name: spy(name, change) for name, change in changes.items()})
        return found

    real = sizes(ablation(one, places, method))
    for changes in damage(one, places, method, 2):
        assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(real, sizes(changes), strict=True))
    (alone,) = damage(one, places, method, 1)
    assert not torch.allclose(one.run(alone), one.run(ablation(one, places, method)), atol=1e-6)


class Gate(torch.nn.Module):
    """Its feed-forward part is silent wherever the mixer leads it below zero."""

    def __init__(self, tunnel):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(tunnel.vocabulary, 4), torch.nn.Linear(4, tunnel.classes)
        torch.nn.init.normal_(self.embedding.weight, std=10.0, generator=torch.Generator().manual_seed(0))

    def forward(self, tokens, features, readout, tap=None):
        x = self.embedding(tokens)
        x = x + touch(tap, "blocks.0.attention.out", x.cumsum(1))
        x = x + touch(tap, "blocks.0.ff.out", x[..., :1].relu().expand_as(x))
        return self.head(x[:, readout])


def test_what_is_silent_after_other_damage_stays_so():
    """Turned damage to the mixer may silence what the real one does not: then there is nothing to make as large."""
    tunnel = TUNNELS["bijection"]
    one = Bench(models.build(Gate, tunnel), tunnel, tunnel.sample(16))
    places = [Place("blocks.0.attention.out"), Place("blocks.0.ff.out")]
    assert torch.stack(list(one.lost_each(damage(one, places, "zero", 19)))).isfinite().all()


def test_what_matches_nothing_is_refused_in_one_line():
    one = bench("lstm-residual")
    for places in ([Place("blocks.0.attention.head_out", head=0)], [Place("blocks.7.residual")]):
        for method in METHODS:
            with pytest.raises(InputError, match=r"^tap name = 'blocks") as error:
                bits_lost(one, places, method)
            assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"^head = 9: must be below 1"):
        bits_lost(bench("transformer"), [Place("blocks.0.attention.head_out", head=9)], "zero")
    with pytest.raises(InputError, match=r"^method = 'half'"):
        bits_lost(one, [Place("embed")], "half")
    with pytest.raises(InputError, match="basis = 'columns off by"):
        Where("embed", basis=torch.ones(4, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="has no taps"):
        Bench(models.build(lambda tunnel: Untapped(tunnel), TUNNEL), TUNNEL, EPISODES)
    with pytest.raises(InputError, match=r"^episodes = 1"):
        derangement(1)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"tensor": "blocks.0.residual", "head": 1}, "head = 1: must be left out for blocks.0.residual"),
        ({"tensor": "blocks.0.attention.head_out", "head": -1}, "head = -1: must be a whole number of at least 0"),
        ({"tensor": "blocks.0.residual", "positions": (-1,)}, "position = -1: must be a whole number of at least 0"),
        ({"tensor": "blocks.0.residual", "positions": ()}, "positions = (): must be at least one"),
    ],
)
def test_a_place_is_where_it_says(part, told):
    """The stream's second axis is position: as a head, position 1 was ablated.  And a state has no step −1."""
    with pytest.raises(InputError, match="^" + re.escape(told)):
        Place(**part)


@pytest.mark.parametrize("tensor", ["blocks.0.residual", "blocks.0.lstm.cell"])
@pytest.mark.parametrize("method", METHODS)
def test_a_position_beyond_the_input_is_refused(tensor, method):
    """A recurrence never gets there: nothing was changed, and it cost exactly nothing."""
    one = bench("lstm-residual")
    length = one.episodes.inputs.tokens.shape[1]
    with pytest.raises(InputError, match=f"^position = {length}: must be below {length} for {tensor}"):
        bits_lost(one, [Place(tensor, positions=(length,))], method)
    with pytest.raises(InputError, match=r"^basis = '4 rows': must be of \d+ rows for blocks.0.residual"):
        bits_lost(one, [Place("blocks.0.residual", basis=torch.eye(4)[:, :2])], method)


class Untapped(torch.nn.Module):
    def __init__(self, tunnel):
        super().__init__()
        self.embedding = torch.nn.Embedding(tunnel.vocabulary, tunnel.classes)

    def forward(self, tokens, features, readout):
        return self.embedding(tokens)[:, readout]


def test_dropout_is_off_and_modes_come_back():
    model = small("transformer", TUNNEL).train()
    model.blocks[0].eval()
    seen = []
    hook = model.blocks[1].register_forward_hook(lambda module, *_: seen.append(module.training))
    _ = Bench(model, TUNNEL, TUNNEL.sample(2)).clean
    hook.remove()
    assert seen and not seen[-1]
    assert model.training and not model.blocks[0].training and model.blocks[1].training


def test_a_derangement_leaves_nobody_in_place():
    for count in (2, 3, 50):
        partner = derangement(count, 1)
        assert sorted(partner.tolist()) == list(range(count))
        assert (partner != torch.arange(count)).all()
    assert not torch.equal(derangement(50, 1), derangement(50, 2))
    assert torch.allclose(rotation(6, 1).T @ rotation(6, 1), torch.eye(6, dtype=torch.float64))


def test_the_exact_network_loses_nothing_by_itself():
    one = Bench(planted(OneHead), TINY, TINY.sample(4))
    assert one.clean_kl.max() < 1e-9
