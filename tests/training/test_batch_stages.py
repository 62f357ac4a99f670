"""A batch that grows: which episodes each step gets, what is refused, and that a stop in between changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.cases import BIJECTION, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.batch_stages import stage_at, stages_of
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.sitting import Sitting

GROWING = {"batch": 16, "first_batch": 4, "steps": 10, "validate_every": 5, "checkpoint_every": 100, "ladder": 0}


@given(first=st.integers(1, 5), doublings=st.integers(0, 4), steps=st.integers(1, 40))
def test_every_episode_is_used_once_and_in_order(first, doublings, steps):
    batch = first * 2**doublings
    recipe = Recipe(BIJECTION, batch=batch, first_batch=first, steps=steps)
    used, sizes = [], []
    for step in range(steps):
        stage = stage_at(recipe.stages, step)
        assert recipe.sequences(step) == len(used)
        used += range(stage.until(step), stage.until(step) + stage.batch)
        sizes.append(stage.batch)
    assert used == list(range(recipe.sequences()))
    assert [stage.batch for stage in recipe.stages] == sorted(set(sizes))  # no stage without a step, in a short recipe
    assert sizes == sorted(sizes) and set(sizes) <= {first * 2**k for k in range(doublings + 1)}
    if steps > 2 * doublings:  # equal shares, to the step
        assert len(set(sizes)) == doublings + 1
        counts = [sizes.count(size) for size in set(sizes)]
        assert max(counts) - min(counts) <= 1


def test_without_a_first_batch_there_is_one_stage():
    assert [tuple(stage) for stage in stages_of(0, 64, 100)] == [(0, 64, 0)]
    assert Recipe(BIJECTION, batch=64, first_batch=64) == Recipe(BIJECTION, batch=64)


def test_a_recipe_of_a_single_step_has_the_largest_share_of_its_stages():
    assert [tuple(stage) for stage in stages_of(64, 256, 1)] == [(0, 128, 0)]
    assert Recipe(BIJECTION, batch=256, first_batch=64, steps=1).sequences() == 128


def test_a_network_reads_the_episodes_of_its_stages():
    recipe = tiny(BIJECTION, **GROWING)
    network, start = Network(recipe, 3, "cpu"), 0
    for step in range(recipe.steps):
        network.advance()
        stage = stage_at(recipe.stages, step)
        network.step.fill_(step)
        drawn = network.sample()
        network.step.fill_(step + 1)
        expected = BIJECTION.sample(stage.batch, 3, "train", start=start)
        assert torch.equal(drawn[0], expected.inputs.tokens) and torch.equal(drawn[3], expected.labels)
        start += stage.batch
    assert start == recipe.sequences() == 4 * 3 + 8 * 4 + 16 * 3


@pytest.mark.parametrize("stop_at", [2, 3, 7])
def test_a_stop_changes_nothing(tmp_path, monkeypatch, stop_at):
    recipe = tiny(BIJECTION, **GROWING)
    whole = train(recipe=recipe, out=tmp_path / "whole", device="cpu")
    looks = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(Sitting, "_should_stop", lambda *_: next(looks) >= stop_at)
        assert train(recipe=recipe, out=tmp_path / "parts", device="cpu").steps == stop_at
    parts = train(recipe=recipe, out=tmp_path / "parts", device="cpu")
    assert load(tmp_path / "parts").recipe == recipe
    assert parts.metrics() == whole.metrics()
    ours, theirs = parts.models[0].state_dict(), whole.models[0].state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_another_growth_is_another_run(tmp_path):
    recipe = tiny(BIJECTION, **GROWING)
    train(recipe=recipe, out=tmp_path, device="cpu")
    with pytest.raises(InputError, match="holds a run with first_batch = 4, not 0"):
        train(recipe=recipe.with_options(first_batch=0), out=tmp_path, device="cpu")


def test_the_rate_counts_what_was_seen(tmp_path):
    recipe = tiny(BIJECTION, **GROWING)
    run = train(recipe=recipe, out=tmp_path, device="cpu")
    (told,) = run.folder.timings()
    assert told["sequences_per_s"] * told["step_s"] == pytest.approx(recipe.sequences())


@pytest.mark.parametrize(
    ("batch", "first", "why"),
    [
        (12, 5, r"first_batch = 5: must be batch = 12 or one of its halvings \(6, 3\); or 0"),
        (7, 3, r"first_batch = 3: must be batch = 7 or one of its halvings \(it has none\); or 0"),
        (8, 16, "first_batch = 16: must be batch = 8"),
        (8, -1, "first_batch = -1: must be"),
    ],
)
def test_what_cannot_be_doubled_to_the_batch_is_refused(batch, first, why):
    with pytest.raises(InputError, match=why):
        Recipe(BIJECTION, batch=batch, first_batch=first)


def test_a_batch_that_does_not_grow_goes_without_saying():
    assert "first_batch" not in Recipe(BIJECTION).to_dict()
    growing = Recipe(BIJECTION, batch=64, first_batch=16)
    assert growing.to_dict()["first_batch"] == 16 and Recipe.from_dict(growing.to_dict()) == growing
