"""A study that moves from machine to machine with all but its weights; and sittings for a part of a plan."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study.micro import micro
from windtunnel.errors import InputError
from windtunnel.study import presets, reproduce
from windtunnel.study.__main__ import main
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Plan
from windtunnel.study.running import making
from windtunnel.study.running.inspecting import Inspecting
from windtunnel.study.running.sitting import Scope, Sitting

PLAN = micro(surveys=True)
LSTM, HMM, MLP = (cell.name for cell in PLAN.cells)


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """Names of the cells whose training is begun or continued, in order."""
    names: list[str] = []
    real = making.train

    def train(*, out, **options):
        names.append(Path(out).name)
        return real(out=out, **options)

    monkeypatch.setattr(making, "train", train)
    return names


def sit(folder: Path, *only: str, plan: Plan = PLAN, say=lambda line: None, **scope) -> StudyFolder:
    return reproduce(out=folder, plan=plan, device="cpu", scope=Scope(only or None, **scope), say=say)


def carry(source: Path, target: Path) -> int:
    """By the command that does it; returns bytes."""
    assert main(["--out", str(target), "--merge", str(source)]) == 0
    files = [path for path in target.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".safetensors", ".part")]
    return sum(path.stat().st_size for path in files)


def test_finished_cells_are_carried_without_weights_and_not_made_again(tmp_path, trained, capsys):
    first, carried, second = (tmp_path / name for name in ("first", "carried", "second"))
    one = sit(first, LSTM)
    assert trained == [LSTM] and (first / "runs" / LSTM).is_dir()
    assert carry(first, carried) < 300_000 and "2 cells taken over" in capsys.readouterr().out
    assert StudyFolder(carried).cell(LSTM) == one.cell(LSTM)
    assert StudyFolder(carried).head()["seconds"] == one.head()["seconds"]
    carry(carried, second)  # on the next machine
    trained.clear()
    study = sit(second, LSTM, HMM)
    assert trained == [HMM] and study.head()["finished"] == sorted([LSTM, HMM])
    assert study.cell(LSTM) == one.cell(LSTM) and not (second / "runs" / LSTM).exists()
    carry(second, carried)  # and back
    assert StudyFolder(carried).cells() == study.cells()
    assert StudyFolder(carried).ledger() == study.ledger() and len(StudyFolder(carried).head()["environments"]) == 1


def test_a_survey_that_went_on_is_taken_over_and_one_without_networks_is_left(tmp_path):
    first, carried = tmp_path / "first", tmp_path / "carried"
    sit(first, HMM, claims_only=True)
    carry(first, carried)
    assert "lens, seed 0" not in StudyFolder(carried).cell(HMM)["surveyed"]
    said: list[str] = []
    elsewhere = tmp_path / "elsewhere"
    carry(carried, elsewhere)
    before = StudyFolder(elsewhere).cell(HMM)
    study = sit(elsewhere, HMM, say=said.append)  # no networks here: nothing is done, and nothing breaks
    assert study.cell(HMM) == before and any("1 readings are left, but its networks are not here" in s for s in said)
    sit(first, HMM)  # where they are, it goes on
    carry(first, carried)
    assert "lens, seed 0" in StudyFolder(carried).cell(HMM)["surveyed"]
    carry(elsewhere, carried)  # an older copy changes nothing
    assert "lens, seed 0" in StudyFolder(carried).cell(HMM)["surveyed"]


def test_two_trainings_of_one_cell_are_not_mixed(tmp_path, capsys):
    for name in ("a", "b"):
        sit(tmp_path / name, MLP)
    cell = StudyFolder(tmp_path / "b").cell(MLP)
    cell["conditions"]["home"]["metrics"]["kl_bits"]["mean"] += 1e-6
    StudyFolder(tmp_path / "b").write_cell(MLP, cell)
    assert main(["--out", str(tmp_path / "a"), "--merge", str(tmp_path / "b")]) == 2
    assert f"{MLP}.json: was trained apart from" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "c"), "--merge", str(tmp_path / "nothing")]) == 2
    assert "must be a folder with a study in it" in capsys.readouterr().err and not (tmp_path / "c").exists()


def test_a_draft_without_its_networks_is_begun_anew(tmp_path, trained, monkeypatch):
    """Scores of one training must not stand beside readings of another."""

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Inspecting, "read", killed)
        with pytest.raises(KeyboardInterrupt):
            sit(tmp_path, HMM)
    part = tmp_path / "cells" / f"{HMM}.part"
    draft = json.loads(part.read_text())
    draft["conditions"]["home"]["metrics"]["kl_bits"]["mean"] = 123.0  # the other training's
    part.write_text(json.dumps(draft))
    shutil.rmtree(tmp_path / "runs")
    said: list[str] = []
    study = sit(tmp_path, HMM, say=said.append)
    assert trained == [HMM, HMM] and any("restarted" in line for line in said)
    assert study.cell(HMM)["conditions"]["home"]["metrics"]["kl_bits"]["mean"] < 10


# --- a part of a plan
def test_training_alone_and_then_the_rest(tmp_path, trained):
    study = sit(tmp_path, MLP, train_only=True)
    assert study.cells() == {} and trained == [MLP]
    timings = (tmp_path / "runs" / MLP / "timings.jsonl").read_text()
    study = sit(tmp_path, MLP)
    assert set(study.cells()) == {MLP, "small-bijection-references"} and study.cell(MLP)["seconds"]["train"] > 0
    assert (tmp_path / "runs" / MLP / "timings.jsonl").read_text() == timings  # the second call took no step


def test_named_cells_only(tmp_path):
    said: list[str] = []
    study = sit(tmp_path, MLP, say=said.append)
    assert set(study.cells()) == {MLP, "small-bijection-references"}
    assert not any("urn" in line or "hmm" in line for line in said)
    with pytest.raises(InputError, match=r"only = 'x': must be one of small-urn-lstm"):
        sit(tmp_path, "x")
    with pytest.raises(InputError, match=r"disk_minutes = 0: must be above 0"):
        sit(tmp_path, disk_minutes=0)


def test_a_cell_waits_for_the_rate_it_takes_over(tmp_path):
    follower = replace(PLAN.cells[0], name="small-urn-lstm-again", sweep=LSTM)
    plan, said = replace(PLAN, cells=(*PLAN.cells, follower)), []
    study = sit(tmp_path, follower.name, plan=plan, say=said.append)
    assert said[-1] == "small-urn-lstm-again: waits for small-urn-lstm, whose learning rate it takes"
    study = sit(tmp_path, LSTM, follower.name, plan=plan)
    assert study.cell(follower.name)["sweep"]["of"] == LSTM and "sweep" not in study.cell(follower.name)["seconds"]


def test_nothing_is_begun_that_the_disk_would_not_outlast(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "windtunnel.study.running.sitting.cell_seconds", lambda cell, *_: 600.0 if cell.name == HMM else 1.0
    )
    said: list[str] = []
    study = sit(tmp_path, HMM, MLP, say=said.append, disk_minutes=9)
    assert study.head()["finished"] == [MLP]
    assert any(line.startswith(f"{HMM}: is left to another machine") for line in said)
    assert sit(tmp_path, HMM, disk_minutes=11).head()["finished"] == sorted([HMM, MLP])


def test_gpu_seconds_are_those_a_gpu_was_held(tmp_path):
    def sitting(device: str) -> Sitting:
        return Sitting(PLAN, StudyFolder(tmp_path), device, None, lambda line: None, lambda heading: "none")

    trained = sitting("cuda").seconds({"train": 10.0}, {"survey": 5.0})
    assert trained == {"train": 10.0, "survey": 5.0, "total": 15.0, "gpu": 15.0}
    later = sitting("cpu").seconds(trained, {"survey": 2.0})
    assert later == {"train": 10.0, "survey": 7.0, "total": 17.0, "gpu": 15.0}


def test_the_plan_is_told(capsys):
    assert main(["--preset", "paper", "--plan"]) == 0
    told = capsys.readouterr().out.splitlines()
    plan = presets.plan_for("paper")
    assert [line.split()[0] for line in told[1:-1]] == [cell.name for cell in plan.cells]
    assert "claims" in told[0] and "with surveys" in told[-1]
