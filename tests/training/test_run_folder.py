"""What makes a folder a run: its format, where it was made, which seeds train together; and no pickle in it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.training.cases import contents, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.folder import FORMAT, RunFolder
from windtunnel.training.network import Network

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


class TestGroups:
    def place(self, tmp_path, steps: dict[int, list[int]]):
        from windtunnel.training.sitting import Sitting
        from windtunnel.training.trackers import Silent

        recipe = tiny(seeds=tuple(steps), steps=9)
        folder = RunFolder(tmp_path)
        networks = [Network(recipe, seed, "cpu") for seed in steps]
        folder.create(recipe, None)
        for network in networks:
            for step in range(1, 9):
                network.advance()
                if step in steps[network.seed]:
                    folder.seed(network.seed).save_state(step, network.state())
        fresh = [Network(recipe, seed, "cpu") for seed in steps]
        return Sitting(recipe, None, "cpu", Silent(), lambda line: None, None, False), fresh, folder

    def test_seeds_at_one_step_advance_together_and_none_goes_back(self, tmp_path, monkeypatch):
        sitting, _, folder = self.place(tmp_path, {0: [2, 4], 1: [2], 2: [], 3: [2, 4]})
        sitting.device = "cuda"  # only the grouping is asked for
        assert sitting._groups(folder) == [(0, 3), (1,), (2,)]

    def test_resuming_one_group_leaves_the_others_alone(self, tmp_path):
        sitting, networks, folder = self.place(tmp_path, {0: [2, 4], 1: [], 2: [2, 4]})
        assert sitting._resume([networks[0], networks[2]], folder) == 4
        assert [int(network.step) for network in networks] == [4, 0, 4]
        assert sitting._resume([networks[1]], folder) == -1
        assert folder.seed(0).last_step() == folder.seed(2).last_step() == 4

    def test_a_finished_seed_is_in_no_group(self, tmp_path):
        sitting, _, folder = self.place(tmp_path, {0: [4, 8], 1: [4]})
        sitting.device, sitting.recipe = "cuda", replace(sitting.recipe, steps=8)
        assert sitting._groups(folder) == [(1,)]
