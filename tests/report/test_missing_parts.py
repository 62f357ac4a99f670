"""What a page lacks, and the command that makes it: one that works as it stands, or none where nothing can."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace

import windtunnel as wt
from tests.report.test_page import without_plotly
from tests.training.cases import counts
from windtunnel import models
from windtunnel.cli.main import main
from windtunnel.report import read
from windtunnel.report.figures import missing
from windtunnel.report.page import render
from windtunnel.study.plan import World
from windtunnel.tunnels import Urn

BROKEN = {"broken": True}


def test_the_command_goes_on_with_the_survey_that_is_there(scratch, monkeypatch):
    """It has the settings of that survey; else `inspect` would refuse to go on with it."""
    run = scratch / "runs" / "hmm-lstm"

    def advice() -> list[str]:
        (lack,) = [lack for lack in missing(read(run, with_zoo=False)) if "dose" in lack.what]
        return shlex.split(lack.command.partition(" && ")[0])

    made = ["--episodes", "8", "--seed", "3", "--untrained", "1"]
    assert main(["inspect", str(run), "--only", "ablate", *made]) == 0
    told = advice()
    assert told[3:] == ["--only", "swap,patch,dose,late,roles", *made]
    assert main([*told[1:3], "--only", "roles", *told[5:]]) == 0
    monkeypatch.setattr("windtunnel.report.missing_parts.REVISION", 99)
    told = advice()
    assert told[3:] == ["--only", "ablate,roles,swap,patch,dose,late", *made, "--replace"]  # all of it, measured anew


def test_a_network_without_names_is_not_told_to_be_inspected(scratch, tmp_path):
    run = tmp_path / "runs" / "mine"
    models.register("tally", counts)
    try:
        wt.train(Urn(symbols=3, length=4), "tally", steps=2, batch=8, out=run, device="cpu")
        alone, both = read(run, with_zoo=False), read(run, runs=[scratch / "runs" / "urn-transformer"], with_zoo=False)
    finally:
        models.unregister("tally")
    line = "a look inside mine, which names no tensors (docs/instruments.md says how to)"
    assert [lack.told for lack in missing(alone)][1:] == [f"not possible: {line}"]
    assert f"<li>Not possible: {line}.</li>" in without_plotly(render(alone))
    told = [lack.told for lack in missing(both)]
    assert f"not possible: {line}" in told and any("inspect RUN --only ablate,heads" in one for one in told)


def test_what_instruments_could_not_read_is_not_asked_for_again(scratch):
    run = scratch / "runs" / "urn-transformer"
    before = " ".join(lack.told for lack in missing(read(run, with_zoo=False)))
    nothing = [{"name": "late", "instrument": "late", "seed": 0, "missing": "nothing mixes positions", "where": {}}]
    found = read(run, with_zoo=False)
    after = [missing(replace(found, readings={run.name: [one | more for one in nothing]})) for more in ({}, BROKEN)]
    assert "late attention off" in before and "late attention" not in " ".join(lack.told for lack in after[0])
    assert "late attention off" in " ".join(lack.told for lack in after[1])  # an accident: another try may succeed


def test_a_folder_of_runs_is_not_told_to_make_what_none_of_them_can_have(scratch):
    shutil.rmtree(scratch / "runs" / "hmm-lstm")
    shutil.rmtree(scratch / "runs" / "hmm-transformer")
    told = " ".join(lack.told for lack in missing(read(scratch / "runs", with_zoo=False)))
    assert "simplices" not in told and "clusters" not in told and "layer ablations" in told


def test_a_scorecard_is_told_what_a_folder_of_runs_is(tmp_path):
    """Its networks may be somebody's own: what they cannot have is no lack, nor is the study of the paper."""
    world = World("few-draws", Urn(symbols=3, length=4))
    models.register("tally", counts)
    try:
        card = wt.scorecard("tally", tmp_path / "card", steps=2, longer=1, worlds=(world,))
        told = [lack.told for lack in missing(read(card.folder.path, with_zoo=False))]
    finally:
        models.unregister("tally")
    assert not any("inspect" in line or "other lengths" in line for line in told)
    assert any(line.startswith("not possible: a look inside few-draws-tally") for line in told)
