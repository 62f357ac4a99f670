"""`kill -9` at any moment, then the same call again: the run ends as if nothing had happened, bit for bit."""

from __future__ import annotations

import random
import signal

import pytest

from tests.training.cases import SMALL_HMM, contents, tiny
from tests.training.zygote import EVENTS, Zygote
from windtunnel.training import load

RECIPE = tiny(validation_episodes=4)  # 6 steps: resumable at 2, 4, 6; ladder 1, 2, 6; scored at 0, 3, 6
TWO_SEEDS = tiny(SMALL_HMM, "lstm-residual", steps=30, validate_every=7, checkpoint_every=4, ladder=6, seeds=(3, 5))


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as process:
        yield process


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    """The same run without interruption, and how many events of each kind it has."""
    folder = tmp_path_factory.mktemp("whole")
    reply = zygote.train(RECIPE, folder)
    assert reply["error"] is None
    return contents(folder), reply["counts"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_kill_at_every_write_rename_and_removal_loses_nothing(zygote, whole, tmp_path, event):
    expected, counts = whole
    assert counts[event] >= (1 if event == "unlink" else 12)
    for at in range(1, counts[event] + 1):
        folder = tmp_path / str(at)
        assert zygote.train(RECIPE, folder, fault=(event, at))["killed"]
        assert zygote.train(RECIPE, folder)["error"] is None
        found = contents(folder)
        assert found.keys() == expected.keys(), f"files differ after a kill at {event} {at}"
        assert found == expected, f"contents differ after a kill at {event} {at}"


def killed_at_random(zygote, recipe, folder, kills: int, seed: int, longest_s: float) -> int:
    """Kill from outside, some time after the first step of each sitting, `kills` times; then let it end.

    Returns how many kills met a training that had not ended yet.
    """
    clock = random.Random(seed)
    met = sum(
        zygote.train(recipe, folder, fault=("time", clock.uniform(0.0, longest_s)))["killed"] for _ in range(kills)
    )
    assert zygote.train(recipe, folder)["error"] is None
    return met


def test_random_kills_lose_nothing(zygote, tmp_path):
    """Two seeds, side by side; the kills fall on steps, scores and saves as they come."""
    whole = tmp_path / "whole"
    assert zygote.train(TWO_SEEDS, whole)["error"] is None
    met = 0
    for seed in range(3):
        met += killed_at_random(zygote, TWO_SEEDS, tmp_path / str(seed), kills=5, seed=seed, longest_s=0.12)
        assert contents(tmp_path / str(seed)) == contents(whole)
    assert met >= 10


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["transformer", "mamba", "mlp-full", "linear-attention", "lstm-stacked"])
def test_many_random_kills_lose_nothing(zygote, tmp_path, variant):
    recipe = tiny(SMALL_HMM, variant, steps=60, validate_every=9, checkpoint_every=5, ladder=8, seeds=(0, 1))
    whole = tmp_path / "whole"
    assert zygote.train(recipe, whole)["error"] is None
    for seed in range(4):
        assert killed_at_random(zygote, recipe, tmp_path / str(seed), kills=10, seed=seed, longest_s=0.2) >= 3
        assert contents(tmp_path / str(seed)) == contents(whole)


def test_a_kill_between_the_last_score_and_the_last_weights_is_not_taken_for_the_end(zygote, tmp_path):
    """The last line of metrics is written first: alone it must not make the run look finished."""
    for at in range(1, 40):
        folder = tmp_path / str(at)
        zygote.train(RECIPE, folder, fault=("torn", at))
        scored = [record["step"] for record in load(folder).metrics()] if (folder / "recipe.json").exists() else []
        if scored and scored[-1] == RECIPE.steps:
            break
    run = load(folder)
    assert run.metrics()[-1]["step"] == RECIPE.steps
    assert run.ladder()[-1] < RECIPE.steps
    assert not run.finished
    assert run.steps < RECIPE.steps


def test_an_orphan_state_is_removed_with_the_next_save(zygote, tmp_path):
    recipe = tiny(steps=8, validation_episodes=4)
    assert zygote.train(recipe, tmp_path, fault=("unlink", 1))["killed"]
    orphan = tmp_path / "seed-0" / "resume-00000002.safetensors"
    assert orphan.exists()
    assert zygote.train(recipe, tmp_path)["error"] is None
    assert sorted(path.name[7:15] for path in (tmp_path / "seed-0").glob("resume-*")) == ["00000006", "00000008"]


def test_a_lock_file_left_by_a_kill_does_not_block(zygote, tmp_path):
    assert zygote.train(RECIPE, tmp_path, fault=("renamed", 8))["killed"]
    assert int((tmp_path / "lock").read_text()) > 0
    reply = zygote.train(RECIPE, tmp_path)
    assert reply["error"] is None
    assert reply["said"][0].startswith(f"continuing {tmp_path} from step ")


def test_continuing_says_from_where(zygote, tmp_path):
    assert zygote.train(RECIPE, tmp_path, fault=("unlink", 1))["killed"]  # after the state of step 6 was listed
    assert zygote.train(RECIPE, tmp_path)["said"] == [f"{tmp_path} is finished (6 steps); nothing to do"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(zygote, tmp_path, whole, number):
    """The step in flight ends, the state of exactly that step is saved, and the run ends as if undisturbed."""
    reply = zygote.train(RECIPE, tmp_path, fault=(number.name, 3))
    assert reply["error"] == (
        f"Interrupted: stopped by {number.name}; saved in {tmp_path}; run the same command again to resume"
    )
    assert load(tmp_path).steps == 3  # no multiple of checkpoint_every: saved because of the signal
    reply = zygote.train(RECIPE, tmp_path)
    assert reply["said"] == [f"continuing {tmp_path} from step 3 of 6"]
    assert contents(tmp_path) == whole[0]
