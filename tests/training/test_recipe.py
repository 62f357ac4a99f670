"""A recipe is plain data: through JSON and back it is the same recipe, and a wrong value is told in one line."""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.cases import BIJECTION, SMALL_HMM, tiny
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.study import zoo
from windtunnel.study.presets import PRESETS, plan_for
from windtunnel.training import Optimiser, Recipe, Schedule, recipe_for, train
from windtunnel.training.recipes import generic, quick
from windtunnel.training.start import apply_options
from windtunnel.training.tuned_recipes import NAMED, STANDARD
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

IDENTITY = ((1.0, 0.0), (0.0, 1.0))
TUNNELS = [
    Bijection(),
    BIJECTION,
    SMALL_HMM,
    Recall(),
    HMM(states=2, symbols=2, header=None, transition=IDENTITY, emission=IDENTITY),  # tuples of tuples
]


def through_json(recipe: Recipe) -> Recipe:
    return Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))


@pytest.mark.parametrize("name", NAMED)
def test_a_named_recipe_is_the_same_after_json(name):
    recipe = NAMED[name]()
    assert through_json(recipe) == recipe
    assert recipe.name == name


@pytest.mark.parametrize("pair", STANDARD, ids="-".join)
def test_the_recipe_for_a_pair_is_the_standard_one_and_survives_json(pair):
    tunnel = {"hmm": HMM(), "bijection": Bijection(), "recall": Recall(), "urn": Urn()}[pair[0]]
    recipe = recipe_for(tunnel, pair[1])
    assert recipe == STANDARD[pair](tunnel) == through_json(recipe)
    assert (recipe.tunnel, recipe.model) == (tunnel, pair[1])


def test_a_world_of_ones_own_has_no_recipe_of_ours_for_its_name():
    class Recall(Urn):
        """Another world, of the same name."""

    ours, own = recipe_for(TUNNELS[3], "transformer"), recipe_for(Recall(), "transformer")
    assert ours.name == own.name == "recall-transformer"
    assert "positions" in ours.model_options and "positions" not in own.model_options


def test_equal_recipes_have_equal_hashes():
    assert hash(quick(BIJECTION, "mamba")) == hash(quick(BIJECTION, "mamba"))


@pytest.mark.parametrize("make", [quick, generic])
@pytest.mark.parametrize("tunnel", TUNNELS, ids=lambda tunnel: type(tunnel).__name__)
def test_quick_and_generic_recipes_are_the_same_after_json(make, tunnel):
    recipe = make(tunnel, "mamba")
    assert through_json(recipe) == recipe
    assert recipe.tunnel == tunnel


def test_presets():
    assert recipe_for(BIJECTION, "lstm", "quick") == quick(BIJECTION, "lstm")
    assert recipe_for(BIJECTION, "lstm") == recipe_for(BIJECTION, "lstm", "standard")
    assert recipe_for(Recall(), "my-own") == generic(Recall(), "my-own")
    with pytest.raises(InputError, match="preset = 'slow': must be one of standard, quick"):
        recipe_for(BIJECTION, "lstm", "slow")
    with pytest.raises(InputError, match=r"one of standard, quick; a shape of the model is --option preset=paper-hmm"):
        recipe_for(HMM(), "transformer", "paper-hmm")


numbers = st.floats(1e-12, 1e12) | st.integers(1, 10**6)
shares = st.floats(0, 1, exclude_max=True)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)
optimisers = st.builds(
    Optimiser,
    kind=st.sampled_from(["adamw", "muon"]),
    lr=numbers,
    muon_lr=numbers,
    betas=st.tuples(shares, shares),
    momentum=shares,
    weight_decay=st.just(0) | numbers,
    clip=st.just(0.0) | numbers,
    average=shares,
)
schedules = st.builds(
    Schedule,
    warmup=st.integers(0, 10**6),
    decay=st.sampled_from(["cosine", "linear", "none"]),
    decay_share=st.floats(0, 1),
    floor=st.floats(0, 1),
)
counts = st.integers(1, 10**9)
recipes = st.builds(
    Recipe,
    tunnel=st.sampled_from(TUNNELS),
    model=st.text(min_size=1, max_size=8),
    model_options=st.dictionaries(st.text(max_size=5), plain, max_size=3),
    optimiser=optimisers,
    schedule=schedules,
    supervision=st.sampled_from(["labels", "posterior"]),
    precision=st.sampled_from(["float32", "bfloat16"]),
    batch=counts,
    steps=counts,
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True),
    validate_every=counts,
    validation_episodes=counts,
    checkpoint_every=counts,
    ladder=st.integers(0, 100),
    name=st.text(max_size=8),
)


@given(recipes)
def test_any_recipe_is_the_same_after_json(recipe):
    again = through_json(recipe)
    assert again == recipe
    assert json.dumps(again.to_dict()) == json.dumps(recipe.to_dict())


@given(recipes, optimisers, schedules)
def test_options_change_what_they_name_and_nothing_else(recipe, optimiser, schedule):
    changed = recipe.with_options(lr=optimiser.lr, floor=schedule.floor, batch=7, optimiser="muon")
    assert (changed.optimiser.lr, changed.schedule.floor, changed.batch) == (optimiser.lr, schedule.floor, 7)
    assert changed.optimiser.kind == "muon"
    back = changed.with_options(
        lr=recipe.optimiser.lr, floor=recipe.schedule.floor, batch=recipe.batch, optimiser=recipe.optimiser.kind
    )
    assert back == recipe


def test_numbers_of_numpy_are_kept_as_plain_ones():
    """A recipe must be the same when it comes back from JSON."""
    theirs = tiny(seeds=range(2), steps=np.int64(7), batch=np.int32(8), warmup=np.int64(3))
    theirs = theirs.with_options(seeds=[np.int64(4), np.uint32(5)], model_options={"depth": np.int64(1), "width": 8})
    plain = tiny(seeds=(4, 5), steps=7, batch=8, warmup=3, model_options={"depth": 1, "width": 8})
    assert theirs == plain == through_json(theirs)
    built = models.build("transformer", plain.tunnel, depth=np.int64(1), width=np.int64(8), seed=np.int64(3))
    assert json.dumps(cast(models.SequenceModel, built).spec)
    with pytest.raises(InputError, match=r"seeds = 1\.5"):
        tiny(seeds=(1.5,))
    halves = {name: np.float32(0.5) for name in ("lr", "muon_lr", "weight_decay", "clip", "momentum", "average")}
    theirs = tiny(**halves, betas=(np.float32(0.5), np.float64(0.5)), floor=np.int64(0), decay_share=np.float16(0.5))
    plain = tiny(**dict.fromkeys(halves, 0.5), betas=(0.5, 0.5), floor=0, decay_share=0.5)
    assert theirs == plain and repr(theirs) == repr(plain) and theirs.digest() == plain.digest()


def test_a_given_part_and_a_field_of_it_are_combined():
    recipe = tiny().with_options(optimiser=Optimiser(lr=0.5, clip=3.0), lr=0.25)
    assert recipe.optimiser == Optimiser(lr=0.25, clip=3.0)


def test_a_recipe_does_not_change_with_the_dictionary_it_was_made_from():
    options = {"depth": 2, "width": 16}
    recipe = Recipe(BIJECTION, model_options=options)
    options["depth"] = 5
    assert recipe.model_options == {"depth": 2, "width": 16}


BAD = [
    ({"lr": 0}, "lr = 0", "above 0"),
    ({"lr": -1e-3}, "lr = -0.001", "above 0"),
    ({"lr": float("nan")}, "lr = nan", "finite"),
    ({"lr": float("inf")}, "lr = inf", "finite"),
    ({"lr": True}, "lr = True", "number"),
    ({"lr": 10**400}, "lr = 1000", "finite"),
    ({"betas": (True, 0.9)}, "betas = (True, 0.9)", "two numbers in [0, 1)"),
    ({"lr": "high"}, "lr = 'high'", "number"),
    ({"muon_lr": 0.0}, "muon_lr = 0.0", "above 0"),
    ({"weight_decay": -1}, "weight_decay = -1", "at least 0"),
    ({"clip": None}, "clip = None", "at least 0"),
    ({"betas": (0.9,)}, "betas = (0.9,)", "two numbers in [0, 1)"),
    ({"betas": (0.9, 1.0)}, "betas = (0.9, 1.0)", "two numbers in [0, 1)"),
    ({"betas": 0.9}, "betas = 0.9", "two numbers in [0, 1)"),
    ({"momentum": 1.0}, "momentum = 1.0", "in [0, 1)"),
    ({"average": -0.1}, "average = -0.1", "in [0, 1)"),
    ({"optimiser": "sgd"}, "optimiser = 'sgd'", "adamw, muon"),
    ({"optimiser": 3}, "optimiser = 3", "Optimiser"),
    ({"warmup": -1}, "warmup = -1", "at least 0"),
    ({"warmup": 1.5}, "warmup = 1.5", "whole number"),
    ({"decay": "step"}, "decay = 'step'", "cosine, linear, none"),
    ({"decay_share": 1.5}, "decay_share = 1.5", "in [0, 1]"),
    ({"floor": -0.5}, "floor = -0.5", "in [0, 1]"),
    ({"schedule": "cosine"}, "schedule = 'cosine'", "Schedule"),
    ({"supervision": "both"}, "supervision = 'both'", "labels, posterior"),
    ({"precision": "float16"}, "precision = 'float16'", "float32, bfloat16"),
    ({"batch": 0}, "batch = 0", "at least 1"),
    ({"steps": 0}, "steps = 0", "at least 1"),
    ({"steps": 2.0}, "steps = 2.0", "whole number"),
    ({"validate_every": 0}, "validate_every = 0", "at least 1"),
    ({"validation_episodes": 0}, "validation_episodes = 0", "at least 1"),
    ({"checkpoint_every": 0}, "checkpoint_every = 0", "at least 1"),
    ({"ladder": -1}, "ladder = -1", "at least 0"),
    ({"seeds": ()}, "seeds = ()", "different numbers"),
    ({"seeds": (1, 1)}, "seeds = (1, 1)", "different numbers"),
    ({"seeds": (-1,)}, "seeds = -1", "from 0 to 4294967295"),
    ({"seeds": 3}, "seeds = 3", "different numbers"),
    ({"seeds": ([0],)}, "seeds = [0]", "whole number"),
    ({"tunnel": "hmm"}, "tunnel = 'hmm'", "a tunnel"),
    ({"model": 5}, "model = 5", "name"),
    ({"model_options": ["depth"]}, "model_options = ['depth']", "names with numbers"),
    ({"model_options": {"act": print}}, "model_options = {'act'", "numbers, strings"),
    ({"name": 3}, "name = 3", "string"),
    ({"colour": "red"}, "recipe option = 'colour'", "batch"),
]


@pytest.mark.parametrize(("options", "named", "allowed"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_value_is_told_in_one_line(options, named, allowed):
    with pytest.raises(InputError) as error:
        tiny().with_options(**options)
    message = str(error.value)
    assert named in message and allowed in message and "\n" not in message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda plain: plain.update(colour="red"), "recipe option = 'colour': must be one of tunnel, model"),
        (lambda plain: plain.pop("tunnel"), "recipe: must have the fields"),
        (lambda plain: plain.update(tunnel="hmm"), "recipe: must have the fields"),
        (lambda plain: plain.update(tunnel={"name": "maze"}), "tunnel = 'maze': must be one of bijection, hmm"),
        (lambda plain: plain["optimiser"].update(rate=1), "recipe: must have the fields"),
        (lambda plain: plain["optimiser"].update(lr=-1), "lr = -1: must be"),
        (lambda plain: plain.update(schedule=None), "recipe: must have the fields"),
    ],
)
def test_a_damaged_description_is_told_in_one_line(change, told):
    plain = tiny().to_dict()
    change(plain)
    with pytest.raises(InputError) as error:
        Recipe.from_dict(plain)
    assert told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("plain", [None, [], "recipe", 3])
def test_what_is_no_description_at_all_is_told_in_one_line(plain):
    with pytest.raises(InputError, match="recipe: must have the fields"):
        Recipe.from_dict(plain)


# --- apply_options: what `train` does with its keywords
def test_options_go_to_recipe_optimiser_schedule_or_model():
    recipe = apply_options(tiny(), 3, {"steps": 9, "lr": 0.5, "warmup": 7, "positions": "rope", "optimiser": "adamw"})
    assert (recipe.steps, recipe.optimiser.lr, recipe.schedule.warmup) == (9, 0.5, 7)
    assert recipe.optimiser.kind == "adamw"
    assert recipe.model_options == tiny().model_options | {"positions": "rope"}
    assert recipe.seeds == (0, 1, 2)


def test_no_options_change_nothing():
    assert apply_options(tiny(seeds=(4,)), None, {}) == tiny(seeds=(4,))


def test_a_given_size_replaces_the_recipe_s_size_and_other_options_stay():
    recipe = quick(BIJECTION, "transformer").with_options(model_options={"params": 60_000, "positions": "none"})
    changed = apply_options(recipe, None, {"depth": 1, "width": 16})
    assert changed.model_options == {"depth": 1, "width": 16, "positions": "none"}
    assert apply_options(changed, None, {"params": 5000}).model_options == {"params": 5000, "positions": "none"}


@pytest.mark.parametrize("model", ["transformer", "mamba", "lstm", "linear-attention"])
@pytest.mark.parametrize("shape", [{"depth": 3}, {"heads": 3}, {"depth": 2, "heads": 1}], ids=str)
def test_another_depth_or_number_of_heads_keeps_the_size(model, shape):
    """`train urn transformer --heads 3` had 857,810 parameters instead of 60,000."""
    if "heads" in shape and "heads" not in (models.option_names(model) or ()):
        return
    recipe = apply_options(recipe_for(Urn(), model, "quick"), None, shape)
    network = models.build(model, Urn(), **recipe.model_options)
    assert abs(models.describe(network).params / 60_000 - 1) <= 0.01
    assert {name: network.spec["config"][name] for name in shape} == shape  # type: ignore[union-attr]


def test_a_size_that_cannot_be_kept_is_told():
    said = []
    changed = apply_options(recipe_for(Urn(), "mlp", "standard"), None, {"depth": 1}, say=said.append)
    assert changed.model_options == {"depth": 1}
    told = "no mlp of 2,670,000 parameters has depth = 1, so its size follows from that; width or params set it"
    assert said == [told]


def test_heads_leave_a_given_shape_alone():
    recipe = tiny(model="transformer", model_options={"depth": 2, "width": 24})
    assert apply_options(recipe, None, {"heads": 3}).model_options == {"depth": 2, "width": 24, "heads": 3}
    assert apply_options(recipe, None, {"depth": 3}).model_options == {"depth": 3}


def test_committed_recipes_and_plans_keep_their_networks():
    """No option is given there, so nothing is fitted; the shipped networks are rebuilt from their recipes."""
    cells = [cell.recipe for preset in PRESETS for cell in plan_for(preset).cells]
    for recipe in [*(make() for make in NAMED.values()), *cells]:
        assert apply_options(recipe, None, {"batch": recipe.batch}) == recipe
    for name in zoo.names():
        card = zoo.card(name)
        recipe = Recipe.from_dict(card["recipe"])
        network = models.build(recipe.model, recipe.tunnel, **recipe.model_options)
        assert network.spec == card["model"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("seeds", "told"), [(0, "seeds = 0"), (-2, "seeds = -2"), (True, "seeds = True")])
def test_a_bad_number_of_seeds_is_told_in_one_line(seeds, told):
    with pytest.raises(InputError, match=f"{told}: must be a whole number from 1 to 10000"):
        apply_options(tiny(), seeds, {})


def test_which_seeds_can_be_said():
    assert apply_options(tiny(), (7, 2), {}).seeds == (7, 2)


# --- a warm-up that is longer than the training
def test_a_warm_up_that_was_asked_for_must_end_before_the_training_does():
    for options in ({"warmup": 500, "steps": 20}, {"warmup": 7}):
        with pytest.raises(InputError, match=rf"warmup = {options['warmup']}: must be at most steps = \d+$"):
            apply_options(tiny(), None, options)
    assert apply_options(tiny(), None, {"warmup": 20, "steps": 20}).schedule.warmup == 20


def test_a_recipe_s_own_warm_up_is_shortened_to_the_steps_asked_for_and_told():
    said: list[str] = []
    recipe = tiny(steps=800, warmup=50)
    short = apply_options(recipe, None, {"steps": 20}, say=said.append)
    assert short == recipe.with_options(steps=20, warmup=2)
    assert said == ["warm-up shortened from 50 steps to 2: there are only 20 in all"]
    assert apply_options(recipe, None, {"steps": 50}, say=said.append).schedule.warmup == 50 and len(said) == 1


def test_a_recipe_that_is_given_whole_is_trained_as_it_is_and_its_long_warm_up_told(tmp_path):
    said: list[str] = []
    recipe = tiny(steps=2, warmup=50)
    for _ in range(2):
        assert train(recipe=recipe, out=tmp_path, device="cpu", say=said.append).recipe == recipe
    told = "the warm-up of 50 steps is longer than the training, which has 2"
    assert said == [told, f"{tmp_path} is finished (2 steps); nothing to do"]
