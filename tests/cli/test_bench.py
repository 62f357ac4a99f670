"""`windtunnel bench`: what it measures is printed, written and drawn; mistakes are one line."""

from __future__ import annotations

import json
import re
import sys

import pytest

from windtunnel.cli.bench import run
from windtunnel.cli.main import main
from windtunnel.errors import InputError
from windtunnel.training.speed import SECTIONS, Plan, bench
from windtunnel.training.speed.plan import chosen
from windtunnel.training.speed.tables import Table, plain_text, tables


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A quick measurement of the smallest case, made by the command, with its file."""
    file = tmp_path_factory.mktemp("bench") / "deep" / "result.json"
    assert main(["bench", "--device", "cpu", "--only", "quick", "profile", "--quick", "--json", str(file)]) == 0
    return file


def test_the_result_is_written_with_its_environment(result):
    told = json.loads(result.read_text())
    assert told["environment"]["versions"]["torch"] and told["matrix_flops_per_s"] > 1e8 and told["left_out"] == {}
    (row,) = told["profile"]
    assert row["case"] == "quick" and row["batch"] == 128 and row["ms_per_step"] > 0 and row["operations"]
    assert "training" not in told  # a section was named: only that one
    assert "unfinished" not in told


def test_a_result_is_shown_and_drawn_again(result, output, tmp_path):
    told = json.loads(result.read_text())
    plots = [tmp_path / "a.png", tmp_path / "b.svg"]
    shown = output("bench", "--read", result, "--plot", plots[0])
    output("bench", "--read", result, "--plot", plots[1])
    assert told["environment"]["device"] in shown and "most expensive operations, quick" in shown
    assert re.search(r"^ quick +128 ", shown, re.MULTILINE)
    assert plots[0].read_bytes()[:4] == b"\x89PNG" and "<svg" in plots[1].read_text()


def test_training_rows_hold_what_the_issue_asks_for():
    told = bench(Plan("cpu", ("training", "seeds"), ("quick",), batch=16, quick=True))
    (row,) = told["training"]
    assert row["sequences_per_s"] > 0 and row["batch"] == 16 and row["seeds"] == 1
    peak = row["sequences_per_s"] * row["flops_per_sequence"] / row["share_of_peak"]
    assert 1e8 < peak < 1e14 and abs(row["parameters"] / 60_000 - 1) < 0.01
    (seeds,) = told["seeds"]
    assert seeds["cost_of_one"] == pytest.approx(seeds["together_ms"] / seeds["one_ms"]) and seeds["seeds"] == 5
    assert seeds["cost_of_batch"] == pytest.approx(seeds["larger_ms"] / seeds["one_ms"])


def test_what_the_time_limit_leaves_out_is_named(monkeypatch):
    monkeypatch.setattr(Plan, "limit_s", lambda self, section: 0.0)
    said: list[str] = []
    told = bench(Plan("cpu", ("training", "growth", "evaluation")), said.append)
    assert told["training"] == told["growth"] == told["evaluation"] == [] and said == []
    assert "quick" in told["left_out"]["training"] and len(told["left_out"]["growth"]) == 19


def test_what_is_stopped_leaves_the_rows_it_had(monkeypatch, capsys, output, tmp_path):
    """A sitting on a card once ended a minute too early and took eleven of twelve rows with it."""

    def stopped(recipe, device, about_s, episodes=None):
        if scored:
            raise KeyboardInterrupt
        scored.append(recipe)
        return {"episodes_per_call": 1, "episodes_per_s": 2.0}

    scored: list[object] = []
    monkeypatch.setattr(sys.modules["windtunnel.training.speed.bench"], "evaluation_rate", stopped)
    file, part = tmp_path / "result.json", tmp_path / "result.json.part"
    file.write_text("an earlier one")
    words = ["--device", "cpu", "--only", "evaluation", "startup", "--quick", "--json", str(file)]
    with pytest.raises(KeyboardInterrupt, match=r"the rows so far are in .*result\.json\.part"):
        run(words)
    assert file.read_text() == "an earlier one"
    told = json.loads(part.read_text())
    (row,) = told["evaluation"]
    assert row["episodes_per_s"] == 2.0 and told["unfinished"] == ["evaluation", "startup"]
    capsys.readouterr()
    assert "cut short, rows are missing: evaluation, startup" in output("bench", "--read", part)
    monkeypatch.setattr("windtunnel.cli.bench.bench", lambda plan, say, keep: (keep(told), told)[1])
    run(words)
    assert json.loads(file.read_text()) == told and not part.exists()


def test_a_measurement_that_fails_says_where_its_rows_are(monkeypatch, capsys, tmp_path):
    def failing(plan, say, keep):
        keep({})
        raise InputError("out of memory")

    monkeypatch.setattr("windtunnel.cli.bench.bench", failing)
    assert main(["bench", "--device", "cpu", "--only", "quick", "--json", str(tmp_path / "a.json")]) == 2
    said = capsys.readouterr().err
    assert f"the rows so far are in {tmp_path / 'a.json.part'}" in said and said.endswith("out of memory\n")


def test_a_disk_that_is_full_meanwhile_stops_no_measurement(monkeypatch):
    def full(result):
        raise InputError("disk full")

    rows = {"episodes_per_call": 1, "episodes_per_s": 2.0}
    monkeypatch.setattr(sys.modules["windtunnel.training.speed.bench"], "evaluation_rate", lambda *given: rows)
    assert len(bench(Plan("cpu", ("evaluation",), quick=True), keep=full)["evaluation"]) == 4


def test_words_of_only():
    assert chosen([], "cpu") == (tuple(SECTIONS), ())
    assert chosen(["hmm/lstm"], "cpu") == (("training",), ("hmm/lstm",))
    assert chosen(["seeds", "hmm/lstm", "training"], "cpu") == (("training", "seeds"), ("hmm/lstm",))


def test_quick_runs_leave_compilation_out_unless_it_is_asked_for():
    assert Plan("cpu", quick=True).limit_s("compile") == 0
    assert Plan("cpu", ("compile",), quick=True).limit_s("compile") > 0
    assert sum(Plan("cpu").limit_s(section) for section in SECTIONS) <= 180
    assert sum(Plan("cpu", quick=True).limit_s(section) for section in SECTIONS) <= 50


def test_a_quick_evaluation_scores_fewer_of_long_sequences(monkeypatch):
    asked: list[tuple[str, int | None]] = []

    def rate(recipe, device, about_s, episodes=None):
        asked.append((type(recipe.tunnel).__name__, episodes))
        return {}

    monkeypatch.setattr(sys.modules["windtunnel.training.speed.bench"], "evaluation_rate", rate)
    for quick in (True, False):
        bench(Plan("cpu", ("evaluation",), quick=quick))
    short = [("HMM", None), ("Bijection", None), ("Urn", None)]
    assert asked == [*short, ("Recall", 128), *short, ("Recall", None)]


def test_every_section_has_a_table_of_its_rows():
    row = {
        "case": "c", "what": "w", "tunnel": "t", "axis": "width", "size": 2, "cache": "cold", "parameters": 10,
        "seeds": 5, "batch": 3, "sequences_per_s": 1e4, "ms_per_step": 0.5, "flops_per_sequence": 2e6,
        "share_of_peak": 0.25, "memory_mib": 7.0, "setup_s": 1.0, "one_ms": 1.0, "together_ms": 2.0, "cost_of_one": 2.0,
        "cost_of_batch": 2.0,
        "episodes_per_s": 9.0, "over_plain": 3.0, "over_tuned": 2.0, "seconds": 1.5, "beyond_torch_s": 0.5,
        "gaps_ms": 0.1,
        **{f"{part}_ms": 0.1 for part in ("sampling", "forward", "backward", "optimiser")},
    }  # fmt: skip
    made = list(tables({section: [row] for section in SECTIONS}))
    assert [table.title for table in made] == list(SECTIONS)
    assert all(len(table.columns) == len(table.justify) == len(table.rows[0]) for table in made)
    assert "25.0%" in made[0].rows[0] and "2.00 ×" in made[1].rows[0]


def test_plain_text_lines_up():
    text = plain_text(Table("t", ["name", "n"], "lr", [["a", "1"], ["long one", "20"]]))
    assert text.splitlines() == ["t", "name       n", "------------", "a          1", "long one  20"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--only trainings", ["--only = 'trainings'", "training, seeds", "hmm/lstm"]),
        ("--only", ["--only has no value", "a word or several"]),
        ("--only ,", ["--only has no value", "a word or several"]),
        ("--plot x.txt", ["--plot = 'x.txt'", ".png"]),
        ("--device tpu", ["device = 'tpu'", "cpu"]),
        ("--read no-such-file.json", ["no-such-file.json", "cannot be read"]),
        ("--jsn x", ["--jsn", "--json"]),
        ("--batch x", ["--batch = 'x'", "a whole number"]),
        ("--batch 0", ["batch = 0", "a whole number of at least 1"]),
    ],
)
def test_mistakes_are_one_line(refusal, words, parts):
    said = refusal("bench", *words.split())
    assert all(part in said for part in parts)


@pytest.fixture
def unmeasured(monkeypatch):
    """Nothing may be measured: a mistake has to be found before."""

    def measured(*given):
        pytest.fail("it was measured first")

    monkeypatch.setattr("windtunnel.cli.bench.bench", measured)


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_place_that_cannot_be_written_is_refused_before_measuring(refusal, unmeasured, tmp_path, option):
    (tmp_path / "file").write_text("")
    (tmp_path / "a.png").mkdir()
    for path, why in ((tmp_path / "file" / "a.png", "cannot be written"), (tmp_path / "a.png", "not a regular file")):
        said = refusal("bench", "--device", "cpu", "--only", "quick", option, path)
        assert str(path) in said and why in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "file"]  # the trial leaves nothing


def test_a_plot_of_nothing_is_refused_before_measuring(refusal, unmeasured, result, tmp_path):
    said = refusal("bench", "--device", "cpu", "--only", "sampling", "--plot", tmp_path / "a.png")
    assert "--plot" in said and "training, seeds, growth, profile" in said and "'sampling'" in said
    told = json.loads(result.read_text())
    file = tmp_path / "sampling.json"
    file.write_text(json.dumps(told | {"profile": [], "sampling": [{"tunnel": "hmm", "episodes_per_s": 1.0}]}))
    assert "--plot" in refusal("bench", "--read", file, "--plot", tmp_path / "a.png")


def test_what_was_measured_is_printed_even_if_it_cannot_be_written(result, capsys, monkeypatch, tmp_path):
    def full(kept, content):
        raise InputError("disk full")

    told = json.loads(result.read_text())
    monkeypatch.setattr("windtunnel.cli.bench.bench", lambda plan, say, keep: told)
    monkeypatch.setattr("windtunnel.cli.bench.PartialResult.whole", full)
    assert main(["bench", "--device", "cpu", "--only", "profile", "--json", str(tmp_path / "a.json")]) == 2
    said = capsys.readouterr()
    assert "most expensive operations, quick" in said.out and "disk full" in said.err


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_of_an_earlier_measurement_are_not_called_those_of_this_one(rows, capsys, monkeypatch, tmp_path):
    def stopped(plan, say, keep):
        for _ in range(rows):
            keep({"of": "this one"})
        raise KeyboardInterrupt

    part = tmp_path / "a.json.part"
    part.write_text('{"of": "an earlier one"}')
    monkeypatch.setattr("windtunnel.cli.bench.bench", stopped)
    assert main(["bench", "--device", "cpu", "--only", "quick", "--json", str(tmp_path / "a.json")]) == 130
    assert (str(part) in capsys.readouterr().err) == bool(rows)
    assert json.loads(part.read_text())["of"] == ("this one" if rows else "an earlier one")


def test_what_was_measured_is_written_even_if_nobody_reads_the_output(result, monkeypatch, tmp_path):
    def gone(result):
        raise BrokenPipeError

    told = json.loads(result.read_text())
    monkeypatch.setattr("windtunnel.cli.bench.bench", lambda plan, say, keep: told)
    monkeypatch.setattr("windtunnel.cli.bench._print", gone)
    places = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    with pytest.raises(BrokenPipeError):
        run(["--device", "cpu", "--only", "profile", *places])
    assert json.loads((tmp_path / "a.json").read_text()) == told and (tmp_path / "a.png").exists()


def test_a_row_that_is_missing_is_an_error_after_all_else_is_done(result, capsys, monkeypatch, tmp_path):
    told = json.loads(result.read_text()) | {"failed": {"compile": ["quick: no compiler", "hmm/lstm: no compiler"]}}
    monkeypatch.setattr("windtunnel.cli.bench.bench", lambda plan, say, keep: told)
    json_file, plot = tmp_path / "a.json", tmp_path / "a.png"
    words = ["--device", "cpu", "--only", "profile", "--json", str(json_file), "--plot", str(plot)]
    assert main(["bench", *words]) == 2
    said = capsys.readouterr()
    assert said.err == "windtunnel: error: without a row: quick: no compiler; hmm/lstm: no compiler\n"
    assert "most expensive operations, quick" in said.out and "compile: failed: quick: no compiler" in said.out
    assert json.loads(json_file.read_text()) == told and plot.exists()
    assert main(["bench", "--read", str(json_file)]) == 0  # it is shown whole, whatever it holds


def test_the_batch_can_be_chosen(capsys, tmp_path):
    file = tmp_path / "a.json"
    words = ["--device", "cpu", "--only", "quick", "--quick", "--batch", "8", "--json", str(file)]
    assert main(["bench", *words]) == 0
    (row,) = json.loads(file.read_text())["training"]
    assert row["batch"] == 8


@pytest.mark.parametrize("words", ["--only growth", "--quick", "--batch 8", "--device=cpu"])
def test_what_is_read_is_not_measured_otherwise(refusal, result, words):
    option = words.replace("=", " ").split()[0]
    assert f"{option}: must be left out with --read" in refusal("bench", "--read", result, *words.split())


def test_a_row_that_lacks_what_is_drawn_is_one_line(result, capsys, tmp_path):
    told = json.loads(result.read_text())
    del told["profile"][0]["backward_ms"]
    file = tmp_path / "a.json"
    file.write_text(json.dumps(told))
    plot = tmp_path / "a.png"
    assert main(["bench", "--read", str(file), "--plot", str(plot)]) == 2 and not plot.exists()
    told = f"windtunnel: error: --plot {plot}: every row of profile must have 'backward_ms'\n"
    assert capsys.readouterr().err == told


def test_a_file_that_is_no_result_is_refused(refusal, tmp_path):
    file = tmp_path / "other.json"
    file.write_text("[]")
    assert "--read" in refusal("bench", "--read", file)
