"""What is kept is what the plan means; accidents cost one seed or one reading; a time limit binds every part."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import pytest

from tests.study.micro import micro
from windtunnel.errors import InputError
from windtunnel.geometry import Missing
from windtunnel.study import reproduce
from windtunnel.study.__main__ import main
from windtunnel.study.folder.discard import discard
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Condition, Plan
from windtunnel.study.running import rate, surveying
from windtunnel.study.running.pause import OutOfTime
from windtunnel.study.running.rate import Rate, planned
from windtunnel.study.running.sitting import Sitting
from windtunnel.training import Diverged, load
from windtunnel.training.run_folders import run_folders
from windtunnel.training.sitting import Sitting as TrainingSitting
from windtunnel.tunnels import Urn


def only(name: str, **changes) -> Plan:
    """The micro study with one of its cells, changed."""
    plan = micro(surveys=True)
    (cell,) = [cell for cell in plan.cells if cell.name == name]
    world = plan.world(cell.world)
    return replace(plan, cells=(replace(cell, **changes),), worlds=(world,))


@pytest.fixture(scope="module")
def lstm(tmp_path_factory) -> StudyFolder:
    return reproduce(out=tmp_path_factory.mktemp("lstm"), plan=only("small-urn-lstm"), device="cpu")


# --- fingerprints
def test_another_plan_is_refused_whatever_is_kept(lstm):
    plan = only("small-urn-lstm")
    (cell,), (world,) = plan.cells, plan.worlds
    longer = Condition("home", {"length": 5})
    changed = {
        "episodes": (replace(plan, episodes=65), "references.json: was made with another episodes"),
        "condition": (replace(plan, worlds=(replace(world, conditions=(longer,)),)), "another conditions"),
        "survey": (replace(plan, untrained=3), "lstm.json: was made with another survey"),
        "overlap": (replace(plan, cells=(replace(cell, overlap=False),)), "another overlap"),
        "world": (replace(plan, worlds=(replace(world, tunnel=Urn(symbols=3, length=5)),)), "another world"),
    }
    for other, message in changed.values():
        with pytest.raises(InputError, match=message):
            reproduce(out=lstm.path, plan=other, device="cpu")


def test_a_sweep_of_another_tunnel_is_refused(lstm, tmp_path):
    plan = only("small-urn-lstm")
    tunnel = Urn(symbols=3, length=5)
    (cell,), (world,) = plan.cells, plan.worlds
    other = replace(cell, recipe=cell.recipe.with_options(tunnel=tunnel))
    (tmp_path / "sweeps").mkdir()
    kept = (lstm.path / "sweeps" / "small-urn-lstm.json").read_text()
    (tmp_path / "sweeps" / "small-urn-lstm.json").write_text(kept)
    plan = replace(plan, cells=(other,), worlds=(replace(world, tunnel=tunnel),))
    with pytest.raises(InputError, match=r"sweeps/small-urn-lstm\.json: was made with length = 4, not 5"):
        reproduce(out=tmp_path, plan=plan, device="cpu")


def test_a_draft_of_another_plan_is_refused(tmp_path):
    plan = only("small-urn-lstm")
    study = StudyFolder(tmp_path)
    study.begin("micro")
    study.write_draft("small-urn-lstm", {"planned": {"recipe": {}}, "seconds": {}})
    with pytest.raises(InputError, match=r"small-urn-lstm\.part: was made with another recipe"):
        reproduce(out=tmp_path, plan=plan, device="cpu")


# --- accidents
def test_a_diverged_seed_keeps_the_others(tmp_path, monkeypatch):
    """Seed 1 of three breaks after seed 0 is finished: seed 0 is not trained again, and scores stay in order."""
    plan = only("small-urn-lstm", sweep=None)
    recipe = plan.cells[0].recipe.with_options(seeds=(0, 1, 2))
    plan = replace(plan, cells=(replace(plan.cells[0], recipe=recipe),))
    whole = reproduce(out=tmp_path / "whole", plan=plan, device="cpu").cell("small-urn-lstm")
    trained, real = [], TrainingSitting._advance

    def advance(self, networks, *arguments):
        trained.append(networks[0].seed)
        if networks[0].seed == 1:
            raise Diverged("seed 1: the loss was not finite", 1)
        return real(self, networks, *arguments)

    monkeypatch.setattr(TrainingSitting, "_advance", advance)
    study = reproduce(out=tmp_path / "study", plan=plan, device="cpu")
    assert trained == [0, 1, 2]
    cell = study.cell("small-urn-lstm")
    assert cell["seeds"] == [0, 1, 2] and cell["diverged"] == [1] and cell["primitive"]["diverged"] == 1
    for record in (cell["conditions"]["home"]["metrics"]["kl_bits"], cell["primitive"]):
        intact = (
            whole["primitive"] if record is cell["primitive"] else whole["conditions"]["home"]["metrics"]["kl_bits"]
        )
        assert [record["per_seed"][i] for i in (0, 2)] == [intact["per_seed"][i] for i in (0, 2)]
        assert record["per_seed"][1] != intact["per_seed"][1]
    run = load(study.path / "runs" / "small-urn-lstm")  # where an export looks
    assert run.folder.parameters() == cell["parameters"]
    assert run.recipe.seeds == (0, 2) and run.finished and set(cell["history"]) == {"0", "2"}
    zoo = str(tmp_path / "zoo")
    assert main(["--out", str(study.path), "--export", "small-urn-lstm", "--zoo", zoo]) == 0


def test_trials_outlive_the_final_seeds_but_not_the_recipe(tmp_path):
    """A cell made again on other seeds keeps its rate; with another batch it must not."""
    plan, tried = only("small-urn-lstm"), {"0": 0.5, "-1": 0.6, "1": 0.1, "2": "inf"}
    (cell,), study = plan.cells, StudyFolder(tmp_path)
    study.begin("micro")
    study.write_sweep(cell.name, {"planned": planned(plan, cell), "kl_bits": tried})

    def chosen(**changes):
        changed = replace(cell, recipe=cell.recipe.with_options(**changes))
        sitting = Sitting(replace(plan, cells=(changed,)), study, device="cpu")
        return Rate(sitting, changed).chosen()

    assert chosen(seeds=(7, 8, 9)).optimiser.lr == pytest.approx(3 * cell.recipe.optimiser.lr)
    with pytest.raises(InputError, match="was made with batch = "):
        chosen(batch=2 * cell.recipe.batch)


@pytest.mark.parametrize("breaking", [(1,), (0, 1)], ids=["one of three", "two of three"])
def test_a_rate_at_which_most_final_seeds_diverge_gives_way(tmp_path, monkeypatch, breaking):
    """The trials like 3^1 best.  One seed that breaks there counts as it is; two of three move the cell to 3^0."""
    plan = only("small-urn-lstm")
    cell = plan.cells[0]
    cell = replace(cell, recipe=cell.recipe.with_options(seeds=(0, 1, 2)))
    plan = replace(plan, cells=(cell,))
    study, own = StudyFolder(tmp_path), cell.recipe.optimiser.lr
    study.begin("micro")
    tried = {"0": 0.5, "-1": 0.6, "1": 0.1, "2": "inf"}
    study.write_sweep(cell.name, {"planned": planned(plan, cell), "kl_bits": tried})
    real = TrainingSitting._advance

    def advance(self, networks, *arguments):
        seed = networks[0].seed
        if seed in breaking and self.recipe.optimiser.lr > own:
            raise Diverged(f"seed {seed}: the loss was not finite", seed)
        return real(self, networks, *arguments)

    monkeypatch.setattr(TrainingSitting, "_advance", advance)
    found = reproduce(out=tmp_path, plan=plan, device="cpu").cell(cell.name)
    gives_way = len(breaking) == 2
    assert found["sweep"]["chosen"] == (0 if gives_way else 1) and found["sweep"]["kl_bits"] == tried
    assert found["diverged"] == ([] if gives_way else [1])
    assert found["sweep"].get("broke", {}) == ({"1": [0, 1]} if gives_way else {})
    assert found["recipe"]["optimiser"]["lr"] == pytest.approx(own * (1 if gives_way else 3))
    assert set(found["history"]) == ({"0", "1", "2"} if gives_way else {"0", "2"})
    other = StudyFolder(tmp_path / "elsewhere")
    other.take(study)  # what broke travels with the sweep
    assert other.sweep(cell.name).get("broke", {}) == found["sweep"].get("broke", {})


def test_an_instrument_that_broke_down_is_tried_again(tmp_path, monkeypatch):
    plan = only("small-hmm-transformer")
    real, broken = surveying.jobs, {"values, seed 0": "sorry"}  # whatever the words

    def jobs(*arguments):
        found = real(*arguments)
        lost = {name: [Missing("values", reason, broken=True).to_dict()] for name, reason in broken.items()}
        return found | {name: surveying.Job("values", lambda r=readings: r) for name, readings in lost.items()}

    monkeypatch.setattr(surveying, "jobs", jobs)
    study = reproduce(out=tmp_path, plan=plan, device="cpu")
    cell = study.cell("small-hmm-transformer")
    assert (
        cell["failed"] == broken
        and "lens, seed 0" in cell["surveyed"]
        and not any(r["name"] == "PC1 share" for r in cell["survey"])
    )
    told: list[str] = []
    broken.clear()
    study = reproduce(out=tmp_path, plan=plan, device="cpu", say=told.append)
    mended = study.cell("small-hmm-transformer")
    assert mended["failed"] == {} and any(r["name"] == "PC1 share" for r in mended["survey"])
    assert mended["seconds"]["survey"] > cell["seconds"]["survey"]
    assert "small-hmm-transformer: values, seed 0" in told and "small-hmm-transformer: lens, seed 0" not in told


def test_what_broke_in_part_is_dropped_whole_and_tried_again(tmp_path, monkeypatch):
    """Half of an instrument on one seed would be held against the whole of it on others."""
    plan, job, real = only("small-hmm-transformer"), "values, seed 0", surveying.jobs
    lost = [Missing("PC1 share, later", "sorry", broken=True).to_dict()]

    def jobs(*arguments):
        found = real(*arguments)
        return found | {job: surveying.Job("values", lambda: [*found[job].read(), *lost])}

    def read() -> dict:
        return reproduce(out=tmp_path, plan=plan, device="cpu").cell("small-hmm-transformer")

    def of_the_job(cell: dict) -> list[dict]:
        return [r for r in cell["survey"] if r["name"] == "PC1 share" and r["where"]["seed"] == 0]

    monkeypatch.setattr(surveying, "jobs", jobs)
    once, again = read(), read()  # the second time because it had failed
    for cell in (once, again):
        assert cell["failed"] == {job: "sorry"} and not of_the_job(cell)
    lost.clear()
    mended = read()
    assert mended["failed"] == {} and of_the_job(mended)


def test_what_does_not_apply_is_no_failure():
    refusal = Missing("keys", "failed: so begins this refusal").to_dict()  # words decide nothing
    assert surveying.failures([refusal, {"name": "x", "value": 1.0}]) == []
    assert surveying.failures([Missing("keys", "no memory", broken=True).to_dict()]) == ["no memory"]


# --- a list of checkpoints that is lost
def files(run) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def lose_list(run) -> dict[str, bytes]:
    """Remove it; returns what is left."""
    (run / "seed-0" / "checkpoints.json").unlink()
    return files(run)


def test_a_run_without_its_list_is_put_aside_and_trained_anew(tmp_path):
    """Twice, and each time nothing is lost; what was scored of the old networks is forgotten with them."""
    plan, name = only("small-bijection-mlp"), "small-bijection-mlp"
    reproduce(out=tmp_path, plan=plan, device="cpu")
    study, made = StudyFolder(tmp_path), StudyFolder(tmp_path).cell(name)
    for aside in (f".{name}.unlisted", f".{name}.unlisted-2"):
        (tmp_path / "cells" / f"{name}.json").unlink()
        scored = {"seconds": {}, "diverged": [], "conditions": {"home": {"missing": "of the old networks"}}}
        study.write_draft(name, {"planned": made["planned"], **scored})
        left, told = lose_list(study.run(name)), []
        again = reproduce(out=tmp_path, plan=plan, device="cpu", say=told.append).cell(name)
        where = tmp_path / "runs" / aside
        said = f"{name}: a list of its checkpoints is lost; the run is kept as {where}, and retrained"
        assert said in told and not any("begun elsewhere" in line for line in told)
        assert files(where) == left
        assert again["conditions"] == made["conditions"] and again["history"] == made["history"]
    assert list(run_folders(tmp_path)) == [study.run(name)]


def test_a_trial_without_its_list_is_made_anew(tmp_path, monkeypatch):
    plan, real = only("small-urn-lstm"), rate.sweep.try_rate
    monkeypatch.setattr(rate.sweep, "try_rate", lambda *a, **o: real(*a, **o | {"max_minutes": 1e-9}))
    reproduce(out=tmp_path, plan=plan, device="cpu", max_minutes=5)
    monkeypatch.undo()
    trial, told = tmp_path / "sweeps" / "small-urn-lstm-0", []
    (trial / "seed-1000" / "checkpoints.json").unlink()
    state = trial / "seed-1000" / "resume-00000000.safetensors"
    state.rename(state.with_name("resume-00000005.safetensors"))
    study = reproduce(out=tmp_path, plan=plan, device="cpu", say=told.append)
    assert [line for line in told if "and retrained" in line] and study.finished("small-urn-lstm")
    assert (tmp_path / "sweeps" / ".small-urn-lstm-0.unlisted" / "recipe.json").exists()


def test_a_finished_cell_without_a_list_stays_as_it_is(tmp_path):
    """Readings are left that its networks alone can give; the study goes on to the next cell."""
    plan, name = only("small-hmm-transformer"), "small-hmm-transformer"
    first = replace(plan, cells=(replace(plan.cells[0], beside={}),))
    reproduce(out=tmp_path, plan=first, device="cpu")
    study, told = StudyFolder(tmp_path), []
    left = lose_list(study.run(name))
    made = study.cell(name)
    again = reproduce(out=tmp_path, plan=plan, device="cpu", say=told.append)
    (line,) = [line for line in told if "readings are left" in line]
    assert line.startswith(f"{name}: 1 readings are left, but {study.run(name)}/seed-0: holds ")
    assert again.cell(name) == made and files(study.run(name)) == left


# --- time
def test_the_time_limit_binds_a_sweep_and_a_trial_goes_on(tmp_path, monkeypatch):
    asked, real = [], rate.sweep.try_rate

    def spy(recipe, k, device, **options):
        asked.append((k, options["max_minutes"], options["out"].exists()))
        if len(asked) == 1:
            options["max_minutes"] = 1e-9
        return real(recipe, k, device, **options)

    monkeypatch.setattr(rate.sweep, "try_rate", spy)
    plan, told = only("small-urn-lstm"), []
    study = reproduce(out=tmp_path, plan=plan, device="cpu", max_minutes=5, say=told.append)
    assert study.head()["finished"] == [] and "run the same command again to resume" in told[-1]
    study = reproduce(out=tmp_path, plan=plan, device="cpu", max_minutes=5)
    assert study.head()["finished"] == ["small-urn-lstm"]
    assert asked[0][:1] + asked[0][2:] == (0, False) and asked[1][0] == 0 and asked[1][2]  # the same trial, its folder
    assert all(0 < minutes <= 5 for _, minutes, _ in asked) and not [
        p for p in (tmp_path / "sweeps").iterdir() if p.is_dir()
    ]


def test_a_rate_without_a_number_has_lost(tmp_path):
    study = StudyFolder(tmp_path)
    study.begin("micro")
    plan = only("small-urn-lstm")
    what = planned(plan, plan.cells[0])
    study.write_sweep("small-urn-lstm", {"planned": what, "kl_bits": {"0": 0.5, "-1": "inf", "1": None}})
    cell = reproduce(out=tmp_path, plan=plan, device="cpu").cell("small-urn-lstm")
    assert cell["sweep"]["chosen"] == 0 and json.dumps(cell)
    assert not math.isnan(cell["conditions"]["home"]["metrics"]["kl_bits"]["mean"])


def test_nothing_is_begun_that_needs_more_time_than_is_left(tmp_path):
    sitting = Sitting(micro(), StudyFolder(tmp_path), "cpu", 1.0, lambda line: None, lambda heading: "none")
    sitting.check_time(needed_s=90)  # nothing kept yet: a sitting must come forward
    sitting.worked = True
    sitting.check_time(needed_s=30)
    with pytest.raises(OutOfTime):
        sitting.check_time(needed_s=90)


def test_a_kill_while_a_run_is_thrown_away_leaves_nothing_in_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "hmm-mlp"
    for killed in (True, False):
        (folder / "seed-0").mkdir(parents=True)
        (folder / "seed-0" / "metrics.jsonl").write_text("{}\n")
        with monkeypatch.context() as patch:
            if killed:
                patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            discard(folder)
        assert not folder.exists()
    assert not list(tmp_path.iterdir())  # what the first time left behind is gone, too


def test_what_a_killed_sitting_threw_away_is_gone_when_a_cell_begins(tmp_path):
    """Whichever cell: the one that it was of may never be thrown away again."""
    half_gone = tmp_path / "runs" / ".small-hmm-mlp.discarded" / "seed-0"
    half_gone.mkdir(parents=True)
    (half_gone / "metrics.jsonl").write_text("{}\n")
    reproduce(out=tmp_path, plan=only("small-bijection-mlp"), device="cpu")
    assert [place.name for place in (tmp_path / "runs").iterdir()] == ["small-bijection-mlp"]
