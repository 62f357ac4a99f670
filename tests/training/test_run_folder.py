"""What makes a folder a run: its format, where it was made, which seeds train together; and no pickle in it."""

from __future__ import annotations

import json

import pytest

from tests.training.cases import contents, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.folder import FORMAT, RunFolder

RECIPE = tiny(steps=8, validation_episodes=4)


def go_on(folder, **options):
    return train(recipe=RECIPE, out=folder, device="cpu", **options)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"format": 2, "windtunnel": "9.9"}, f"format = 2, made by windtunnel 9.9: must be format {FORMAT}"),
        ({}, "format = None, made by windtunnel unknown"),
        ([], "format = None, made by windtunnel unknown"),
        ({"format": FORMAT}, "recipe: must have the fields"),
        ({"format": FORMAT, "recipe": {"steps": 3}}, "recipe: must have the fields"),
    ],
)
def test_a_folder_of_another_format_is_refused_and_left_as_it_is(tmp_path, record, told):
    (tmp_path / "recipe.json").write_text(json.dumps(record))
    for attempt in (lambda: load(tmp_path), lambda: go_on(tmp_path)):
        with pytest.raises(InputError) as error:
            attempt()
        assert told in str(error.value) and "\n" not in str(error.value)
    assert contents(tmp_path) == {"recipe.json": json.dumps(record).encode()}


def test_a_damaged_recipe_is_told_in_one_line(tmp_path):
    (tmp_path / "recipe.json").write_text('{"format": 1, "rec')
    with pytest.raises(InputError, match=r"recipe\.json: must be JSON, but is damaged"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "why"), [("", r"\(it has no recipe\.json\)"), ("nowhere", "but there is no such folder")]
)
def test_a_folder_without_a_run_is_told_in_one_line(tmp_path, name, why):
    with pytest.raises(InputError, match=rf"must be a run folder,? {why}"):
        load(tmp_path / name)


def test_a_folder_with_other_things_in_it_keeps_them(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    go_on(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_every_sitting_s_environment_is_remembered_once(tmp_path):
    folder = RunFolder(tmp_path)
    for environment in ({"device": "a"}, {"device": "b"}, {"device": "a"}):
        folder.add_environment(environment)
    assert json.loads((tmp_path / "environment.json").read_text()) == [{"device": "a"}, {"device": "b"}]


def test_a_run_tells_where_it_was_made(tmp_path):
    go_on(tmp_path)
    (record,) = json.loads((tmp_path / "environment.json").read_text())
    assert record["versions"]["torch"] and record["device"] and "commit" in record
    stored = json.loads((tmp_path / "recipe.json").read_text())
    assert stored["format"] == FORMAT and stored["model"]["name"] == "transformer"


def test_no_pickle_is_in_a_run(tmp_path):
    go_on(tmp_path)
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds == {"", ".json", ".jsonl", ".safetensors"}  # "": the lock
