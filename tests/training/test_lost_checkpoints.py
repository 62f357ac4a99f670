"""A list of checkpoints that is lost: what was trained is not written over; asked to, training goes on from it."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from hashlib import md5
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.training.cases import contents, spoil, tiny
from tests.training.zygote import Zygote
from windtunnel.errors import InputError
from windtunnel.training import Recipe, load, train
from windtunnel.training.files import stored_metadata, stored_step, write_tensors
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import EARLIER, lost_list
from windtunnel.tunnels import Urn

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
        f"{stopped}/seed-0: holds resume-00000006.safetensors and 3 more but no checkpoints.json, which lists what is "
        "saved, with checksums: restore that file, or `windtunnel train … --earlier` (in Python train(…, "
        "earlier=True)) resumes from resume-00000006.safetensors as it is, without any checksum to verify it"
    )
    run, said = go_on(stopped, earlier=True)
    assert said == [
        "seed 0: its list of checkpoints was lost, and is rebuilt from the files",
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
    assert "earlier=True)) resumes from resume-00000004.safetensors as it is" in refused(stopped)
    _, said = go_on(stopped, earlier=True)
    assert said[-1] == f"continuing {stopped} from step 4 of 8" and contents(stopped) == contents(whole)


def test_weights_alone_are_kept_until_a_fresh_start_is_asked_for(stopped, whole):
    for path in [stopped / "seed-0" / "checkpoints.json", *stopped.glob("seed-0/resume-*")]:
        path.unlink()
    lost = "starts over, as there is no state to resume from: all weights and metrics here would be overwritten"
    assert refused(stopped).endswith(f"restore that file, or {EARLIER} {lost}")
    _, said = go_on(stopped, earlier=True)
    assert said == [
        "seed 0: its list of checkpoints was lost, and there is no state to resume from: it starts over",
        f"continuing {stopped} from step 0 of 8",
    ]
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
        assert refused(stopped).endswith(f"; remove it, and {EARLIER} rebuilds it from the files next to it")
    listed.unlink()
    go_on(stopped, earlier=True)
    assert contents(stopped) == contents(whole)


def test_a_list_that_merely_cannot_be_read_is_not_to_be_removed(stopped, monkeypatch):
    listed = stopped / "seed-0" / "checkpoints.json"
    kept, read = listed.read_bytes(), Path.read_text

    def broken_disk(path, *rest):
        if path == listed:
            raise OSError(errno.EIO, "Input/output error")
        return read(path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", broken_disk)
        assert refused(stopped) == f"{listed}: cannot be read (Input/output error)"
    assert listed.read_bytes() == kept
    listed.unlink()
    listed.mkdir()
    assert refused(stopped) == f"{listed}: cannot be read (Is a directory)"


# --- whose a file is
def test_every_file_of_weights_says_whose_it_is_and_equal_runs_are_equal(whole, tmp_path):
    """Whatever else is trained beside it, and though it was stopped once."""
    recipe = RECIPE.with_options(seeds=(1, 0), name="another name")
    for minutes in (1e-9, None):  # the first time a state of step 0
        go_on(tmp_path, recipe, max_minutes=minutes)
        saved = [*tmp_path.glob("seed-*/step-*"), *tmp_path.glob("seed-*/resume-*")]
        for path in saved:
            step, seed = int(path.stem.rpartition("-")[2]), path.parent.name[5:]
            assert stored_metadata(path) == {"step": str(step), "seed": seed, "recipe": RECIPE.digest()}
    assert len(saved) == 10
    mine = {name: content for name, content in contents(tmp_path).items() if name.startswith("seed-0/")}
    assert mine == {name: content for name, content in contents(whole).items() if name.startswith("seed-0/")}


def test_equal_recipes_have_one_digest_and_others_another():
    assert RECIPE.with_options(lr=1).digest() == RECIPE.with_options(lr=1.0).digest()
    assert Recipe.from_dict(json.loads(json.dumps(RECIPE.to_dict()))).digest() == RECIPE.digest()
    others = [{"lr": 0.5}, {"steps": 9}, {"tunnel": Urn(symbols=4, length=4)}, {"model_options": {"depth": 1}}]
    assert len({RECIPE.with_options(**other).digest() for other in [{}, *others]}) == 5


@pytest.mark.parametrize("whose", ["recipe", "seed"])
def test_a_state_of_another_recipe_or_seed_is_put_aside(stopped, whole, tmp_path, whose):
    other = RECIPE.with_options(lr=0.5) if whose == "recipe" else RECIPE.with_options(seeds=(1,))
    train(recipe=other, out=tmp_path / "other", device="cpu")
    stranger = tmp_path / "other" / f"seed-{other.seeds[0]}" / "resume-00000008.safetensors"
    shutil.copy(stranger, stopped / "seed-0")
    (stopped / "seed-0" / "checkpoints.json").unlink()
    line = refused(stopped)
    assert "holds resume-00000008.safetensors and 4 more (1 of another recipe or seed) but no" in line
    assert "resumes from resume-00000006.safetensors as it is" in line
    _, said = go_on(stopped, earlier=True)
    (aside,) = stopped.glob("seed-0/resume-00000008.safetensors.other-*")
    assert said == [
        f"seed 0: a file of another recipe or seed is set aside as {aside.name}",
        "seed 0: its list of checkpoints was lost, and is rebuilt from the files",
        f"continuing {stopped} from step 6 of 8",
    ]
    assert aside.read_bytes() == stranger.read_bytes()
    aside.unlink()
    assert contents(stopped) == contents(whole)


def test_files_from_before_they_said_so_are_taken(stopped):
    for path in stopped.glob("seed-0/*.safetensors"):
        write_tensors(path, load_file(path), {"step": str(stored_step(path))})
    (stopped / "seed-0" / "checkpoints.json").unlink()
    run, said = go_on(stopped, earlier=True)
    assert said[-1] == f"continuing {stopped} from step 6 of 8" and run.finished and run.ladder() == [1, 3, 8]


def test_to_tell_of_a_loss_no_file_is_read_to_its_end(stopped, monkeypatch):
    (stopped / "seed-0" / "checkpoints.json").unlink()
    monkeypatch.setattr(hashlib, "sha256", lambda content: pytest.fail("it was") if len(content) > 9999 else md5())
    assert lost_list(RunFolder(stopped).seed(0), RECIPE)


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


def test_a_reader_is_not_alarmed_by_a_training_that_begins(stopped, monkeypatch):
    """It finds no list; then list and weights are written; then it looks for weights."""
    listed = stopped / "seed-0" / "checkpoints.json"
    kept, glob = listed.read_bytes(), Path.glob
    listed.unlink()

    def meanwhile(path, pattern):
        listed.write_bytes(kept)
        return glob(path, pattern)

    monkeypatch.setattr(Path, "glob", meanwhile)
    assert not lost_list(RunFolder(stopped).seed(0), RECIPE)


@pytest.mark.parametrize("left", ["step-00000003", "resume-00000006", "step-00000008"])
@pytest.mark.parametrize("recipe", [RECIPE, LATE, LATE.with_options(checkpoint_every=8)], ids=["soon", "late", "last"])
def test_any_other_file_alone_is_not_written_over_unasked(tmp_path, whole, recipe, left):
    """Not the last weights of all, even where nothing was saved before; nor a state to go on from."""
    RunFolder(tmp_path).create(recipe, RunFolder(whole).spec())
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / f"{left}.safetensors").write_bytes(b"precious")
    assert f"holds {left}.safetensors but no checkpoints.json" in refused(tmp_path, recipe=recipe)


def test_metrics_before_the_first_save_are_a_kill_s_and_later_ones_are_not(tmp_path):
    go_on(tmp_path, LATE)
    for path in [tmp_path / "seed-0" / "checkpoints.json", *tmp_path.glob("seed-0/*.safetensors")]:
        path.unlink()
    metrics = tmp_path / "seed-0" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)  # 0, 3, 6, 8
    line = refused(tmp_path, recipe=LATE)
    assert line.startswith(f"{tmp_path}/seed-0: holds the metrics of step 8 but no checkpoints.json")
    assert "starts over, as there is no state to resume from" in line
    metrics.write_text("".join(lines[:3]))
    run, said = go_on(tmp_path, LATE)
    assert said == [f"continuing {tmp_path} from step 0 of 8"] and run.finished
