"""`reproduce` and `claims`: what they print, and the one line for what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.study.micro import micro
from tests.study.planted import Planted
from tests.study.plants import PLANTS
from windtunnel.cli.ledger import print_ledger, print_zoo
from windtunnel.cli.main import main
from windtunnel.cli.parse import parse
from windtunnel.cli.reproduce import Reproduce, at_once
from windtunnel.fidelity import Estimate
from windtunnel.study import presets, reproduce, zoo
from windtunnel.study.claims import CLAIMS
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.quantity import Quantity
from windtunnel.study.zoo import Checked


@pytest.fixture
def tiny_quick(monkeypatch, tmp_path):
    """The quick preset on a study of seconds, away from the repository's own results."""
    from dataclasses import replace

    monkeypatch.setitem(presets.PRESETS, "quick", lambda: replace(micro(), preset="quick"))
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.setattr("windtunnel.cli.reproduce.committed", lambda: None)
    monkeypatch.setattr("windtunnel.cli.reproduce.MOST_CPU_LANES", 1)  # what is patched here, other processes lack
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    return reproduce(out=tmp_path_factory.mktemp("study"), plan=micro(), device="cpu").path


def test_quick_shows_the_scale_and_goes_on(tiny_quick, capsys):
    assert main(["reproduce"]) == 0
    said = capsys.readouterr()
    assert "Demonstration" in said.out and "judges no claim" in said.out
    assert re.search(r"^binding: small-bijection, where B = familiarity is [\d.]+ bits off", said.out, re.MULTILINE)
    mlp = r"^ mlp +\w+( \(no better than B\))? +-?[\d.e-]+ +-?[\d.e-]+ to -?[\d.e-]+ +[01] of 1 "
    assert re.search(mlp, said.out, re.MULTILINE)
    assert re.search(r"^ B: familiarity +absent +0 +0 to 0 ", said.out, re.MULTILINE)  # not 2e-16
    assert "No full-size study here" in said.out and "No shipped networks" in said.out
    assert "results/scratch/quick" in said.out and (tiny_quick / "results/scratch/quick/claims.json").exists()
    page = tiny_quick / "results/scratch/quick/report.html"
    assert said.out.strip().splitlines()[-1].startswith("report: results/scratch/quick/report.html") and page.exists()
    assert "step 12/12" in said.err  # training is watched
    assert main(["reproduce", "--out", "results/scratch/quick"]) == 0
    assert "3 of 3 cells are done and kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "on_cpu", "cores", "expected"),
    [
        ([], True, 1, (1, 1)),
        ([], True, 2, (2, 2)),
        ([], True, 64, (4, 4)),
        ([], False, 64, (1, 1)),
        (["--lanes", "3"], True, 64, (3, 3)),
        (["--lanes", "3"], False, 2, (3, 1)),
        (["--lanes", "3", "--trainings", "2"], True, 2, (3, 2)),
        (["--lanes", "0"], True, 2, (0, 0)),  # refused further on, not taken for nothing given
    ],
)
def test_a_small_study_takes_the_cores_and_a_gpu_is_shared_only_when_asked(words, on_cpu, cores, expected):
    options = parse(Reproduce, words, prog="windtunnel reproduce")
    assert at_once(options, on_cpu=on_cpu, cores=cores) == expected


def test_cells_are_made_side_by_side(tiny_quick, monkeypatch, capsys):
    monkeypatch.setattr("windtunnel.cli.reproduce.MOST_CPU_LANES", 2)
    monkeypatch.setattr("windtunnel.cli.reproduce.cores", lambda: 2)
    assert main(["reproduce"]) == 0
    study = StudyFolder(Path("results/scratch/quick"))
    assert study.head()["sittings"][0]["lanes"] == study.head()["sittings"][0]["trainings"] == 2
    assert "Not trained yet" not in capsys.readouterr().out


def test_an_unfinished_quick_study_names_the_cells_that_are_left(tiny_quick, monkeypatch, capsys):
    """Baselines are records of the study too, but no cells."""
    assert main(["reproduce"]) == 0
    assert "Not trained yet" not in capsys.readouterr().out
    head = StudyFolder.head
    left = presets.plan_for("quick").cells[-1].name
    done = [name for name in head(StudyFolder(Path("results/scratch/quick")))["finished"] if name != left]
    monkeypatch.setattr(StudyFolder, "head", lambda self: head(self) | {"finished": done})
    assert main(["reproduce"]) == 0
    assert f"Not trained yet: {left}; run the same command again" in " ".join(capsys.readouterr().out.split())


def test_quick_shows_the_committed_study_and_the_shipped_networks(tiny_quick, study, monkeypatch, capsys):
    from tests.training.cases import tiny
    from windtunnel.training import train

    run = train(recipe=tiny(steps=4), out=tiny_quick / "run", device="cpu")
    zoo.export(run, "bijection-tiny", episodes=300)
    monkeypatch.setattr("windtunnel.cli.reproduce.committed", lambda: StudyFolder(study))
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert f"The full-size study, from {study}" in shown and f"{len(CLAIMS)} not tested at this scale" in shown
    assert re.search(r"bijection-tiny .* agrees", shown)
    assert "agrees: now and card differ by no more than chance allows at 99%" in shown
    assert "do not overlap" not in shown


def test_a_network_that_agrees_though_the_intervals_do_not_meet_is_explained(capsys):
    """Twenty thousand episodes hold rare ones that two thousand need not."""
    one = np.array([9.1e-6])
    live = Estimate(9.1e-6, 7.5e-6, 1.1e-5, one, one, "sequences", "linear", 500)
    card = Quantity(3.6e-5, 1.3e-5, 6.7e-5, "sequences")
    print_zoo([Checked("recall-transformer", live, card, (500, 20_000))])
    shown = " ".join(capsys.readouterr().out.split())
    assert "The intervals of recall-transformer do not overlap: most of so small a KL comes from rare episodes" in shown


def test_an_interrupt_says_what_is_kept(tiny_quick, monkeypatch, capsys):
    def interrupt(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("windtunnel.study.running.measure.references", interrupt)
    assert main(["reproduce"]) == 130
    assert "kept in results/scratch/quick; run the same command again to resume" in capsys.readouterr().err


def test_claims_prints_the_ledger(study, output):
    shown = output("claims", study, "--all")
    entries = json.loads((study / "claims.json").read_text())["claims"]
    for entry in entries:
        assert entry["id"] in shown
    assert re.search(rf"^{len(entries)} claims: {len(entries)} not tested at this scale$", shown, re.MULTILINE)
    total = json.loads((study / "study.json").read_text())["seconds"]["total"]
    assert re.search(rf"^ *all cells .* {total:,.0f} *$", shown, re.MULTILINE)  # what each took, and all together
    told = output("claims", study, "--only", "length-30")
    assert "0.012 bits" in told and "needs the cell hmm-transformer" in told
    assert {"length-30:", "roles:"} <= set(output("claims", study, "--only", "length-30,roles").split())


def test_cells_that_were_not_run_are_one_reason_whatever_the_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    entry = {"outcome": "not tested at this scale"}
    lacking = [entry | {"id": cell, "reasons": [f"no {cell}"], "lacks": cell} for cell in ("a", "b")]
    older = entry | {"id": "c", "reasons": ["needs the cell c"]}  # of a ledger that did not name it apart: by its words
    print_ledger([*lacking, older])
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 they need cells that this study does not have: a; b a; b 1 needs the cell c c" in shown


def test_claims_that_were_not_tested_are_counted_by_their_reasons(study, output, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    primitives, shown = output("claims", study).split(f"{len(CLAIMS)} claims: {len(CLAIMS)} not tested at this scale")
    assert "accumulation: small-urn" in primitives
    words = " ".join(shown.split())
    assert re.search(r"\b\d\d they need cells .* and \d\d more", words) and "1 attention is a distribution" in words
    assert "Nothing is decided at this size (preset micro)" in words and "--all also lists those" in words
    assert len(shown.splitlines()) < 30 and max(map(len, shown.splitlines())) <= 80


def test_claims_that_were_tested_are_told_in_full_whatever_the_width(tmp_path, output, monkeypatch):
    p = Planted()
    PLANTS["hmm-lstm-fails"](p, "no")
    PLANTS["recall-lstm-accuracy"](p, "straddle")
    p.learned("bijection-transformer", kl=1.0)  # has not learned: its geometry is not tested, for that reason
    p.write(tmp_path)
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        words = " ".join(output("claims", tmp_path).split())
        assert f"1 not reproduced, 1 inconclusive, {len(CLAIMS) - 2} not tested" in words
        assert "Nothing is decided" not in words
        for part in ("hmm-lstm-fails", "An LSTM does not learn HMM filtering.", "0.411 bits", "not reproduced"):
            assert part in words
        assert "recall-lstm-accuracy" in words and "0.5%" in words
        assert "bijection-transformer has" in words and "published" in words  # not learned its task
    assert "orthogonal-keys" in output("claims", tmp_path, "--all")


def test_folders_of_another_kind_name_the_command_that_fits(study, runs, refusal, tmp_path):
    run = runs / "hmm"
    assert f"holds a run, not a study: `windtunnel evaluate {run}`" in refusal("claims", run)
    assert f"holds a study, not a run: `windtunnel claims {study}`" in refusal("evaluate", study)
    assert f"holds a study, not a run: `windtunnel claims {study}`" in refusal("inspect", study)
    begun = tmp_path / "results" / "begun"
    begun.mkdir(parents=True)
    (begun / "study.json").write_text((study / "study.json").read_text())
    for command in ("claims", "report", "figures"):
        assert f"holds a study further down: `windtunnel {command} {begun}`" in refusal(command, tmp_path)
    assert not (tmp_path / "exhibits").exists()
    assert f"reproduce --preset micro --out {begun}` resumes it" in refusal("claims", begun)


def test_claims_json(study, output):
    told = json.loads(output("claims", study, "--json"))
    assert told["study"]["preset"] == "micro" and len(told["claims"]) > 40
    assert {"id", "claim", "source", "published", "measured", "outcome", "verdict", "reasons"} <= set(told["claims"][0])
    chosen = json.loads(output("claims", study, "--json", "--only", "roles,length-30"))["claims"]
    assert [one["id"] for one in chosen] == ["roles", "length-30"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("reproduce --preset huge", "--preset = 'huge': must be one of quick, paper"),
        ("reproduce --preset paper --device cpu", "must have a GPU"),
        ("reproduce --max-minutes 0", "--max-minutes = 0.0: must be a finite number above 0"),
        ("reproduce --presset quick", "did you mean --preset"),
        ("claims", "claims must be followed by the folder of a study, such as results/scratch/quick"),
        ("claims {empty}/nowhere", "nowhere: there is no such folder"),
        ("claims {empty}", "it has no study.json"),
        ("claims {old}", "format = 7, made by windtunnel 3: must be format 1"),
        (
            "claims {study} --only nothing",
            "'nothing': must be the id of one of the {claims} claims; `windtunnel",
        ),
        ("claims {study} --only hmm-lstm-fail", "(did you mean hmm-lstm-fails"),
        ("reproduce --out {old}", "format = 7"),
    ],
)
def test_refusals(words, line, study, tmp_path, refusal, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "study.json").write_text('{"format": 7, "windtunnel": "3", "preset": "quick"}')
    places = {"empty": tmp_path / "empty", "old": tmp_path / "old", "study": study}
    assert line.format(claims=len(CLAIMS)) in refusal(*words.format(**places).split())


def test_the_paper_preset_says_how_long_it_would_take(refusal, tmp_path):
    line = refusal("reproduce", "--preset", "paper", "--device", "cpu", "--out", tmp_path / "x")
    assert re.search(
        r"about [\d.]+ (min|h) on one H200, some [\d.]+ days on two CPU cores\); preset quick runs here", line
    )
    assert not (tmp_path / "x").exists()
