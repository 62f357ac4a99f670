"""A whole study in seconds: what it leaves, that it goes on from a kill at any write, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study.micro import micro
from windtunnel.errors import InputError
from windtunnel.json_numbers import from_json
from windtunnel.study import StudyFolder, reproduce
from windtunnel.study.running import making
from windtunnel.training import Diverged, files

PLAN = micro(surveys=True)


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> StudyFolder:
    """A study that nobody interrupted."""
    return reproduce(out=tmp_path_factory.mktemp("whole") / "study", plan=PLAN, device="cpu")


def lasting(study: StudyFolder) -> dict:
    """What must not depend on interruptions: everything but clocks and machines."""
    return {
        name: {key: value for key, value in cell.items() if key not in ("seconds", "environment", "surveyed")}
        | {"surveyed": list(cell.get("surveyed", ()))}
        for name, cell in study.cells().items()
    }


def test_what_a_study_leaves(whole):
    head, cells = whole.head(), whole.cells()
    assert head["preset"] == "micro" and head["format"] == 1 and head["environments"][0]["versions"]["torch"]
    assert head["finished"] == ["small-bijection-mlp", "small-hmm-transformer", "small-urn-lstm"]
    assert len(cells) == 6 and not list(whole.path.rglob("*.part")) and not list(whole.path.rglob("*.tmp"))

    lstm = cells["small-urn-lstm"]
    assert lstm["seeds"] == [0, 1] and lstm["diverged"] == [] and lstm["sequences"] == 96
    assert set(lstm["sweep"]["kl_bits"]) >= {"-1", "0", "1"} and lstm["overlap"]["shared"] == 0
    assert lstm["recipe"]["optimiser"]["lr"] == pytest.approx(3e-3 * 3.0 ** lstm["sweep"]["chosen"])
    assert len(lstm["conditions"]["home"]["metrics"]["kl_bits"]["per_seed"]) == 2
    assert lstm["primitive"]["primitive"] == "accumulation"
    assert lstm["seconds"]["train"] > 0 and lstm["seconds"]["sweep"] > 0 and lstm["seconds"]["gpu"] == 0

    hmm = cells["small-hmm-transformer"]["conditions"]
    assert "metrics" in hmm["home"] and "tied to its first 8 positions" in hmm["length-6"]["missing"]
    assert "uniform" in cells["small-hmm-references"]["conditions"]["length-6-beyond"]["baselines"]
    assert "seen" in cells["small-bijection-mlp"]["conditions"]["seen"]["subset"]
    assert any(name.startswith("B: ") for name in cells["small-bijection-references"]["rows"])
    assert not list(whole.path.rglob("resume-*")) and list(whole.path.rglob("step-*.safetensors"))


def test_the_table_is_tidy(whole):
    rows = list(csv.DictReader((whole.path / "table.csv").read_text().splitlines()))
    cells = whole.cells()
    kl = [
        float(r["value"])
        for r in rows
        if (r["cell"], r["condition"], r["metric"]) == ("small-urn-lstm", "home", "kl_bits")
    ]
    assert kl == cells["small-urn-lstm"]["conditions"]["home"]["metrics"]["kl_bits"]["per_seed"]
    shares = [r for r in rows if r["metric"] == "share of binding"]
    assert {r["seed"] for r in shares} >= {"0", "B: familiarity"}
    assert all(r["value"] != "" for r in rows)


def test_the_ledger_has_every_claim(whole):
    entries = whole.ledger()
    assert len(entries) > 40 and {entry["outcome"] for entry in entries} == {"not tested at this scale"}
    assert all(entry["reasons"] for entry in entries)


def test_every_cell_says_which_of_how_many_it_is_and_of_what_each_kl_is(tmp_path):
    said: list[str] = []
    study = reproduce(out=tmp_path, plan=PLAN, device="cpu", say=said.append)
    names = [cell.name for cell in PLAN.cells]
    begun = [line for line in said if line.startswith("cell ")]
    assert begun == [f"cell {k} of 3: {name}" for k, name in enumerate(names, 1)]
    ended = {line.partition(":")[0]: line for line in said if ": KL " in line}
    assert list(ended) == names
    cell, line = study.cell(names[2]), ended[names[2]]
    kl, share = from_json(cell["conditions"]["home"]["metrics"]["kl_bits"]["mean"]), cell["primitive"]
    assert line.startswith(f"{names[2]}: KL {kl:.3g} bits at all readouts; binding ")
    ours = f"KL {share['kl_bits']:.4g} at the readouts that need it"
    assert f"{ours}, against {share['base_bits']:.3g} bits of familiarity, the best predictor without it" in line
    urn = ended[names[0]]  # where all of them do, nothing of the kind is said
    assert " against " in urn and "that need it" not in urn
    said.clear()
    (tmp_path / "cells" / f"{names[2]}.json").unlink()
    reproduce(out=tmp_path, plan=PLAN, device="cpu", say=said.append)
    assert [line for line in said if line.startswith("cell ")] == [f"cell 3 of 3: {names[2]}"]  # those done count


def test_a_finished_study_is_left_alone(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.path.rglob("cells/*.json")}
    told: list[str] = []
    reproduce(out=whole.path, plan=PLAN, device="cpu", say=told.append)
    assert {path: path.stat().st_mtime_ns for path in whole.path.rglob("cells/*.json")} == before
    assert told == ["3 of 3 cells are done and kept"]


@pytest.mark.parametrize("share", [0.05, 0.4, 0.7, 0.98])
def test_a_kill_at_any_write_loses_nothing(share, whole, tmp_path, monkeypatch):
    """The n-th write and all after it never happen; the same call then ends with the same cells."""
    writes, real = 0, files.write_bytes

    def counting(path: Path, content: bytes) -> None:
        nonlocal writes
        writes += 1
        if writes > limit:
            raise Killed
        real(path, content)

    monkeypatch.setattr(files, "write_bytes", counting)
    monkeypatch.setattr("windtunnel.study.folder.results.write_bytes", counting)
    limit = round(share * WRITES)
    with pytest.raises(Killed):
        reproduce(out=tmp_path / "study", plan=PLAN, device="cpu")
    limit = 10**9
    study = reproduce(out=tmp_path / "study", plan=PLAN, device="cpu")
    assert lasting(study) == lasting(whole)


WRITES = 94
"""About as many as one study makes; a kill beyond the last would not be one, and the test would say so."""


def test_pieces_of_time_add_up(whole, tmp_path):
    told: list[str] = []
    for _ in range(200):
        study = reproduce(out=tmp_path / "study", plan=PLAN, device="cpu", max_minutes=0.01, say=told.append)
        if len(study.head()["finished"]) == 3:
            break
    assert any("run the same command again to resume" in line for line in told)
    assert lasting(study) == lasting(whole)


def test_a_plan_may_limit_itself(tmp_path):
    told: list[str] = []
    study = reproduce(out=tmp_path, plan=replace(PLAN, minutes=1e-9), device="cpu", say=told.append)
    assert study.head()["finished"] == [] and "run the same command again to resume" in told[-1]
    study = reproduce(out=tmp_path, plan=replace(PLAN, minutes=1e-9), device="cpu", max_minutes=60)
    assert len(study.head()["finished"]) == 3


def test_instruments_are_applied_and_kept(whole):
    cell = whole.cell("small-hmm-transformer")
    survey = cell["survey"]
    names = {reading["name"] for reading in survey}
    assert "PC1 share" in names and any("settled" in name for name in names)
    assert any("late attention off" in name for name in names)
    assert all("nulls" in reading or "missing" in reading for reading in survey)
    assert list(cell["surveyed"]) == ["values, seed 0", "late, seed 0", "dynamics", "lens, seed 0"]
    assert cell["seconds"]["survey"] == pytest.approx(sum(cell["surveyed"].values()))
    assert all(len(sample) <= 9 for reading in survey for sample in reading.get("nulls", {}).values())
    text = (whole.path / "cells" / "small-hmm-transformer.json").read_text()
    assert text.count("\n") >= len(survey) and json.loads(text) == cell  # a line for each reading


def test_a_diverged_seed_counts(tmp_path, monkeypatch):
    real = making.train

    def sometimes(*, recipe, seeds, **options):
        if recipe.model == "lstm" and 1 in seeds:
            raise Diverged("seed 1: the loss was not finite at step 3", 1, "try a lower learning rate")
        return real(recipe=recipe, seeds=seeds, **options)

    monkeypatch.setattr(making, "train", sometimes)
    said = []
    study = reproduce(out=tmp_path, plan=PLAN, device="cpu", say=said.append)
    assert "small-urn-lstm: seed 1: the loss was not finite at step 3" in said  # advice is for who chose the rate
    cell = study.cell("small-urn-lstm")
    assert cell["seeds"] == [0, 1] and cell["diverged"] == [1] and cell["primitive"]["diverged"] == 1
    uniform = study.evidence().baseline("small-urn", "uniform", "kl_bits")
    assert cell["conditions"]["home"]["metrics"]["kl_bits"]["per_seed"][1] == pytest.approx(uniform)
    assert len(cell["primitive"]["per_seed"]) == 2


# --- what is refused
def test_another_version_is_refused(whole, tmp_path):
    (tmp_path / "study.json").write_text(json.dumps({"format": 99, "windtunnel": "7.0", "preset": "micro"}))
    for call in (lambda: reproduce(out=tmp_path, plan=PLAN, device="cpu"), StudyFolder(tmp_path).cells):
        with pytest.raises(InputError, match=r"format = 99, made by windtunnel 7\.0: must be format 1"):
            call()


def test_another_preset_or_recipe_is_refused(whole):
    with pytest.raises(InputError, match="holds a study of preset 'micro': must be 'other'"):
        reproduce(out=whole.path, plan=replace(PLAN, preset="other"), device="cpu")
    plan = PLAN
    changed = replace(plan.cells[2], recipe=plan.cells[2].recipe.with_options(steps=13))
    with pytest.raises(
        InputError, match=r"small-bijection-mlp\.json: was made with steps = 12, not 13: must be removed"
    ):
        reproduce(out=whole.path, plan=replace(plan, cells=(*plan.cells[:2], changed)), device="cpu")


def test_a_gpu_study_without_a_gpu_says_how_long_and_offers_quick(tmp_path):
    with pytest.raises(
        InputError, match=r"preset = 'paper': must have a GPU \(about .* on one H200, .*\); preset quick"
    ):
        reproduce("paper", tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())


def test_what_is_left_of_a_gpu_study_once_its_networks_are_made_can_be_done_without_one(whole, tmp_path):
    copy = shutil.copytree(whole.path, tmp_path / "copy")
    plan, study, name = replace(PLAN, gpu=True), StudyFolder(copy), "small-hmm-transformer"
    before = study.cell(name)
    left = [reading for reading in before["survey"] if not reading["name"].startswith("logit lens")]
    done = {job: seconds for job, seconds in before["surveyed"].items() if job != "lens, seed 0"}
    assert len(left) < len(before["survey"]) and len(done) == len(before["surveyed"]) - 1
    study.write_cell(name, before | {"survey": left, "surveyed": done})
    after = reproduce(out=copy, plan=plan, device="cpu").cell(name)
    assert after["survey"] == before["survey"] and set(after["surveyed"]) == set(before["surveyed"])
    (copy / "cells" / "small-urn-lstm.json").unlink()
    with pytest.raises(InputError, match="must have a GPU"):
        reproduce(out=copy, plan=plan, device="cpu")


def test_too_little_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "windtunnel.study.running.duration.shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})
    )
    with pytest.raises(InputError, match="must be at least"):
        reproduce(out=tmp_path / "study", plan=PLAN, device="cpu")
    assert not (tmp_path / "study").exists()


def test_other_bad_input(tmp_path):
    with pytest.raises(InputError, match="preset = 'huge'"):
        reproduce("huge", tmp_path)
    for minutes in (0, "long"):
        with pytest.raises(InputError, match=f"max_minutes = {minutes!r}: must be a finite number above 0"):
            reproduce(out=tmp_path, plan=PLAN, device="cpu", max_minutes=minutes)
    with pytest.raises(InputError, match="out = 3: must be a path"):
        reproduce(out=3, plan=PLAN, device="cpu")
    with pytest.raises(InputError, match="it has no study"):
        StudyFolder(tmp_path / "nothing").ledger()
