"""`windtunnel scorecard`: one table, one JSON document, one line for what it refuses."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from windtunnel.cli.main import main
from windtunnel.study import scorecard
from windtunnel.study.plan import World
from windtunnel.tunnels import Bijection, Urn

TINY = (
    World("few-draws", Urn(symbols=5, length=8)),
    World("few-pairs", Bijection(symbols=3, length=5, replacement=True)),
)
SHORT = ["--steps", "4", "--longer", "2"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """Two worlds of seconds, away from the repository's own results."""
    monkeypatch.setattr("windtunnel.cli.scorecard.scorecard", partial(scorecard, worlds=TINY))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)


def test_a_row_for_each_model_and_b_below(capsys, monkeypatch):
    assert main(["scorecard", "mlp", "lstm", *SHORT]) == 0
    said = capsys.readouterr()
    assert re.search(r"^ +accumulation +binding *$", said.out, re.MULTILINE)
    for model in ("mlp", "lstm"):
        assert re.search(rf"^ {model} +[\d,]+ to [\d,]+ +\w+ .*-?[\d.]+ \[", said.out, re.MULTILINE)
        short = r"accumulation \(\w+\) and binding \(\w+\) within 8 steps"
        assert re.search(rf"^{model} did not realise {short}: what it reached", said.out, re.MULTILINE)
    assert re.search(r"^ B, the best without it +last-observation: 0, KL 0\.\d+ bits", said.out, re.MULTILINE)
    assert "at the readouts that need it" in " ".join(said.out.split())
    assert "after 4 steps" in said.out and "after 8 steps" in said.out and "share = 1 − KL / KL(B)" in said.out
    assert "as a page: windtunnel report results/scratch/scorecard --no-zoo" in said.out
    assert "4 of 4 not realised: trained from scratch for 2 times the steps" in said.err

    assert main(["scorecard", "mlp", *SHORT, "--json"]) == 0  # nothing is trained for it
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert set(told["models"]) == {"mlp"} and told["finished"] and "seed 0" not in said.err
    assert [one["steps"] for one in told["models"]["mlp"]["binding"]["attempts"]] == [4, 8]

    assert main(["scorecard", "mlp", "--steps", "4", "--longer", "1"]) == 0
    assert "No second chance was given: --longer 4" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["scorecard", "mlp", *SHORT]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_one_that_is_replaced_goes_on_without_being_replaced_again(capsys):
    assert main(["scorecard", "mlp", *SHORT]) == 0
    assert main(["scorecard", "mlp", *SHORT, "--replace", "--max-minutes", "0.00001"]) == 0
    said = capsys.readouterr()
    assert "started over; to resume after a stop, leave out --replace" in said.err
    assert "Unfinished: run the same command without --replace to train the rest." in said.out
    assert main(["scorecard", "mlp", *SHORT]) == 0
    assert "Unfinished" not in capsys.readouterr().out


def test_a_stopped_one_says_that_it_goes_on(capsys):
    assert main(["scorecard", "mlp", *SHORT, "--max-minutes", "0.00001"]) == 0
    shown = capsys.readouterr().out
    assert "still to come" in shown and "Unfinished: run the same command again to train the rest." in shown


def test_an_interrupt_says_what_is_kept(monkeypatch, capsys):
    def interrupt(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("windtunnel.study.running.measure.references", interrupt)
    assert main(["scorecard", "mlp"]) == 130
    assert "kept in results/scratch/scorecard; run the same command again to resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "scorecard must be followed by one or more models, of transformer"),
        ("--steps 5", "scorecard must be followed by one or more models"),
        ("mpl", "model = 'mpl' (did you mean mlp?): must be one of transformer"),
        ("mlp gru", "or a model of your own, with --plugin MODULE"),
        ("mlp --step 5", "did you mean --steps"),
        ("mlp --steps 5 lstm", "unexpected word 'lstm'"),
        ("mlp --steps few", "--steps = 'few': must be a whole number"),
        ("mlp --longer 0", "longer = 0: must be"),
        ("mlp --max-minutes 0", "--max-minutes = 0.0: must be a finite number above 0"),
    ],
)
def test_refusals(words, line, refusal, tmp_path):
    assert line in refusal("scorecard", *words.split()) and not (tmp_path / "results").exists()


def test_claims_of_a_scorecard_that_was_only_begun_name_its_command(refusal, tmp_path):
    (tmp_path / "study.json").write_text('{"format": 1, "windtunnel": "0", "preset": "scorecard", "environments": []}')
    assert f"`windtunnel scorecard MODEL --out {tmp_path}` resumes it" in refusal("claims", tmp_path)


def test_its_help_comes_without_a_model(capsys):
    assert main(["scorecard", "--help"]) == 0
    assert "usage: windtunnel scorecard MODEL [MODEL …]" in capsys.readouterr().out
