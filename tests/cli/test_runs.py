"""`windtunnel runs` and `windtunnel export`: all runs below a folder, damaged ones included."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import sys

import pytest

import windtunnel as wt
from tests.training.cases import counts
from windtunnel.cli.main import main
from windtunnel.training.lock import locked


@pytest.fixture
def mixed(runs, tmp_path):
    """Copies of two finished runs, one unfinished, three damaged in different ways, and something that is no run."""
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    half = {"params": 2000, "preset": "quick", "steps": 9, "seeds": 2, "max_minutes": 1e-9, "device": "cpu"}
    wt.train(wt.tunnels.Bijection(symbols=4, length=4), "mlp", out=tmp_path / "half", **half)
    for name, file, content in (
        ("torn", "recipe.json", "{"),
        ("alien", "recipe.json", '{"format": 7, "windtunnel": "9.9"}'),
        ("lost", "seed-0/checkpoints.json", "no"),
    ):
        shutil.copytree(runs / "hmm", tmp_path / name)
        (tmp_path / name / file).write_text(content)
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_runs_json(mixed, output):
    told = json.loads(output("runs", mixed, "--json"))["runs"]
    by_name = {record["run"].removeprefix(f"{mixed}/"): record for record in told}
    assert list(by_name) == ["alien", "deep/bijection", "half", "hmm", "lost", "torn"]
    damaged = {"alien": "format = 7", "lost": "checkpoints.json: must be JSON", "torn": "recipe.json: must be JSON"}
    for name, why in damaged.items():
        assert by_name[name]["state"] == "damaged" and why in by_name[name]["why"]
    run = wt.load(mixed / "deep" / "bijection")
    record = by_name["deep/bijection"]
    assert record["kl_bits"] == sum(run.metrics(seed)[-1]["kl_bits"] for seed in (0, 1)) / 2
    assert record["parameters"] == wt.models.describe(run.models[0]).params
    assert wt.tunnels.from_dict(record["tunnel"]) == run.tunnel
    assert (record["model"], record["steps"], record["of"], record["seeds"]) == ("transformer", 12, 12, [0, 1])
    assert (record["state"], record["seconds"]) == ("finished", run.seconds()["train"])
    half = by_name["half"]
    assert (half["state"], half["steps"], half["of"]) == ("unfinished", 0, 9)
    assert half["kl_bits"] == wt.load(mixed / "half").metrics(0)[-1]["kl_bits"]


def test_the_size_of_one_s_own_model_is_told_without_building_it(output, tmp_path, monkeypatch):
    """Nor need it be registered, or be what it was."""
    options = {"steps": 2, "batch": 8, "validation_episodes": 8, "device": "cpu", "preset": "quick"}
    run = wt.train(wt.tunnels.Bijection(symbols=4, length=4), counts, out=tmp_path / "own", **options)
    for where in ("build", "from_spec"):
        monkeypatch.setattr(f"windtunnel.models.{where}", lambda *_, **__: pytest.fail("it was built"))
    (record,) = json.loads(output("runs", tmp_path, "--json"))["runs"]
    assert record["parameters"] == run.folder.parameters() == sum(p.numel() for p in counts(run.tunnel).parameters())


def test_runs_text(mixed, output):
    shown = output("runs", mixed)
    told = r"bijection symbols=4 length=4 +transformer +[\d,]+ +12/12 +2 +[\d.]+ +[\d.]+ +finished"
    assert shown.startswith(f"below {mixed}")
    assert re.search(rf"^ deep/bijection +{told}", shown, re.MULTILINE)
    assert re.search(r"^ half +.* 0/9 +2 .* unfinished", shown, re.MULTILINE)
    why = re.findall(rf"^damaged: {mixed}/(alien|lost|torn)[:/]", shown, re.MULTILINE)
    assert why == ["alien", "lost", "torn"]


def test_an_infinite_kl_is_standard_json_and_a_sign_in_the_table(runs, output, tmp_path):
    shutil.copytree(runs / "hmm", tmp_path / "hmm")
    record = {"step": 10, "loss_bits": 1.0, "kl_bits": math.inf, "entropy_mae_bits": 1.0}
    wt.load(tmp_path / "hmm").folder.seed(0).log(record)
    (record,) = json.loads(output("runs", tmp_path, "--json"))["runs"]
    assert record["kl_bits"] == "inf"
    assert " ∞ " in output("runs", tmp_path)


def test_the_kl_of_a_killed_run_is_that_of_the_step_it_goes_back_to(runs, output, tmp_path):
    shutil.copytree(runs / "deep" / "bijection", tmp_path / "killed")
    run = wt.load(tmp_path / "killed")
    first, second = (run.folder.seed(seed) for seed in (0, 1))
    shutil.copy(second.path / "metrics.jsonl", tmp_path / "history")
    second.forget_after(10)  # the other seed is finished: 12 steps
    shutil.copy(tmp_path / "history", second.path / "metrics.jsonl")  # and this one was validated beyond its checkpoint
    (record,) = json.loads(output("runs", tmp_path, "--json"))["runs"]
    at_ten = [next(r["kl_bits"] for r in seed.metrics() if r["step"] == 10) for seed in (first, second)]
    assert (record["state"], record["steps"], record["kl_step"]) == ("unfinished", 10, 10)
    assert record["kl_bits"] == sum(at_ten) / 2 != sum(seed.metrics()[-1]["kl_bits"] for seed in (first, second)) / 2
    assert re.search(r" 10/12 +2 +[\d.]+ +[\d.]+ +unfinished", output("runs", tmp_path))


def test_a_kl_of_an_earlier_step_than_the_checkpoint_says_so(output, tmp_path):
    """Checkpoints and validations need not fall on the same steps."""
    options = {"params": 2000, "preset": "quick", "steps": 12, "validate_every": 4, "checkpoint_every": 5, "ladder": 2}
    run = wt.train(wt.tunnels.Bijection(symbols=4, length=4), "mlp", out=tmp_path / "odd", device="cpu", **options)
    history = run.metrics(0)
    run.folder.seed(0).forget_after(11)
    (record,) = json.loads(output("runs", tmp_path, "--json"))["runs"]
    assert (record["steps"], record["kl_step"], record["kl_bits"]) == (10, 8, history[-2]["kl_bits"])
    assert re.search(r" 10/12 +1 +[\d.]+ at 8 +[\d.]+ +unfinished", output("runs", tmp_path))


def test_a_run_that_is_being_trained_is_said_to_run(mixed, output):
    with locked(mixed / "half"):
        told = json.loads(output("runs", mixed, "--json"))["runs"]
    assert {record["run"].removeprefix(f"{mixed}/"): record["state"] for record in told}["half"] == "running"


def test_runs_of_one_run_and_of_none(runs, output, tmp_path):
    (only,) = json.loads(output("runs", runs / "hmm", "--json"))["runs"]
    assert only["run"] == str(runs / "hmm")
    assert output("runs", tmp_path) == f"no runs below {tmp_path}\n"
    assert json.loads(output("runs", tmp_path, "--json"))["runs"] == []


def test_a_run_that_has_lost_its_recipe_is_told_everywhere(runs, output, refusal, capsys, tmp_path):
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    lost = tmp_path / "deep" / "bijection"
    (lost / "recipe.json").unlink()
    why = f"{lost}: holds seed-0/checkpoints.json but no recipe.json, so how it was trained is unknown: "
    first, second = json.loads(output("runs", tmp_path, "--json"))["runs"]
    assert (first["run"], first["state"], second["state"]) == (str(lost), "damaged", "finished")
    assert f"damaged: {why}" in output("runs", tmp_path) and f"damaged: {why}" in output("runs", lost)
    for command in ("evaluate", "inspect", "report", "figures"):
        assert why in refusal(command, lost)
    train = "train bijection transformer --symbols 4 --length 4 --preset quick --params 2000 --device cpu --out"
    assert why in refusal(*train.split(), lost)
    assert main(["export", str(tmp_path), "--format", "csv"]) == 0
    assert capsys.readouterr().err.startswith(f"windtunnel: left out {why}")


def test_a_run_that_is_being_thrown_away_is_nobodys(runs, output, refusal, tmp_path):
    """A study that is killed at it leaves a hidden folder, half gone."""
    shutil.copytree(runs / "hmm", tmp_path / ".all" / "hmm")  # hidden folders above are none of ours
    shutil.copytree(runs / "hmm", tmp_path / ".all" / ".mlp.discarded")
    (tmp_path / ".all" / ".mlp.discarded" / "recipe.json").unlink()
    (record,) = json.loads(output("runs", tmp_path / ".all", "--json"))["runs"]
    assert record["run"] == str(tmp_path / ".all" / "hmm") and record["state"] == "finished"
    assert "of 1 run written" in output("export", tmp_path / ".all", "--format", "csv")
    assert "no runs below" in output("runs", tmp_path) and "must be a results folder" in refusal("report", tmp_path)


def test_a_recipe_of_fewer_steps_than_were_taken_is_told(runs, output, refusal, tmp_path):
    run = shutil.copytree(runs / "hmm", tmp_path / "hmm")
    (run / "recipe.json").write_text((run / "recipe.json").read_text().replace('"steps": 10', '"steps": 4'))
    why = f"{run}/seed-0: holds step 10, but the recipe has 4 steps"
    assert f"damaged: {why}" in output("runs", run) and why in refusal("evaluate", run)


@pytest.mark.parametrize("kept", [2, 0])
def test_a_history_that_was_cut_short_is_told_wherever_its_numbers_are_shown(kept, runs, output, capsys, tmp_path):
    run = shutil.copytree(runs / "hmm", tmp_path / "hmm")
    metrics = run / "seed-0" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:kept])) if kept else metrics.unlink()
    ends = "ends at step 5" if kept else "is missing"
    why = f"{metrics}: {ends}, but the run was validated at step 10: it was cut short"
    (record,) = json.loads(output("runs", run, "--json"))["runs"]
    assert record["state"] == "damaged" and record["why"].startswith(why) and "kl_bits" not in record
    assert f"damaged: {why}" in output("runs", run)
    shutil.copytree(runs / "deep", tmp_path / "deep")
    assert main(["export", str(tmp_path), "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("8 rows of 1 run ") and said.err.startswith(f"windtunnel: left out {why}")
    options = "--preset quick --params 2000 --option positions=none --steps 10 --batch 8 --validate-every 5"
    more = "--validation-episodes 32 --checkpoint-every 5 --ladder 3 --states 2 --symbols 3 --length 4 --device cpu"
    for last in ([], ["--json"]):
        words = ["train", "hmm", "transformer", *options.split(), *more.split(), "--out", str(run), *last]
        assert main(words) == 2
        said = capsys.readouterr()
        first, error = said.err.splitlines()
        assert first.endswith("is finished (10 steps); nothing to do") and said.out == ""
        assert error.startswith(f"windtunnel: error: {why}") and f"`windtunnel evaluate {run}`" in error


def test_last_weights_that_are_gone_are_told_with_the_way_out(runs, output, refusal, tmp_path):
    run = shutil.copytree(runs / "hmm", tmp_path / "hmm")
    (run / "seed-0" / "step-00000010.safetensors").unlink()
    why = f"{run}/seed-0/step-00000010.safetensors: is missing; the checkpoint of step 3 (step-00000003.safetensors) is"
    assert f"damaged: {why}" in output("runs", run)
    line = refusal("evaluate", run)
    assert f"{why} intact (evaluate can use it: --step 3); the command that trained the run recreates it" in line
    assert "weights of step 3 of 10" in output("evaluate", run, "--step", 3, "--episodes", 16, "--device", "cpu")


def expected(folder) -> list[dict]:
    rows = []
    told = {"deep/bijection": "bijection symbols=4 length=4", "hmm": "hmm states=2 symbols=3 length=4"}
    for name, tunnel in told.items():
        run = wt.load(folder / name)
        for seed in run.recipe.seeds:
            same = {"run": str(folder / name), "tunnel": tunnel, "model": "transformer", "seed": seed}
            rows += [same | record for record in run.metrics(seed)]
    return rows


def test_export_parquet(runs, output, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "new" / "table.parquet"
    said = output("export", runs, "--out", file)
    assert said == f"11 rows of 2 runs written to {file}\n"
    table = parquet.read_table(file)
    assert table.to_pylist() == expected(runs)
    assert table.column_names[:5] == ["run", "tunnel", "model", "seed", "step"]
    assert str(table.schema.field("loss_bits").type) == "double"


def test_export_csv_replaces_the_file_as_a_whole(runs, output, tmp_path):
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "metrics.csv"
    file.write_text("old" * 10_000)
    assert output("export", tmp_path, "--format", "csv") == f"11 rows of 2 runs written to {file}\n"
    rows = list(csv.DictReader(file.read_text().splitlines()))
    for row, record in zip(rows, expected(tmp_path), strict=True):
        loss = record.pop("loss_bits")
        assert row.pop("loss_bits") == ("" if loss is None else repr(loss))
        assert row == {name: str(value) for name, value in record.items()}
    assert not list(tmp_path.glob("*.tmp"))


def test_the_name_of_the_file_says_which_format(runs, output, tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "table.csv"
    for words in ((), ("--format", "csv")):
        output("export", runs, *words, "--out", file)
        assert len(list(csv.DictReader(file.read_text().splitlines()))) == 11
    output("export", runs, "--out", tmp_path / "TABLE.CSV")
    assert (tmp_path / "TABLE.CSV").read_text() == file.read_text()
    output("export", runs, "--format", "parquet", "--out", tmp_path / "table.parquet")
    assert (tmp_path / "table.parquet").read_bytes().startswith(b"PAR1")
    output("export", runs, "--format", "csv", "--out", tmp_path / "table")  # a name that promises nothing
    assert (tmp_path / "table").read_text() == file.read_text()
    shutil.copytree(runs, tmp_path / "runs")
    assert output("export", tmp_path / "runs").endswith("metrics.parquet\n")  # nothing said: Parquet, as ever


@pytest.mark.parametrize("where", ["gone", "empty"])
def test_an_export_of_nothing_makes_no_folder(where, refusal, tmp_path):
    (tmp_path / "empty").mkdir()
    refusal("export", tmp_path / where)
    refusal("export", tmp_path / where, "--out", tmp_path / "new" / "table.csv")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_place_that_cannot_be_written_is_refused_before_runs_are_read(runs, refusal, monkeypatch, tmp_path):
    monkeypatch.setattr("windtunnel.cli.export.load", lambda path: pytest.fail("it was read first"))
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal("export", runs, "--out", tmp_path / "file" / "table.csv")


def test_export_leaves_out_what_is_damaged_and_says_so(mixed, capsys):
    assert main(["export", str(mixed), "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("12 rows of 3 runs")
    lines = said.err.splitlines()
    assert [line.split(f"{mixed}/")[1].split("/")[0].split(":")[0] for line in lines] == ["alien", "lost", "torn"]
    assert all(line.startswith("windtunnel: left out ") for line in lines)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system takes no such name")
def test_a_folder_whose_name_is_no_text_is_told(runs, tmp_path, output, monkeypatch):
    shutil.copytree(runs / "hmm", tmp_path / "run")
    shutil.copytree(runs / "hmm", tmp_path / os.fsdecode(b"caf\xe9"))
    records = json.loads(output("runs", tmp_path, "--json"))["runs"]
    assert sorted("must be a path in UTF-8" in record.get("why", "") for record in records) == [False, True]
    said = []
    monkeypatch.setattr("windtunnel.cli.export.say", said.append)
    assert "of 1 run written" in output("export", tmp_path, "--format", "csv")
    assert len(said) == 1 and said[0].endswith(": must be a path in UTF-8")


def test_export_without_pyarrow(runs, refusal, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    line = refusal("export", runs, "--out", tmp_path / "table.parquet")
    assert "must be csv unless the package pyarrow is installed (pip install pyarrow)" in line
    assert not (tmp_path / "table.parquet").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("runs", ["runs must be followed by a folder with runs"]),
        ("runs nowhere", ["nowhere: there is no such folder"]),
        ("runs hmm/recipe.json", ["hmm/recipe.json: must be a folder, but is a file"]),
        ("runs . --all", ["unknown option '--all'"]),
        ("export", ["export must be followed by a folder with runs"]),
        ("export nowhere", ["nowhere: there is no such folder"]),
        ("export . --format xlsx", ["--format = 'xlsx'", "parquet, csv"]),
        ("export . --format csv --out .", ["--out = '.'", "a file"]),
        ("export . --out x.xlsx", ["--out = 'x.xlsx': must be a .parquet or .csv file"]),
        ("export . --out table", ["--out = 'table': must be a .parquet or .csv file"]),
        ("export . --format csv --out x.parquet", ["--out = 'x.parquet': must be a .csv file, as --format csv says"]),
        ("export . --format parquet --out x.csv", ["--out = 'x.csv': must be a .parquet file, as --format parquet"]),
    ],
)
def test_one_line(words, told, runs, refusal, monkeypatch):
    monkeypatch.chdir(runs)
    line = refusal(*words.split())
    for part in told:
        assert part in line
