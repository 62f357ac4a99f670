"""A list of checkpoints that is lost: what was trained is not written over; asked to, training goes on from it."""

from __future__ import annotations

import shutil

import pytest

from tests.training.cases import contents, spoil, tiny
from tests.training.zygote import Zygote
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_list import lost_list

RECIPE = tiny(steps=8, validation_episodes=4)  # states every 2 steps, ladder 1, 3, 8; scored at 0, 3, 6, 8
LATE = RECIPE.with_options(ladder=0, checkpoint_every=6)  # saves nothing before step 6


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as process:
        yield process


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(recipe=RECIPE, out=folder, device="cpu")
    return folder


@pytest.fixture(scope="module")
def stopped_once(zygote, tmp_path_factory):
    """As a kill in step 7 leaves it: states 4 and 6 are on disk, and the weights of steps 1 and 3."""
    folder = tmp_path_factory.mktemp("stopped")
    assert zygote.train(RECIPE, folder, fault=("unlink", 1))["killed"]  # step 6 is listed, that of step 2 still there
    (folder / "seed-0" / "resume-00000002.safetensors").unlink()
    return folder


@pytest.fixture
def stopped(stopped_once, tmp_path):
    return shutil.copytree(stopped_once, tmp_path / "run")


def go_on(folder, recipe=RECIPE, **options):
    said = []
    run = train(recipe=recipe, out=folder, device="cpu", say=said.append, **options)
    return run, said


def refused(folder, **options) -> str:
    """The line, the same for who reads and who trains; nothing is changed."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}
    told = set()
    for attempt in (lambda: go_on(folder, **options), lambda: load(folder)):
        with pytest.raises(InputError) as error:
            attempt()
        told.add(str(error.value))
    assert {path: path.read_bytes() for path in before} == before
    (line,) = told
    assert "\n" not in line
    return line


def test_what_was_trained_is_not_written_over(stopped, whole):
    (stopped / "seed-0" / "checkpoints.json").unlink()
    assert refused(stopped) == (
        f"{stopped}/seed-0: holds resume-00000006.safetensors and 3 more but no checkpoints.json, which tells what is "
        "saved and by which checksum: put that file back, or add --earlier to go on from resume-00000006.safetensors "
        "as it is, which nothing can check any more"
    )
    run, said = go_on(stopped, earlier=True)
    assert said == [
        "seed 0: its list of checkpoints was lost, and is made again from the files",
        f"continuing {stopped} from step 6 of 8",
    ]
    assert run.finished and contents(stopped) == contents(whole)


def test_the_file_put_back_all_is_well(stopped, whole):
    listed = stopped / "seed-0" / "checkpoints.json"
    kept = listed.read_bytes()
    listed.unlink()
    refused(stopped)
    listed.write_bytes(kept)
    go_on(stopped)
    assert contents(stopped) == contents(whole)


@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_a_state_that_cannot_be_read_is_not_listed_again(stopped, whole, how):
    (stopped / "seed-0" / "checkpoints.json").unlink()
    spoil(stopped / "seed-0" / "resume-00000006.safetensors", how)
    assert "add --earlier to go on from resume-00000004.safetensors as it is" in refused(stopped)
    _, said = go_on(stopped, earlier=True)
    assert said[-1] == f"continuing {stopped} from step 4 of 8" and contents(stopped) == contents(whole)


def test_weights_alone_are_kept_until_a_fresh_start_is_asked_for(stopped, whole):
    for path in [stopped / "seed-0" / "checkpoints.json", *stopped.glob("seed-0/resume-*")]:
        path.unlink()
    assert refused(stopped).endswith("put that file back, or add --earlier to start over")
    go_on(stopped, earlier=True)
    assert contents(stopped) == contents(whole)


def test_one_seed_s_list_of_several(tmp_path):
    recipe = RECIPE.with_options(seeds=(0, 1))
    train(recipe=recipe, out=tmp_path / "whole", device="cpu")
    run = shutil.copytree(tmp_path / "whole", tmp_path / "run")
    (run / "seed-1" / "checkpoints.json").unlink()
    assert refused(run, recipe=recipe).startswith(f"{run}/seed-1: holds resume-00000008.safetensors")
    _, said = go_on(run, recipe, earlier=True)
    assert said[-1] == f"{run} is finished (8 steps); nothing to do"
    assert contents(run) == contents(tmp_path / "whole")


def test_a_list_that_is_damaged_may_be_removed_and_made_again(stopped, whole):
    listed = stopped / "seed-0" / "checkpoints.json"
    for content in ("", "[]"):
        listed.write_text(content)
        assert refused(stopped).endswith("; remove it, and --earlier makes it again from the files beside it")
    listed.unlink()
    go_on(stopped, earlier=True)
    assert contents(stopped) == contents(whole)


def test_another_recipe_is_refused_before_anything_is_listed_again(stopped):
    (stopped / "seed-0" / "checkpoints.json").unlink()
    with pytest.raises(InputError, match="holds a run with steps = 8, not 9; give the same options"):
        go_on(stopped, RECIPE.with_options(steps=9), earlier=True)
    assert not (stopped / "seed-0" / "checkpoints.json").exists()


# --- what a kill may leave
@pytest.mark.parametrize("recipe", [RECIPE, LATE], ids=["soon", "late"])
def test_no_kill_leaves_weights_without_a_list(zygote, tmp_path, recipe):
    """Not even before the first list: what is left is never taken for a loss."""
    counts = zygote.train(recipe, tmp_path / "whole")["counts"]
    for event in ("torn", "renamed"):
        for at in range(2, counts[event] + 1):
            folder = tmp_path / f"{event}-{at}"
            assert zygote.train(recipe, folder, fault=(event, at))["killed"]
            assert not lost_list(RunFolder(folder).seed(0), recipe), f"after a kill at {event} {at}"


def test_metrics_before_the_first_save_are_a_kill_s_and_later_ones_are_not(tmp_path):
    go_on(tmp_path, LATE)
    for path in [tmp_path / "seed-0" / "checkpoints.json", *tmp_path.glob("seed-0/*.safetensors")]:
        path.unlink()
    metrics = tmp_path / "seed-0" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)  # 0, 3, 6, 8
    line = refused(tmp_path, recipe=LATE)
    assert line.startswith(f"{tmp_path}/seed-0: holds the metrics of step 8 but no checkpoints.json")
    assert line.endswith("or add --earlier to start over")
    metrics.write_text("".join(lines[:3]))
    run, said = go_on(tmp_path, LATE)
    assert said == [f"continuing {tmp_path} from step 0 of 8"] and run.finished
