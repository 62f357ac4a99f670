"""Named tensors: what they are called, what they are, and that an edit really edits."""

from __future__ import annotations

import pytest
import torch

from tests.models.cases import TUNNELS, every_device, every_variant, logits, looking, relative, small
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.models.taps import Edit, Record
from windtunnel.tunnels import HMM, Urn

TUNNEL = TUNNELS["hmm-rows"]  # T = 11 positions, K = 5 readouts, C = 3 classes
T = TUNNEL.positions

BLOCK = {
    "transformer": {
        "attention.q": (1, 1, T, 32),
        "attention.k": (1, 1, T, 32),
        "attention.v": (1, 1, T, 32),
        "attention.scores": (1, 1, T, T),
        "attention.pattern": (1, 1, T, T),
        "attention.head_out": (1, 1, T, 32),
        "attention.out": (1, T, 32),
        "residual_mid": (1, T, 32),
        "ff.hidden": (1, T, 128),
        "ff.out": (1, T, 32),
        "residual": (1, T, 32),
    },
    "mamba": {
        "mamba.window": (1, T, 3, 64),
        "mamba.conv": (1, T, 64),
        "mamba.gate": (1, T, 64),
        "mamba.delta": (1, T, 64),
        "mamba.B": (1, T, 16),
        "mamba.C": (1, T, 16),
        "mamba.state": (1, T, 64, 16),
        "mamba.y": (1, T, 64),
        "mamba.out": (1, T, 32),
        "residual": (1, T, 32),
    },
    "lstm-residual": {
        "lstm.gates": (1, T, 4, 32),
        "lstm.cell": (1, T, 32),
        "lstm.hidden": (1, T, 32),
        "residual_mid": (1, T, 32),
        "ff.hidden": (1, T, 128),
        "ff.out": (1, T, 32),
        "residual": (1, T, 32),
    },
    "lstm-stacked": {
        "lstm.gates": (1, T, 4, 32),
        "lstm.cell": (1, T, 32),
        "lstm.hidden": (1, T, 32),
        "residual": (1, T, 32),
    },
    "mlp-full": {"ff.hidden": (1, T, 128), "ff.out": (1, T, 32), "residual": (1, T, 32)},
    "linear-attention": {
        "attention.window": (1, T, 3, 96),
        "attention.q": (1, 1, T, 32),
        "attention.k": (1, 1, T, 32),
        "attention.v": (1, 1, T, 32),
        "attention.beta": (1, 1, T),
        "attention.decay": (1, 1, T),
        "attention.state": (1, T, 1, 32, 32),
        "attention.read": (1, 1, T, 32),
        "attention.head_out": (1, 1, T, 32),
        "attention.out": (1, T, 32),
        "residual_mid": (1, T, 32),
        "ff.hidden": (1, T, 128),
        "ff.out": (1, T, 32),
        "residual": (1, T, 32),
    },
}


@pytest.mark.parametrize("variant", BLOCK)
def test_names_and_shapes_are_as_documented(variant):
    taps = small(variant, TUNNEL, depth=2).taps()
    for i in range(2):
        block = {name: shape for name, shape in taps.items() if name.startswith(f"blocks.{i}.")}
        assert block == {f"blocks.{i}.{name}": shape for name, shape in BLOCK[variant].items()}
    outside = [name for name in taps if not name.startswith("blocks.")]
    between = {"transformer": ["positioned"], "mlp-full": ["context.products", "context.sum"]}.get(variant, [])
    assert outside == ["embed", *between, "final", "logits"]
    assert taps["final"] == (1, T, 32) and taps["logits"] == (1, T, 3)


@every_variant
def test_trace_is_the_forward_pass(variant):
    model, episodes = small(variant, TUNNEL).double(), TUNNEL.sample(5)
    seen = models.trace(model, episodes)
    assert list(seen) == models.tap_names(model)
    assert all(len(value) == 5 and not value.requires_grad for value in seen.values())
    assert relative(seen["logits"], logits(model, episodes.inputs)) < 1e-12


@every_variant
def test_trace_does_not_depend_on_its_chunks(variant):
    model, episodes = small(variant, TUNNEL).double(), TUNNEL.sample(7)
    whole, parts = models.trace(model, episodes), models.trace(model, episodes.inputs, chunk=3)
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        assert torch.allclose(value, parts[name], atol=1e-12), name


def test_trace_computes_in_full_precision_as_scores_do():
    """What it records is put back into passes that do; a GPU would else round the products of an LSTM to TF32."""
    model, seen = small("lstm-residual", TUNNEL), []
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn, torch.backends.cudnn.conv)
    before = [backend.fp32_precision for backend in backends]
    model.register_forward_hook(lambda *_: seen.append([backend.fp32_precision for backend in backends]))
    models.trace(model, TUNNEL.sample(2), "final")
    assert seen == [["ieee"] * 3] != [before] and [backend.fp32_precision for backend in backends] == before


def test_trace_keeps_only_what_is_asked_for():
    model, episodes = small("transformer", TUNNEL, depth=3), TUNNEL.sample(2)
    assert list(models.trace(model, episodes, "blocks.*.residual")) == [f"blocks.{i}.residual" for i in range(3)]
    assert list(models.trace(model, episodes, ["final", "blocks.0.attention.[qk]"])) == [
        "blocks.0.attention.q",
        "blocks.0.attention.k",
        "final",
    ]
    with pytest.raises(
        InputError, match=r"^tap name = 'blocks.9.*': must match one of embed, positioned, blocks.0"
    ) as e:
        models.trace(model, episodes, ["embed", "blocks.9.*"])
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match="chunk = 0"):
        models.trace(model, episodes, chunk=0)


LOOPS = {
    "mamba": (("mamba.window",), ("mamba.state",)),
    "lstm-residual": (("lstm.gates", "lstm.cell", "lstm.hidden"),),
    "linear-attention": (("attention.window",), ("attention.state",)),
}


@every_device
@pytest.mark.parametrize("variant", LOOPS)
def test_a_loop_is_written_out_only_for_who_wants_its_tensors(variant, device):
    model, inputs = small(variant, TUNNEL).to(device), TUNNEL.sample(3).inputs.to(device)
    everything, streams = Record(), Record(["blocks.*.residual"])
    for record in (everything, streams):
        model(inputs.tokens, inputs.features, inputs.readout, record)
    parts = {f"blocks.{i}.{name}" for i in range(2) for loop in LOOPS[variant] for name in loop}
    assert everything.recurrent == parts and not streams.recurrent
    assert set(streams.seen) == set(everything.seen) - parts
    for name, value in streams.tensors().items():
        assert relative(value, everything.tensors()[name]) < 1e-5
    for loop in LOOPS[variant]:
        edit = Edit({f"blocks.0.{loop[0]}": lambda value, step: 2 * value})
        model(inputs.tokens, inputs.features, inputs.readout, edit)
        edit.check()
        assert {name for name in edit.seen if name in parts} == {f"blocks.0.{name}" for name in loop}


@pytest.mark.parametrize("conv", [1, 2, 4])
@pytest.mark.parametrize("variant", ["mamba", "linear-attention"])
def test_a_convolution_step_by_step_is_the_fused_one_bit_for_bit(variant, conv):
    """Gradients round otherwise: the loop adds them up in another order."""
    model, inputs = small(variant, TUNNEL, depth=1, conv=conv).double(), TUNNEL.sample(3).inputs
    found = {}
    for name in ("*.window", "embed"):
        model.zero_grad()
        record = Record([name])
        values = logits(model, inputs, record)
        values.square().sum().backward()
        found[name] = values.detach(), next(iter(model.blocks[0].children())).weight.grad.clone()
        assert bool(record.recurrent) == (name == "*.window" and conv > 1)
    assert torch.equal(found["*.window"][0], found["embed"][0])
    assert relative(found["*.window"][1], found["embed"][1]) < 1e-12


def test_patterns_are_causal_distributions():
    pattern = models.trace(small("transformer", TUNNEL), TUNNEL.sample(3), "*.pattern")["blocks.1.attention.pattern"]
    assert torch.allclose(pattern.sum(-1), torch.ones(3, 1, T), atol=1e-6)
    assert torch.equal(pattern.triu(1), torch.zeros_like(pattern))


@every_variant
def test_an_edit_at_every_tap_changes_the_prediction(variant):
    """Each name alone: noise there must reach the output, so no tap is a dead end."""
    model, inputs = small(variant, TUNNEL).double(), TUNNEL.sample(3).inputs
    reference = logits(model, inputs, lambda name, value: value)

    def disturb(value, step):
        return value + 0.1 * torch.arange(value[0].numel()).cos().view_as(value[0])

    for name in models.tap_names(model):
        edit = models.Edit({name: disturb})
        edited = logits(model, inputs, edit)
        edit.check()
        assert not torch.equal(edited, reference), name


@pytest.mark.parametrize(
    ("variant", "name", "first"),
    [
        ("lstm-residual", "lstm.cell", 6),
        ("lstm-stacked", "lstm.hidden", 6),
        ("lstm-residual", "lstm.gates", 6),
        ("mamba", "mamba.state", 6),
        ("mamba", "mamba.window", 7),  # of it only the next step knows
        ("linear-attention", "attention.state", 6),
        ("linear-attention", "attention.window", 7),
    ],
)
def test_an_edited_state_is_carried_on(variant, name, first):
    """Change the state at one step: nothing before it moves, what comes later does, through the recurrence alone."""
    model, inputs = small(variant, TUNNEL, depth=1).double(), TUNNEL.sample(2).inputs
    at = 6
    record, plain = models.Record(), models.Record()
    edit = models.Edit({f"blocks.0.{name}": lambda value, step: 0.5 * value if step == at else value})
    logits(model, inputs, lambda name, value: record(name, edit(name, value)))
    logits(model, inputs, plain)
    before, after = plain.tensors()["blocks.0.residual"], record.tensors()["blocks.0.residual"]
    assert torch.equal(before[:, :first], after[:, :first])
    for later in range(first, T):
        assert not torch.equal(before[:, later], after[:, later])


def test_head_ablation_removes_exactly_that_head():
    model, inputs = small("transformer", TUNNEL, heads=4).double(), TUNNEL.sample(3).inputs

    def drop(value, step):
        value = value.clone()
        value[:, 2] = 0.0
        return value

    ablated = logits(model, inputs, models.Edit({"blocks.0.attention.head_out": drop}))
    with torch.no_grad():  # the same by hand: silence the head's columns of the output projection
        model.blocks[0].attention.out.weight[:, 16:24] = 0.0
    assert relative(ablated, logits(model, inputs)) < 1e-12


@every_variant
def test_swapping_the_whole_stream_gives_the_donors_answer(variant):
    model, episodes = small(variant, TUNNEL).double(), TUNNEL.sample(4)
    donor = models.trace(model, episodes)["blocks.1.residual"].flip(0)
    swapped = logits(model, episodes.inputs, models.Edit({"blocks.1.residual": lambda value, step: donor}))
    own = logits(model, episodes.inputs, lambda name, value: value)
    assert torch.equal(swapped, own.flip(0))


@every_variant
def test_a_name_that_is_none_is_told_every_name_there_is(variant):
    """Recurrent tensors too, which are handed over only to who wants them."""
    model, episodes = small(variant, TUNNEL), TUNNEL.sample(2, dtype=torch.float32)
    with pytest.raises(InputError) as error:
        models.trace(model, episodes, names=["no.such@*"])
    names, _, hint = str(error.value).removeprefix("tap name = 'no.such@*': must match one of ").partition("; ")
    assert names.split(", ") == list(models.trace(model, episodes)) and "without @" in hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"episodes": 3}, "episodes = 3: must be episodes, or their inputs"),
        ({"names": [1]}, "names = [1]: must be a glob pattern, or a list of them"),
        ({"device": "nowhere"}, "device = 'nowhere': must be cpu, cuda or cuda:N"),
        ({"chunk": 0}, "chunk = 0: must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_traced_is_told_in_one_line(options, words):
    with pytest.raises(InputError) as error:
        models.trace(small("mlp-full", TUNNEL), **{"episodes": TUNNEL.sample(2)} | options)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Urn(symbols=3, length=5), "the model's feature_width = 3: must be the episodes' 0"),
        (HMM(states=4, symbols=2, length=5), "the model's feature_width = 3: must be the episodes' 4"),
        (HMM(states=2, symbols=3, length=5), "the model's classes = 3: must be the episodes' 2"),
        (HMM(states=3, symbols=3, length=5), "the model's vocabulary = 8: must be above the episodes' token 8"),
    ],
    ids=["none", "width", "classes", "vocabulary"],
)
def test_episodes_of_another_world_are_refused(other, words):
    """Where sizes happened to leave room, they were read without a word."""
    with pytest.raises(InputError) as error:
        models.trace(small("mlp-position", TUNNEL), other.sample(20))
    assert str(error.value) == words


def test_edits_that_ablate_nothing_or_change_shape_are_refused():
    model, inputs = small("mlp-full", TUNNEL), TUNNEL.sample(2, dtype=torch.float32).inputs
    edit = models.Edit({"blocks.*.attention.pattern": lambda value, step: value})
    logits(model, inputs, edit)
    with pytest.raises(InputError, match=r"^tap name = 'blocks.\*.attention.pattern': must match one of embed"):
        edit.check()
    with pytest.raises(InputError, match=r"^edit of final has shape \(1, 5, 32\): must be \(2, 5, 32\)"):
        logits(model, inputs, models.Edit({"final": lambda value, step: value[:1]}))


@every_variant
def test_no_episodes_are_read_and_traced_like_others(variant):
    model, episodes = small(variant, TUNNEL), TUNNEL.sample(2, dtype=torch.float32)
    nothing = episodes[:0]
    for tap in (None, looking):
        assert model.log_probs(nothing.inputs, tap).shape == (0, *episodes.posterior.shape[1:])
    found, shapes = models.trace(model, nothing), models.trace(model, episodes)
    assert {name: (0, *value.shape[1:]) for name, value in shapes.items()} == {k: v.shape for k, v in found.items()}
    with pytest.raises(InputError, match=r"^tap name = 'foo': must match one of embed"):
        models.trace(model, nothing, "foo")


@every_device
def test_trace_goes_where_it_is_sent(device):
    model = small("mamba", TUNNEL).to(device)
    assert models.trace(model, TUNNEL.sample(2), "final")["final"].device.type == "cpu"
    assert models.trace(model, TUNNEL.sample(2), "final", device=device)["final"].device.type == device
