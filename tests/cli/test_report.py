"""`windtunnel report` and `windtunnel figures` from the command line."""

from __future__ import annotations

import shutil

import pytest

from windtunnel.cli.main import main
from windtunnel.study.folder.results import committed


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, runs):
    """A run with its exhibit, so that each test need not look into the network again."""
    folder = tmp_path_factory.mktemp("report") / "hmm"
    shutil.copytree(runs / "hmm", folder)
    assert main(["report", str(folder), "--no-zoo", "--device", "cpu"]) == 0
    return folder


def test_report_writes_one_file_and_says_where(run_folder, capsys):
    assert main(["report", str(run_folder), "--no-zoo", "--out", str(run_folder / "a.html"), "--device", "cpu"]) == 0
    said = capsys.readouterr()
    *lacks, last = said.out.splitlines()
    assert last.startswith(f"report: {run_folder / 'a.html'} (") and last.endswith("MB)") and said.err == ""
    # nothing is wrong with such a page, and no line may read as if there were
    assert all(line.startswith("not shown yet (optional): ") and ": windtunnel " in line for line in lacks)
    assert any(f"windtunnel inspect {run_folder} --only ablate" in line for line in lacks)
    text = (run_folder / "a.html").read_text()
    assert text.startswith("<!doctype html>") and "Not here yet" in text
    assert (run_folder / "exhibits" / "hmm.json").exists()


def test_more_runs_can_be_given(run_folder, runs, tmp_path, capsys):
    folder, out = tmp_path / "hmm", tmp_path / "both.html"
    shutil.copytree(run_folder, folder)
    assert main(["report", str(folder), "--no-zoo", "--runs", str(runs / "deep"), "--out", str(out)]) == 0
    assert "bijection: looking into 2 networks" in capsys.readouterr().err
    assert "--runs" in out.read_text()


def test_figures_say_what_is_missing(run_folder, tmp_path, capsys):
    words = ["figures", str(run_folder), "--no-zoo", "--only", "entropy", "--out", str(tmp_path / "f")]
    assert main(words) == 0
    assert {path.name for path in (tmp_path / "f").iterdir()} == {
        f"entropy-hmm.{kind}" for kind in ("pdf", "png", "csv")
    }
    told = capsys.readouterr().out
    assert "not shown yet (optional): layer ablations" in told
    assert f"windtunnel inspect {run_folder} --only ablate" in told
    assert f" && windtunnel {' '.join(words)}\n" in told and "windtunnel report" not in told  # what was typed, again
    assert "(3 files)" in told


def test_a_history_that_was_cut_short_is_missing_from_the_page_and_told(runs, tmp_path, capsys):
    """The rest of the page is there; and once the file is whole again, so is the history."""
    folder = shutil.copytree(runs / "hmm", tmp_path / "hmm")
    metrics = folder / "seed-0" / "metrics.jsonl"
    good = metrics.read_text()
    words = ["report", str(folder), "--no-zoo", "--device", "cpu"]
    why = f"{metrics}: ends at step 5, but the run was validated at step 10: it was cut short"
    for text in ("".join(good.splitlines(keepends=True)[:2]), good):
        metrics.write_text(text)
        assert main(words) == 0
        said, page = capsys.readouterr(), (folder / "report.html").read_text()
        told, damaged = said.out, text != good
        assert ("looking into 1 network" in said.err) == damaged  # mended, the networks are as they were
        assert (f"missing: the training history of hmm ({why}" in told) == damaged == ("it was cut short" in page)
        assert ("Distance against training time" in page) != damaged
        assert "training histories" not in told and "KL per step" not in told


def test_a_run_is_not_told_to_make_a_study(run_folder, tmp_path, monkeypatch, capsys):
    """It would need a GPU, and go into another folder; the study that is there takes the run beside it."""
    study = committed()
    assert study is not None
    assert main(["report", str(run_folder), "--no-zoo", "--out", str(tmp_path / "a.html")]) == 0
    told = capsys.readouterr().out
    assert "reproduce" not in told and "other lengths" not in told
    assert f"study's networks: windtunnel report {study.path} --runs {run_folder}\n" in told
    monkeypatch.setattr("windtunnel.report.missing_parts.committed", lambda: None)
    assert main(["report", str(run_folder), "--no-zoo", "--out", str(tmp_path / "a.html")]) == 0
    assert "primitives table: windtunnel reproduce --preset paper\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "figures"])
def test_a_damaged_survey_is_one_line(command, run_folder, refusal, tmp_path):
    folder = tmp_path / "hmm"
    shutil.copytree(run_folder, folder)
    (folder / "survey.json").write_text("{")
    line = refusal(command, folder)
    assert "survey.json: must be JSON, but is damaged" in line
    assert f"`windtunnel inspect {folder} --replace` measures again" in line


def test_refusals(run_folder, refusal, tmp_path):
    assert "there is no such folder" in refusal("report", tmp_path / "no")
    assert "must be a results folder" in refusal("report", tmp_path, "--no-zoo")
    assert "must be a file, not a folder" in refusal("report", run_folder, "--out", tmp_path)
    assert "error: --only = 'cat': must be one of" in refusal("figures", run_folder, "--no-zoo", "--only", "cat")
    assert "error: --runs has no value: must be a path or several" in refusal("report", run_folder, "--runs")
    assert "figures must be followed by a folder with runs or results" in refusal("figures")
    (tmp_path / "file").write_text("")
    assert "must be a folder" in refusal("figures", run_folder, "--out", tmp_path / "file")


@pytest.fixture
def unread(monkeypatch):
    """Nothing may be looked into: a mistake has to be found before."""
    for command in ("report", "figures"):
        monkeypatch.setattr(f"windtunnel.cli.{command}.read", lambda *_, **__: pytest.fail("it was read first"))


@pytest.mark.parametrize("command", ["report", "figures"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(command, run_folder, refusal, unread, tmp_path):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "deep" / "a.html"
    assert f"error: {place}: cannot be written (Not a directory)" in refusal(command, run_folder, "--out", place)


def test_a_figure_that_does_not_exist_is_refused_before_any_work(run_folder, refusal, unread):
    line = refusal("figures", run_folder, "--only", "entropy,nope")
    assert "error: --only = 'nope': must be one of primitives, " in line and "training-time" in line
    assert "error: --only = '': must name at least one of primitives, " in refusal("figures", run_folder, "--only", ",")


@pytest.mark.parametrize("command", ["report", "figures"])
def test_a_refused_folder_or_name_leaves_no_place_behind(command, run_folder, refusal, tmp_path):
    """The place is tried first; what is refused after that must not have made it."""
    place = tmp_path / "new" / "a.html"
    (tmp_path / "empty").mkdir()
    assert "no such folder" in refusal(command, tmp_path / "gone")
    assert "must be a results folder" in refusal(command, tmp_path / "empty", "--no-zoo", "--out", place)
    if command == "figures":
        refusal(command, run_folder, "--no-zoo", "--only", "cat", "--out", place)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]
