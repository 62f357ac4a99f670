"""Parameter matching, shapes from the dial, presets, rebuilding."""

from __future__ import annotations

import json

import pytest
import torch

from tests.models.cases import TUNNELS, VARIANTS, Bag, every_variant
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.models.base import Sizes
from windtunnel.models.build import DEFAULT_PARAMS, resolve
from windtunnel.models.matching import count_parameters, match
from windtunnel.models.registry import find
from windtunnel.tunnels import HMM, Bijection, Recall

DEFAULTS = {
    "bijection": Bijection(),
    "hmm": HMM(),
    "hmm-tokens": HMM(prior="released", header="tokens"),
    "recall": Recall(),
}


def count(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("params", [100_000, 857_000, 2_670_000, 7_100_000])
@pytest.mark.parametrize("tunnel", DEFAULTS.values(), ids=DEFAULTS)
@every_variant
def test_size_is_matched_within_one_percent(variant, tunnel, params):
    name, options = VARIANTS[variant]
    cls, sizes = find(name), Sizes.of(tunnel)
    config = match(cls, params, sizes, options)
    assert abs(count_parameters(cls, config, sizes) / params - 1) <= 0.01
    assert config.width % 8 == 0


def test_the_dial_passes_through_the_papers_shapes():
    for params, depth, width, heads in ((2_670_000, 6, 192, 6), (7_100_000, 9, 256, 8)):
        config = resolve(find("transformer"), Sizes.of(HMM()), params=params, preset=None, given={})
        assert (config.depth, config.width, config.heads) == (depth, width, heads)


def test_presets_have_the_published_shapes_and_sizes():
    bijection = models.build("transformer", Bijection(), preset="paper-bijection")
    assert abs(count(bijection) - 2_670_000) < 0.01 * 2_670_000
    assert (bijection.config.depth, bijection.config.width, bijection.config.heads) == (6, 192, 6)
    hmm = models.build("transformer", HMM(), preset="paper-hmm", positions="none")
    assert abs(count(hmm) - 7_100_000) < 0.01 * 7_100_000
    assert hmm.config.positions == "none"  # options still apply
    stacked = models.build("lstm", HMM(), preset="paper-hmm").config
    assert (stacked.style, stacked.depth, stacked.width, stacked.embed_width) == ("stacked", 9, 256, 256)


@every_variant
def test_params_with_some_of_the_shape_given(variant):
    name, options = VARIANTS[variant]
    model = models.build(name, Bijection(), params=400_000, depth=3, **options)
    assert model.config.depth == 3 and abs(count(model) - 400_000) <= 4_000


def test_everything_given_but_one_field():
    model = models.build("transformer", Bijection(), params=500_000, depth=3, width=96, heads=4)
    assert (model.config.depth, model.config.width, model.config.heads) == (3, 96, 4)
    assert abs(count(model) - 500_000) <= 5_000


def test_shape_without_params_follows_the_dial():
    config = models.build("transformer", Bijection(), depth=3).config
    assert (config.width, config.heads, config.ff_width) == (96, 3, 384)
    assert models.build("transformer", Bijection(), width=128).config.depth == 4
    mamba = models.build("mamba", Bijection(), depth=2, width=48).config
    assert (mamba.inner, mamba.rank) == (96, 8)


@every_variant
def test_default_size(variant):
    name, options = VARIANTS[variant]
    assert abs(count(models.build(name, HMM(), **options)) / DEFAULT_PARAMS - 1) <= 0.01


def test_impossible_targets_name_the_nearest_size():
    with pytest.raises(
        InputError, match=r"^params = 50: must be within 1% of a size that transformer can have on this tunnel"
    ):
        models.build("transformer", Bijection(), params=50)
    with pytest.raises(InputError, match=r"with depth=6, width=192; the nearest is [\d,]+$") as error:
        models.build("transformer", Bijection(), params=100_000, depth=6, width=192)
    nearest = int(str(error.value).rsplit(" ", 1)[1].replace(",", ""))
    assert nearest > 100_000  # and it is reachable:
    models.build("transformer", Bijection(), params=nearest, depth=6, width=192)


def test_a_count_that_is_all_in_one_part_is_told_once():
    """A model of one's own is one part to us: `= module 20,357` says nothing."""
    tunnel = Bijection(symbols=3, length=3)
    model = models.build(Bag, tunnel)
    assert str(models.describe(model)).endswith(f": {count(model):,} parameters")


def test_count_is_told_with_a_breakdown():
    model = models.build("transformer", Bijection(), params=100_000)
    description = models.describe(model)
    assert f"{count(model):,} parameters = embedding" in str(description)
    assert description.params == count(model) == sum(description.parts.values())
    assert set(description.parts) == {"embedding", "position", "blocks", "final_norm", "head"}


@every_variant
def test_a_model_is_rebuilt_from_its_spec(variant):
    name, options = VARIANTS[variant]
    tunnel = TUNNELS["hmm-rows"]
    model = models.build(name, tunnel, depth=2, width=32, max_length=20, seed=3, **options)
    again = models.from_spec(json.loads(json.dumps(model.spec)), seed=3)
    assert again.spec == model.spec
    for (path, a), (_, b) in zip(model.state_dict().items(), again.state_dict().items()):
        assert torch.equal(a, b), path


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sizes": {"vocabulary": -3}}, "vocabulary = -3: must be a whole number of at least 1"),
        ({"sizes": {"max_length": "9"}}, "max_length = '9': must be a whole number of at least 1"),
        ({"sizes": {"letters": 9}}, "must have the config and sizes of the architecture mlp"),
        ({"config": {"depth": 0}}, "depth = 0: must be a whole number of at least 1"),
    ],
)
def test_a_spec_that_makes_no_model_is_refused_in_one_line(changed, words):
    spec = models.build("mlp", TUNNELS["hmm-rows"], depth=1, width=8).spec
    with pytest.raises(InputError, match="must") as error:
        models.from_spec({name: spec[name] | changed[name] if name in changed else spec[name] for name in spec})
    assert words in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"^seed = -1: must be a whole number from 0"):
        models.from_spec(spec, seed=-1)


@pytest.mark.parametrize("name", models.names())
def test_every_architecture_says_what_it_is(name):
    assert "tokens (n, T) to logits (n, K, C) at the readouts" in " ".join((find(name).__doc__ or "").split())


def test_an_architecture_without_presets_says_so():
    with pytest.raises(InputError, match=r"^linear-attention preset = 'paper-hmm': must be left out: there is none"):
        models.build("linear-attention", Bijection(), preset="paper-hmm")


@every_variant
def test_weights_depend_on_the_seed_alone(variant):
    name, options = VARIANTS[variant]
    tunnel = TUNNELS["hmm-rows"]
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = models.build(name, tunnel, depth=1, width=16, seed=1, **options).state_dict()
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random state is as it was
    torch.rand(3)
    second = models.build(name, tunnel, depth=1, width=16, seed=1, **options).state_dict()
    third = models.build(name, tunnel, depth=1, width=16, seed=2, **options).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["embedding.weight"], third["embedding.weight"])
    assert not torch.equal(first["head.weight"], third["head.weight"])


def test_an_impossibly_large_target_is_refused_at_once():
    with pytest.raises(InputError, match="params = 1000000000000000: must be a whole number from 1 to 10000000000"):
        models.build("transformer", Bijection(4, 4), params=10**15)
