"""A run, from memory and from its folder: the same networks, the same history."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from dataclasses import dataclass

import pytest
import torch

import windtunnel as wt
from tests.training.cases import BIJECTION, SMALL_HMM, VARIANTS, counts, same, tiny
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.models.mlp import MLP
from windtunnel.training import Run, load, train
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.tunnels import Bijection

RECIPE = tiny(seeds=(4, 2), average=0.5)  # ladder 1, 2, 6


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(recipe=RECIPE, out=tmp_path_factory.mktemp("run"), device="cpu")


def test_loaded_networks_equal_those_in_memory(run):
    memory, loaded = train(recipe=RECIPE, device="cpu"), load(run.path)
    inputs = BIJECTION.sample(8).inputs
    for a, b, c in zip(run.models, loaded.models, memory.models, strict=True):
        assert same(a.state_dict(), b.state_dict()) and same(a.state_dict(), c.state_dict())
        assert torch.equal(a.log_probs(inputs), b.log_probs(inputs))
        assert not b.training
    assert loaded.recipe == RECIPE
    assert [loaded.metrics(seed) for seed in (4, 2)] == [memory.metrics(seed) for seed in (4, 2)]
    assert loaded.metrics() == loaded.metrics(4) != loaded.metrics(2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_architecture_comes_back_from_its_folder(tmp_path, variant):
    first = train(recipe=tiny(SMALL_HMM, variant, steps=1), out=tmp_path, device="cpu")
    again = load(tmp_path)
    inputs = SMALL_HMM.sample(4).inputs
    assert torch.equal(first.models[0].log_probs(inputs), again.models[0].log_probs(inputs))
    assert again.models[0].spec == first.models[0].spec


def test_a_size_given_in_parameters_comes_back_as_the_same_shape(tmp_path):
    """From the exact shape in the folder, not by matching the size again."""
    recipe = tiny(steps=1, model_options={"params": 5000})
    train(recipe=recipe, out=tmp_path, device="cpu")
    expected = models.build("transformer", BIJECTION, params=5000).spec
    assert load(tmp_path).models[0].spec == expected


def test_a_step_of_the_ladder_gives_the_weights_of_that_step(run):
    assert run.ladder() == run.ladder(2) == [1, 2, 6]
    net = Network(RECIPE, 2, "cpu")
    for step in range(1, 7):
        net.advance()
        if step in run.ladder():
            assert same(load(run.path, step=step).models[1].state_dict(), net.weights())
            assert same(run.model(2, step).state_dict(), net.weights())
    assert same(run.models[1].state_dict(), net.weights())  # the last by default


def test_a_step_that_is_not_on_the_ladder_is_told_in_one_line(run):
    with pytest.raises(InputError, match="step = 3: must be one of 1, 2, 6"):
        load(run.path, step=3)
    assert "step 2 of 6" in repr(load(run.path, step=2)) and "step 6 of 6" in repr(load(run.path))


def test_a_run_is_scored_seed_by_seed(run):
    score = wt.evaluate(load(run.path), episodes=64)
    assert len(score.kl_bits.per_seed) == 2 and score.kl_bits.over == "seeds"
    alone = wt.evaluate(run.models[1], BIJECTION, episodes=64)
    assert score.kl_bits.per_seed[1] == pytest.approx(alone.kl_bits.mean, rel=1e-12)
    longer = wt.evaluate(run, BIJECTION.with_length(3), episodes=64)
    assert math.isfinite(longer.kl_bits.mean)


def test_wt_load_is_the_same_function(run):
    assert wt.load is load and wt.train is train
    assert isinstance(wt.load(str(run.path)), Run)


def test_seconds_add_up_over_sittings(run):
    records = run.folder.timings()
    for seed in (4, 2):  # one record per checkpoint, without a gap
        spans = [(record["from"], record["to"]) for record in records if seed in record["seeds"]]
        assert [first for first, _ in spans] == [0, *(last for _, last in spans[:-1])]
        assert spans[-1][1] == 6
    assert all(record["sequences_per_s"] > 0 for record in records)
    seconds = run.seconds()
    assert seconds == {
        "train": sum(record["train_s"] for record in records),
        "setup": sum(record["setup_s"] for record in records),
    }
    assert 0 < seconds["train"] < 60
    assert all(record["step_s"] <= record["train_s"] for record in records)


def test_seconds_of_a_run_in_memory():
    assert 0 < train(recipe=tiny(steps=2), device="cpu").seconds()["train"] < 60


def test_a_run_in_memory_has_no_folder_and_no_ladder():
    memory = train(recipe=tiny(steps=2), device="cpu")
    for ask in (memory.ladder, lambda: memory.folder, lambda: memory.model(0, step=1)):
        with pytest.raises(InputError, match=r"run: must have been trained with out=… to have a folder"):
            ask()


def test_a_run_that_has_not_saved_yet_says_so(tmp_path):
    RunFolder(tmp_path).create(RECIPE, None)
    begun = load(tmp_path)
    assert begun.steps == 0 and not begun.finished and begun.ladder() == [] and begun.metrics() == []
    assert begun.seconds() == {"train": 0, "setup": 0}
    with pytest.raises(InputError, match="seed 4 has no weights yet"):
        _ = begun.models


def test_what_is_at_hand_of_a_run_that_is_not_all_the_way(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    whole = load(tmp_path / "run")
    first, *others = whole.recipe.seeds
    assert whole.at_hand().recipe == whole.recipe and len(whole.at_hand().models) == len(whole.recipe.seeds)
    for seed in others:
        shutil.rmtree(tmp_path / "run" / f"seed-{seed}")
    part = load(tmp_path / "run").at_hand()
    assert part.recipe.seeds == (first,) and whole.recipe.seeds == (first, *others)
    assert same(part.models[0].state_dict(), run.model(first).state_dict())
    with pytest.raises(InputError, match="step = 999: must be one of"):
        load(tmp_path / "run", step=999).at_hand()


def cut(run, folder, *steps) -> Run:
    """A copy of the run whose seeds have gone no further than these steps."""
    shutil.copytree(run.path, folder)
    for seed, step in zip(run.recipe.seeds, steps, strict=True):
        RunFolder(folder).seed(seed).forget_after(step)
    return load(folder)


def test_weights_of_different_steps_are_not_taken_for_one_network_s_seeds(run, tmp_path):
    mixed = cut(run, tmp_path / "mixed", 6, 4)
    assert "step 4 of 6 (weights of step 2 and 6)" in repr(mixed)
    told = r"must be from one step, but are from step 6 for seed 4, 2 for seed 2: continue .*, or .* load\(…, step=2\)$"
    for ask in (lambda: mixed.models, lambda: wt.evaluate(mixed, episodes=8)):
        with pytest.raises(InputError, match=told):
            ask()
    assert len(load(mixed.path, step=2).models) == 2
    assert same(mixed.model(2).state_dict(), run.model(2, 2).state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        standing = mixed.at_hand().models  # the command line tells by itself which they are
    assert same(standing[0].state_dict(), run.model(4).state_dict())
    assert same(standing[1].state_dict(), run.model(2, 2).state_dict())
    apart = cut(run, tmp_path / "apart", 6, 1)
    path = apart.path / "seed-4/checkpoints.json"
    listed = json.loads(path.read_text())
    path.write_text(json.dumps(listed | {"ladder": listed["ladder"][1:]}))  # now no step is one that both have
    with pytest.raises(InputError, match=r"but are from step 6 for seed 4, 1 for seed 2: continue training$"):
        _ = apart.models


def test_a_run_is_told_by_its_model_its_tunnel_and_its_recipe_s_name():
    def told(**options):
        return repr(Run(tiny(**options))).partition(":")[0]

    assert told() == "<Run of transformer on bijection"
    assert told(name="quick") == "<Run of transformer on bijection (quick)"
    assert told(variant="mamba", tunnel=SMALL_HMM, name="hmm-mamba") == "<Run of mamba on hmm"
    own = dataclass(frozen=True)(type("Own", (Bijection,), {}))  # registered nowhere
    assert told(tunnel=own(4, 4), name="") == "<Run of transformer on Own"


def test_weights_older_than_the_run_are_told(run, tmp_path):
    stopped = cut(run, tmp_path / "stopped", 4, 4)
    assert "step 4 of 6 (weights of step 2)" in repr(stopped)
    with pytest.warns(UserWarning, match="stopped: is at step 4, but its last weights are from step 2$"):
        assert len(stopped.models) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(stopped.path, step=2).models) == len(run.models) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_loading_onto_an_absent_gpu_is_told_in_one_line(run):
    with pytest.raises(InputError, match="device = 'cuda': must be cpu: torch sees no GPU here"):
        load(run.path, device="cuda")


# --- architectures of one's own
def test_a_factory_trains_and_comes_back_with_it(tmp_path):
    options = {"steps": 3, "batch": 8, "lr": 1e-2, "width": 6, "checkpoint_every": 2, "device": "cpu"}
    run = train(BIJECTION, counts, out=tmp_path, **options)
    again = load(tmp_path, model=counts)
    assert same(run.models[0].state_dict(), again.models[0].state_dict())
    assert again.models[0].module.mix.in_features == 6
    assert again.recipe.model == "counts" and again.recipe.model_options == {"width": 6}
    assert math.isfinite(wt.evaluate(again, episodes=16).kl_bits.mean)
    with pytest.raises(InputError, match=r"its architecture 'counts' must be registered first: .* --plugin MODULE"):
        _ = load(tmp_path).models
    start = models.build(counts, BIJECTION, width=6, seed=0)
    assert not same(start.state_dict(), again.models[0].state_dict())


def test_a_registered_factory_comes_back_by_its_name(tmp_path):
    models.register("tally", counts)
    try:
        run = train(BIJECTION, "tally", steps=2, batch=8, out=tmp_path, device="cpu")
        assert same(run.models[0].state_dict(), load(tmp_path).models[0].state_dict())
    finally:
        models.unregister("tally")


def test_a_factory_of_a_built_in_shape_comes_back_without_it(tmp_path):
    def slim(tunnel):
        return models.build("mlp", tunnel, depth=1, width=8)

    run = train(BIJECTION, slim, steps=2, batch=8, out=tmp_path, device="cpu")
    assert same(run.models[0].state_dict(), load(tmp_path).models[0].state_dict())


def test_a_factory_with_a_built_in_s_name_is_not_taken_for_it(tmp_path):
    def mlp(tunnel, **options):
        assert not options  # those of the built-in are not for it
        return counts(tunnel)

    run = train(BIJECTION, mlp, steps=2, batch=8, out=tmp_path, device="cpu")
    assert run.recipe.model == "own-mlp" and run.recipe.model_options == {}
    assert same(run.models[0].state_dict(), load(tmp_path, model=mlp).models[0].state_dict())
    with pytest.raises(InputError, match="its architecture 'own-mlp' must be registered first"):
        _ = load(tmp_path).models
    models.register("tally", counts)
    try:
        options = {"steps": 2, "batch": 8, "device": "cpu"}
        mlp.__name__ = "tally"
        assert train(BIJECTION, mlp, **options).recipe.model == "own-tally"  # another function than the registered one
        models.register("counts", counts)
        assert train(BIJECTION, counts, **options).recipe.model == "counts"
    finally:
        models.unregister("tally")
        models.unregister("counts")


class Louder(MLP):
    """A subclass of ours with the same weights, which computes something else."""

    def trunk(self, x, tap=None):
        return 2 * super().trunk(x, tap)


def test_a_subclass_of_a_built_in_does_not_come_back_as_its_parent(tmp_path):
    def louder(tunnel):
        return models.build(Louder, tunnel, depth=1, width=8)

    run = train(BIJECTION, louder, steps=2, batch=8, out=tmp_path, device="cpu")
    assert type(load(tmp_path, model=louder).models[0]) is type(run.models[0]) is Louder
    with pytest.raises(InputError, match="its architecture 'louder' must be registered first"):
        _ = load(tmp_path).models


# --- the preset of the first minute
@pytest.mark.slow
def test_the_quick_preset_comes_within_a_hundredth_of_a_bit():
    from windtunnel.tunnels import Bijection

    run = train(Bijection(symbols=8, length=8), "transformer", preset="quick", device="cpu")
    assert wt.evaluate(run, episodes=4096).kl_bits.mean <= 0.01
