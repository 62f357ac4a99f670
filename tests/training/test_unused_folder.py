"""A start that failed leaves the folder free for another recipe; where a step was trained nothing is ever cleared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.training.cases import contents, tiny
from tests.training.zygote import Zygote
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.recipe_differences import differences
from windtunnel.training.unused_folder import clear, untrained
from windtunnel.tunnels import Bijection, Urn

WRONG = tiny(batch=16, seeds=(0, 5))
RIGHT = tiny()


def go_on(folder, recipe=RIGHT, **options):
    said = []
    run = train(recipe=recipe, out=folder, device="cpu", say=said.append, **options)
    return run, said


def files(folder) -> dict[str, bytes]:
    """All but the lock, which every attempt writes."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(recipe=RIGHT, out=folder, device="cpu")
    return contents(folder)


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """A start that runs out of memory in its first step, after the score of step 0."""

    def too_much(network):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Network, "advance", too_much)
        with pytest.raises(MemoryError):
            train(recipe=WRONG, out=tmp_path, device="cpu")
    assert [record["step"] for record in RunFolder(tmp_path).seed(0).metrics()] == [0]
    return tmp_path


def test_a_failed_start_does_not_keep_the_folder_from_another_recipe(failed, expected):
    run, said = go_on(failed)
    differs = "batch = 16, not 8, and seeds = (0, 5), not (0,)"
    assert said == [f"{failed} was started with {differs}, but no step was trained: starting over"]
    assert run.finished and contents(failed) == expected
    assert len(json.loads((failed / "environment.json").read_text())) == 1
    assert all(record["seeds"] == [0] for record in run.folder.timings())


def test_the_shape_of_the_network_is_the_new_recipe_s(failed):
    run, _ = go_on(failed, tiny(variant="mlp-full"))
    assert run.folder.spec()["name"] == "mlp" and len(load(failed).models) == 1


def test_a_training_stopped_before_its_first_step_is_as_free(tmp_path, expected):
    run, _ = go_on(tmp_path, WRONG, max_minutes=1e-9)
    assert (tmp_path / "seed-0" / "resume-00000000.safetensors").exists() and run.steps == 0
    go_on(tmp_path)
    assert contents(tmp_path) == expected


def test_what_somebody_else_keeps_in_the_folder_stays(failed):
    (failed / "notes.txt").write_text("mine")
    (failed / "seed-0" / "notes.txt").write_text("mine too")
    go_on(failed, RIGHT.with_options(seeds=(3,)))
    assert (failed / "notes.txt").read_text() == "mine"
    assert [path.name for path in (failed / "seed-0").iterdir()] == ["notes.txt"]


def test_a_recipe_that_cannot_be_trained_changes_nothing(failed):
    before = files(failed)
    for recipe in (RIGHT.with_options(model="nope"), RIGHT.with_options(model_options={"width": -1})):
        with pytest.raises(InputError):
            go_on(failed, recipe)
    assert files(failed) == before


SIGNS = {
    "weights": "step-00000001.safetensors",
    "state": "resume-00000004.safetensors",
    "metrics": "metrics.jsonl",
    "list": "checkpoints.json",
}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_step_that_was_trained_is_never_cleared(tmp_path, sign):
    """Each sign of it alone is enough, also of a seed that the other recipe has not."""
    go_on(tmp_path, WRONG)
    for path in [*tmp_path.glob("seed-*/*"), tmp_path / "timings.jsonl"]:
        if path != tmp_path / "seed-5" / SIGNS[sign]:
            path.unlink()
    before = files(tmp_path)
    assert not untrained(RunFolder(tmp_path))
    with pytest.raises(InputError, match="holds a run with batch = 16, not 8, and seeds"):
        go_on(tmp_path)
    with pytest.raises(InputError, match="must hold no trained step"):
        clear(RunFolder(tmp_path))
    assert files(tmp_path) == before and str(tmp_path / "seed-5" / SIGNS[sign]) in before


@pytest.mark.parametrize("sign", ["timings.jsonl", "survey.json", "exhibits/own.json"])
def test_a_run_whose_weights_were_moved_away_is_not_started_over(tmp_path, sign):
    """Nothing of the seeds is left, but each of these tells that they were trained."""
    go_on(tmp_path, WRONG)
    for name in ("survey.json", "exhibits/own.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    for path in tmp_path.glob("seed-*"):
        shutil.rmtree(path)
    for name in {"timings.jsonl", "survey.json", "exhibits/own.json"} - {sign}:
        (tmp_path / name).unlink()
    if not sign.startswith("exhibits"):
        (tmp_path / "exhibits").rmdir()
    before = files(tmp_path)
    with pytest.raises(InputError, match="holds a run with batch = 16, not 8, and seeds"):
        go_on(tmp_path)
    assert files(tmp_path) == before and str(tmp_path / sign) in before
    (tmp_path / sign).unlink()
    if sign.startswith("exhibits"):
        (tmp_path / "exhibits").rmdir()
    assert untrained(RunFolder(tmp_path))


def test_a_kill_at_any_moment_of_starting_over_leaves_a_folder_for_either(tmp_path, expected):
    """At every write, rename and removal until the first step; then either recipe may have it."""
    stood = tiny(seeds=(0, 5), lr=1e-4)
    with Zygote() as process:
        wholes = {}
        for name, recipe in (("right", RIGHT), ("stood", stood)):
            assert process.train(recipe, tmp_path / name)["error"] is None
            wholes[name] = contents(tmp_path / name)
        assert wholes["right"] == expected
        for event in ("torn", "synced", "renamed", "unlink"):
            for at in range(1, 6 if event == "unlink" else 8):
                for name, recipe in (("right", RIGHT), ("stood", stood)):
                    folder: Path = tmp_path / f"{event}-{at}-{name}"
                    go_on(folder, stood, max_minutes=1e-9)
                    assert process.train(RIGHT, folder, fault=(event, at))["killed"]
                    if not untrained(RunFolder(folder)):
                        continue
                    reply = process.train(recipe, folder)
                    assert reply["error"] is None, f"{name} after a kill at {event} {at}: {reply['error']}"
                    assert contents(folder) == wholes[name], f"{name} after a kill at {event} {at}"


SHAPE = RIGHT.model_options
MANY = {"lr": 0.01, "batch": 4, "steps": 7, "warmup": 1, "ladder": 0}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"tunnel": Bijection(symbols=4, length=3)}, "length = 4, not 3"),
        ({"tunnel": Urn(symbols=4, length=4)}, "tunnel = 'bijection', not 'urn'"),
        ({"model_options": {"depth": 2, "width": 16}}, "heads = 2, not left out"),
        ({"model_options": SHAPE | {"positions": "rope"}}, "no positions, not 'rope'"),
        ({"lr": 0.01, "batch": 4}, "batch = 8, not 4, and lr = 0.003, not 0.01"),
        ({"steps": 1, "warmup": 0}, "steps = 6, not 1"),  # the warm-up of 2 was shortened to fit
        ({"steps": 1, "warmup": 1}, "steps = 6, not 1, and warmup = 2, not 1"),
        (MANY, "batch = 8, not 4, steps = 6, not 7, ladder = 3, not 0, and 2 more"),
    ],
)
def test_what_differs_is_told_and_no_more(other, told):
    assert differences(RIGHT, RIGHT.with_options(**other)) == told
    assert differences(RIGHT, RIGHT.with_options()) == ""


def test_the_refusal_says_so(tmp_path):
    go_on(tmp_path)
    with pytest.raises(InputError) as error:
        go_on(tmp_path, RIGHT.with_options(tunnel=Bijection(symbols=5, length=4)))
    told = "holds a run with symbols = 4, not 5; give the same options to continue it, or another folder"
    assert str(error.value) == f"{tmp_path}: {told}"
