"""The survey of a run: what it holds, how it is kept, and that no failure or kill spoils it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.training.cases import tiny
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism import Survey, inspect, load_survey, save_survey, shifted_prior
from windtunnel.mechanism.inspect import settings_of
from windtunnel.mechanism.survey import INSTRUMENTS, NAMES, Entry
from windtunnel.training import Run, load, train
from windtunnel.tunnels import HMM, Bijection
from windtunnel.tunnels.random import MASK

FEW = ["lens", "keys", "ablate", "dynamics"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    path: Path = tmp_path_factory.mktemp("runs") / "run"
    return train(recipe=tiny(Bijection(symbols=4, length=4), steps=6, ladder=4, seeds=(0, 1)), out=path, device="cpu")


@pytest.fixture(scope="module")
def survey(run) -> Survey:
    return inspect(run, only=FEW, episodes=8, untrained=2)


def test_every_seed_is_measured_by_every_instrument_in_both_rooms(run, survey):
    found = {(entry.instrument, entry.seed) for entry, _ in survey.measurements()}
    assert found == {(name, seed) for name in FEW[:3] for seed in (0, 1)} | {("dynamics", None)}
    assert repr(survey).startswith("<Survey of ") and len(repr(survey)) < 200 and "by 4 instruments" in repr(survey)
    assert repr(run).startswith("<Run of ") and f"of {run.recipe.steps}" in repr(run)
    assert survey.missing == [] and survey.settings["instruments"] == ["keys", "lens", "ablate", "dynamics"]
    assert set(survey.seconds) == {f"{name}, seed {s}" for name in FEW[:3] for s in (0, 1)} | {"dynamics"}
    assert survey.environment["versions"]["torch"] and survey.settings["recipe"] == run.recipe.to_dict()
    assert {*NAMES} >= {"keys", "clusters", "heads", "shift", "dynamics"} and len(set(NAMES)) == len(NAMES)


def test_a_survey_is_a_table_with_a_row_for_every_measurement(survey):
    rows, pairs = survey.rows(), list(survey.measurements())
    assert len(rows) == len(pairs)
    for row, (entry, found) in zip(rows, pairs, strict=True):
        assert (row["instrument"], row["seed"], row["name"]) == (entry.instrument, entry.seed, found.name)
        assert {k.removeprefix("where_"): v for k, v in row.items() if k.startswith("where_")} == dict(found.where)
        assert np.array_equal([row[p] for p in ("value", "low", "high")], [found.value, found.low, found.high], True)
        assert row["p_value"] == found.p_value and (row["null"] is None) == (found.strongest_null is None)
        assert not any(isinstance(value, dict | list | np.ndarray) for k, value in row.items() if "where" not in k)


def test_progress_is_told_before_each_instrument(run):
    told: list[tuple[str, int, int]] = []
    inspect(run, only="lens", episodes=4, untrained=1, progress=lambda *stage: told.append(stage))
    assert told == [("lens, seed 0", 0, 2), ("lens, seed 1", 1, 2)]


def test_the_seed_of_a_survey_reaches_the_episodes_of_other_worlds():
    """Longer sequences and shifted priors are drawn from the next seed, whatever the seed is."""
    tunnel = HMM(states=3, symbols=3, length=4)
    model = models.build("lstm", tunnel, depth=2, width=8, seed=0)
    found: dict[int, dict] = {}
    for seed in (0, 7, MASK):
        readings = inspect(model, tunnel, only=["late", "shift"], episodes=4, seed=seed, untrained=0).measurements()
        found[seed] = {str((m.name, dict(m.where))): m.value for _, m in readings}
    assert len(found[0]) > 10
    assert all(len({values[place] for values in found.values()}) == 3 for place in found[0])
    there = shifted_prior(model, tunnel, tunnel.sample(4, seed=7, stream="test"), [], seed=8)
    assert [found[7][str((m.name, dict(m.where)))] for m in there if isinstance(m, Measurement)] == [
        m.value for m in there if isinstance(m, Measurement)
    ]


def test_what_was_saved_comes_back(survey, tmp_path):
    path = save_survey(survey, tmp_path)
    again = load_survey(tmp_path)
    assert path == tmp_path / "survey.json" and load_survey(path).seconds == survey.seconds == again.seconds
    assert [again.settings, again.environment] == json.loads(json.dumps([survey.settings, survey.environment]))
    assert len(again.entries) == len(survey.entries)
    for old, new in zip(survey.entries, again.entries):
        assert (old.instrument, old.seed) == (new.instrument, new.seed)
        assert isinstance(old.found, Measurement) and isinstance(new.found, Measurement)
        assert json.dumps(old.found.to_dict()) == json.dumps(new.found.to_dict())
        assert set(old.found.arrays) == set(new.found.arrays)
        for name, array in old.found.arrays.items():
            if np.asarray(array).dtype.kind in "biuf":
                np.testing.assert_array_equal(array, new.found.arrays[name])
            else:
                assert [str(word) for word in array] == new.found.arrays[name].tolist()


def test_a_refusal_and_a_failure_are_one_line_each_and_the_rest_runs(run, monkeypatch, tmp_path):
    def unlucky(*arguments):
        raise RuntimeError("out of luck\nsecond line")

    monkeypatch.setitem(INSTRUMENTS, "heads", unlucky)
    found = inspect(run, only=["heads", "clusters", "lens"], episodes=4, untrained=1)
    place = f"test_inspect.py:{unlucky.__code__.co_firstlineno + 1}"
    missing = dict(found.missing)
    assert missing["heads"] == f"failed: RuntimeError in {place}: out of luck" and found.broken == ["heads"]
    assert "no hidden states" in missing["clusters"]
    assert len(found.missing) == len(missing)  # one line, although both seeds say it
    assert {entry.instrument for entry, _ in found.measurements()} == {"lens"}
    save_survey(found, tmp_path)
    again = load_survey(tmp_path)
    assert again.missing == found.missing
    broken = {entry.instrument for entry in again.entries if isinstance(entry.found, Missing) and entry.found.broken}
    assert broken == {"heads"}  # a refusal is none


def test_what_broke_in_part_is_tried_again(run, survey):
    broke = [*survey.entries, Entry("ablate", 1, Missing("ablate, later", "sorry", broken=True))]
    told: list[str] = []
    again = inspect(
        run,
        only=FEW,
        episodes=8,
        untrained=2,
        earlier=Survey(survey.settings, broke, survey.seconds),
        progress=lambda name, *_: told.append(name),
    )
    assert told == ["ablate, seed 1"] and again.missing == []
    assert len(again.entries) == len(survey.entries)


def test_a_seed_without_numbers_does_not_stop_the_others(run):
    class Broken(Run):
        def model(self, seed, step=None):
            network = super().model(seed, step)
            if seed in lost:
                next(network.parameters()).data.fill_(float("nan"))
            return network

    lost = {0}
    found = inspect(Broken(run.recipe, path=run.path), only="keys", episodes=8, untrained=1)
    assert {entry.seed for entry, _ in found.measurements()} == {1}
    assert [e.seed for e in found.entries if isinstance(e.found, Missing)] == [0] and "diverged" in dict(found.missing)[
        "keys"
    ]
    lost.add(1)
    with pytest.raises(InputError, match="returned NaN"):
        inspect(Broken(run.recipe, path=run.path), only="keys", episodes=8, untrained=1)


def test_a_survey_written_before_it_said_what_broke_is_still_read(tmp_path):
    path = save_survey(small(1.0), tmp_path)
    assert '"broken"' not in path.read_text()  # said of accidents alone, so that older files have the same form
    assert Missing("heads", "none") in [entry.found for entry in load_survey(path).entries]


def test_the_part_of_some_instruments_keeps_their_seconds(survey):
    part = survey.of(["keys", "dynamics"])
    assert set(part.seconds) == {"keys, seed 0", "keys, seed 1", "dynamics"} and "by 2 instruments" in repr(part)


def test_a_run_without_a_ladder_has_no_dynamics_but_all_else(tmp_path):
    bare = train(recipe=tiny(steps=2, ladder=0), out=tmp_path / "bare", device="cpu")
    found = inspect(bare, only=["lens", "dynamics"], episodes=4, untrained=1)
    assert "at least 3" in dict(found.missing)["dynamics"] and list(found.measurements("lens"))


def test_a_survey_knows_the_weights_it_is_of(run, survey):
    listed = [json.loads((run.path / f"seed-{seed}" / "checkpoints.json").read_text())["ladder"] for seed in (0, 1)]
    assert survey.settings["weights"] == [rungs[-1]["sha256"] for rungs in listed] == run.checksums()
    settings = settings_of(run, episodes=8, untrained=2)
    assert survey.differences(settings) == []
    assert survey.differences(settings | {"weights": ["", ""]}) == ["weights"]
    older = Survey({name: value for name, value in survey.settings.items() if name != "weights"})
    assert older.differences(settings) == ["weights"]
    early = load(run.path, step=run.ladder()[0])
    assert survey.differences(settings_of(early, episodes=8, untrained=2)) == ["weights"]


def test_of_a_run_in_memory_nobody_knows_the_checksum():
    memory = train(recipe=tiny(steps=2), device="cpu")
    settings = settings_of(memory)
    assert memory.checksums() == [] and "weights" not in settings
    assert Survey(settings).differences(settings) == []


def test_bad_input_is_refused_before_anything_is_measured(run, monkeypatch):
    monkeypatch.setitem(INSTRUMENTS, "lens", lambda *_: pytest.fail("it was measured"))
    for names in (["lens", "cluster"], ["cluster", "lens"], "cluster"):
        with pytest.raises(InputError, match=r"^only = 'cluster' \(did you mean clusters\?\): must be one of keys, "):
            inspect(run, only=names)
    with pytest.raises(InputError, match=r"^only = '': must name at least one of keys, "):
        inspect(run, only=[])
    with pytest.raises(InputError, match="episodes = 1"):
        inspect(run, episodes=1)
    with pytest.raises(InputError, match="tunnel = 'hmm': must be a tunnel"):
        inspect(run, "hmm")


def small(value: float) -> Survey:
    found = Measurement("x", value, 0.0, 2.0, "sequences", note="no null", arrays={"curve": np.array([value])})
    return Survey({"instruments": []}, [Entry("keys", 0, found), Entry("heads", 0, Missing("heads", "none"))])


def test_a_new_survey_replaces_the_old_one_and_its_arrays(tmp_path):
    for value in (1.0, 2.0):
        save_survey(small(value), tmp_path)
        assert [found.value for _, found in load_survey(tmp_path).measurements()] == [value]
        assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("when", ["arrays", "json"])
def test_a_kill_while_writing_leaves_the_old_survey(when, tmp_path, monkeypatch):
    from windtunnel.mechanism import survey_file

    save_survey(small(1.0), tmp_path)

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(survey_file, "write_tensors" if when == "arrays" else "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        save_survey(small(2.0), tmp_path)
    ((_, found),) = load_survey(tmp_path).measurements()
    assert found.value == 1.0 and found.arrays["curve"].tolist() == [1.0]


def test_a_damaged_survey_is_told_in_one_line(tmp_path):
    with pytest.raises(InputError, match="there is no survey here"):
        load_survey(tmp_path)
    path = save_survey(small(1.0), tmp_path)
    whole = path.read_text()
    for text, told in (
        (whole[:50], "must be JSON"),
        (whole.replace('"format": 1', '"format": 9', 1), "format = 9: must be format 1"),
        (whole.replace('"nulls"', '"nils"', 1), "must have the fields of a survey"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=told):
            load_survey(tmp_path)
    path.write_text(whole)
    (arrays,) = tmp_path.glob("*.safetensors")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(InputError, match="truncated or altered"):
        load_survey(tmp_path)
