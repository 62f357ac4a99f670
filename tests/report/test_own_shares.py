"""The primitives table of a run's own page: the share that `evaluate` prints, beside the same yardsticks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import windtunnel as wt
from tests.training.cases import counts
from windtunnel import models
from windtunnel.report import Source, read
from windtunnel.report.figures import names
from windtunnel.report.missing_parts import verdicts_lacking
from windtunnel.report.own_shares import KEY, own_share
from windtunnel.report.page import render
from windtunnel.report.shares import own_told, primitives, primitives_table
from windtunnel.report.subjects import Subject
from windtunnel.report.verdicts import headline, section_says
from windtunnel.study.trials import Trial
from windtunnel.training import load
from windtunnel.tunnels import Urn

SAYS = "mine: which primitive it realises"


@pytest.fixture
def run(demo, tmp_path) -> Path:
    """A run that tests accumulation, outside any study."""
    return Path(shutil.copytree(demo / "runs" / "urn-transformer", tmp_path / "mine"))


def forget(run: Path) -> None:
    """Make the exhibit one from before shares were kept."""
    path = run / "exhibits" / f"{run.name}.json"
    path.write_text(json.dumps({part: what for part, what in json.loads(path.read_text()).items() if part != KEY}))


def test_a_run_alone_shows_the_share_that_evaluate_prints(run):
    found = read(run, with_zoo=False)
    expected = wt.primitives(load(run))
    assert found.exhibits["mine"][KEY]["share"] == expected.to_dict()
    table = primitives(found)
    (column,), (row,) = table.columns, table.rows
    assert (column.primitive, column.world, row.name, table.notes) == ("accumulation", "urn", "mine", [])
    assert {name: one.mean for name, one in column.scale} == {
        "B: last-observation": "0.000",
        "counter (no transport, no binding)": "1.000",
    }
    assert row.shares[0] is not None and row.shares[0].told == expected.told
    assert [line[0] for line in primitives_table(found).rows] == ["mine", *(name for name, _ in column.scale)]
    assert headline(found)[1] == own_told(found) and f"mine: accumulation {expected.state}, share" in own_told(found)
    text = render(found)
    assert 'id="primitives"' in text and "published claims hold" not in section_says(found)
    assert "primitives" in names(found)
    assert not any("primitives table" in lack.what for lack in verdicts_lacking(found))


def test_a_share_is_measured_once_and_also_where_an_earlier_page_had_none(run):
    read(run, with_zoo=False)
    said: list[str] = []
    read(run, with_zoo=False, say=said.append)
    assert said == []
    path = run / "exhibits" / "mine.json"
    first = json.loads(path.read_text())[KEY]
    forget(run)
    found = read(run, with_zoo=False, say=said.append)
    assert said == [SAYS]
    assert found.exhibits["mine"][KEY] == first == json.loads(path.read_text())[KEY]


def test_where_the_tunnel_tests_no_primitive_a_line_says_so(demo, tmp_path):
    run = shutil.copytree(demo / "runs" / "hmm-lstm", tmp_path / "chain")
    found = read(run, with_zoo=False)
    assert found.exhibits["chain"][KEY] is None
    (line,) = primitives(found).notes
    assert line.startswith("The tunnel hmm tests no single primitive, so there is no share of chain: an urn and")
    text = render(found)
    assert line in text and 'id="primitives"' not in text and "primitives" not in names(found)
    assert len(headline(found)) == 1


@pytest.fixture
def asks(monkeypatch) -> Callable[[Trial | None], None]:
    """Give every tunnel this trial."""

    def give(asked: Trial | None) -> None:
        for room in ("report.own_shares", "study.primitive_shares"):
            monkeypatch.setattr(f"windtunnel.{room}.trial_of", lambda tunnel: asked)

    return give


def test_a_share_follows_the_trial_that_the_tunnel_has_now(run, asks):
    said: list[str] = []

    def shown(asked: Trial | None):
        asks(asked)
        said.clear()
        return read(run, with_zoo=False, say=said.append).exhibits["mine"][KEY]

    known = wt.baselines(load(run).recipe.tunnel)
    plain = Trial("accumulation", {"uniform": known["uniform"]})
    assert shown(None) is None and shown(None) is None and said == []
    first = shown(plain)  # as a plugin registers it later
    assert said == [SAYS] and list(first["rows"]) == ["B: uniform"]
    assert first["trial"] == {"primitive": "accumulation", "where": None, "yardsticks": ["B: uniform"]}
    assert shown(plain) == first and said == []
    other = shown(replace(plain, primitive="binding"))
    assert said == [SAYS] and other["share"]["primitive"] == "binding"
    more = shown(replace(plain, primitive="binding", others={"the last": known["last-observation"]}))
    assert said == [SAYS] and list(more["rows"]) == ["B: uniform", "the last"]
    elsewhere = shown(replace(plain, primitive="binding", where="late"))
    assert said == [SAYS] and "where = 'late'" in elsewhere["missing"]
    assert shown(None) is None


def test_whatever_tells_two_trials_apart_is_compared(run):
    first = read(run, with_zoo=False).exhibits["mine"][KEY]
    path = run / "exhibits" / "mine.json"
    for part in ("primitive", "where", "yardsticks"):
        record = json.loads(path.read_text())
        record[KEY]["trial"][part] = "another"
        path.write_text(json.dumps(record))
        said: list[str] = []
        found = read(run, with_zoo=False, say=said.append)
        assert found.exhibits["mine"][KEY] == first and said == [SAYS], part


def test_fewer_episodes_than_evaluate_takes_are_told(run):
    found = read(run, with_zoo=False)
    record = dict(found.exhibits["mine"])
    record[KEY] = record[KEY] | {"episodes": 266}
    (line,) = primitives(replace(found, exhibits={"mine": record})).notes
    assert line == "Measured for this page on the first 266 of evaluate's 4,096 test episodes: mine."


def test_beside_a_study_a_run_has_a_row_of_its_own_and_the_studys_yardsticks(scratch, tmp_path):
    more = Path(shutil.copytree(scratch / "runs" / "urn-transformer", tmp_path / "transformer"))
    before = primitives(read(scratch, with_zoo=False))
    found = read(scratch, with_zoo=False, runs=[more])
    after = primitives(found)
    assert [row.name for row in after.rows if row.name not in [row.name for row in before.rows]] == [
        "transformer (run)"
    ]
    assert [row for row in after.rows if row.name == "transformer"] == [before.rows[0]]
    assert after.columns == before.columns  # the same tunnel is the study's world
    assert KEY not in found.exhibits["urn-transformer"]  # the study has measured that


def test_runs_of_one_architecture_in_several_worlds_share_a_row(source):
    """Else a folder of them is a table with one number in each row."""

    def run(name: str, measured: str, **changed) -> dict:
        """An exhibit as a run of that name has it."""
        record = source.exhibits[measured]
        share = {"share": source.cells[measured]["primitive"], "rows": {}, "episodes": 4096}
        return {**record, "tunnel": record["tunnel"] | changed, KEY: share}

    urn, binding = "urn-transformer", "bijection-replacement-transformer"
    mlp = "bijection-replacement-mlp"
    exhibits = {"a": run("a", urn), "b": run("b", binding), "c": run("c", mlp)}
    found = Source(source.path, exhibits=exhibits)

    def shown(found: Source) -> dict[str, list[str]]:
        return {row.name: [one.run if one else "-" for one in row.shares] for row in primitives(found).rows}

    assert shown(found) == {"transformer": ["a", "b"], "c": ["-", ""]}
    assert {line[0] for line in primitives_table(found).rows} == {"a", "b", "c"}  # the CSV has every run by its name
    text = render(found)
    assert '<th scope="row">transformer</th>' in text and "<code>a</code>" in text and own_told(found) == ""
    assert [row.about for row in primitives(found).rows] == ["", "mlp"]
    twins = Source(source.path, exhibits=exhibits | {"d": run("d", urn)})
    assert shown(twins) == {"a": ["", "-"], "b": ["-", ""], "d": ["", "-"], "c": ["-", ""]}
    longer = Source(source.path, exhibits=exhibits | {"d": run("d", urn, length=12)})
    assert shown(longer)["transformer"] == ["a", "d", "b"]
    more = {name: run(name, measured, length=5) for name, measured in (("a", urn), ("b", binding))}
    beside = shown(replace(source, exhibits={**source.exhibits, **more}))
    assert sorted(filter(None, beside["transformer (runs)"])) == ["-", "-", "a", "b"]  # the study has a transformer too
    assert not {"a", "b"} & {*beside["transformer"]}


def test_a_run_with_a_yardsticks_name_shows_its_own_numbers(run):
    found = read(run.rename(run.with_name("B: last-observation")), with_zoo=False)
    record = found.exhibits["B: last-observation"][KEY]
    table = primitives(found)
    (column,), (row,) = table.columns, table.rows
    assert row.name == "B: last-observation (run)"
    assert row.shares[0] is not None and row.shares[0].told == record["share"]["told"]
    assert [name for name, _ in column.scale] == list(record["rows"])
    assert dict(column.scale)["B: last-observation"].mean == "0.000" != row.shares[0].mean
    assert len({line[0] for line in primitives_table(found).rows}) == 3
    assert "B: last-observation (run): accumulation" in own_told(found)


def test_a_trial_that_does_not_fit_costs_the_share_alone(run, asks):
    subject = Subject("mine", load(run).recipe, load(run))
    wrong = Trial("accumulation", {"uniform": wt.baselines(Urn(symbols=3, length=6))["uniform"]}, where="nowhere")
    asks(wrong)
    found = own_share(subject)
    assert found is not None and "where = 'nowhere'" in found["missing"]
    assert f"mine has no share: {found['missing']}." in primitives(read(run, with_zoo=False)).notes


class Broken:
    """A predictor with a mistake in it."""

    def log_probs(self, inputs):
        raise RuntimeError("this tunnel\nis too long")


def test_a_predictor_that_fails_costs_the_share_alone(run, asks):
    wrong = Trial("accumulation", {"broken": Broken()})
    asks(wrong)
    found = read(run, with_zoo=False)
    (note,) = primitives(found).notes
    assert re.fullmatch(
        r"mine has no share: it could not be measured \(RuntimeError in test_own_shares.py:\d+: this tunnel\)\.", note
    )
    assert 'id="chart-entropy"' in render(found)


def test_what_is_missing_still_is_not_written_again(run, asks):
    asks(Trial("accumulation", {"broken": Broken()}))
    read(run, with_zoo=False)
    path = run / "exhibits" / "mine.json"
    before = path.stat()
    assert "missing" in read(run, with_zoo=False).exhibits["mine"][KEY]
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_weights_that_do_not_load_cost_the_share_alone(run):
    read(run, with_zoo=False)
    forget(run)
    (weights,) = (run / "seed-0").glob("step-*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-10])
    found = read(run, with_zoo=False)
    (note,) = primitives(found).notes
    assert note.startswith("mine has no share: ") and "truncated or altered" in note
    assert 'id="chart-entropy"' in render(found) and found.refused == {}


def test_a_plugin_that_is_not_named_costs_the_share_alone(tmp_path):
    run = tmp_path / "mine"
    models.register("tally", counts)
    try:
        wt.train(Urn(symbols=3, length=4), "tally", steps=2, batch=8, out=run, device="cpu")
        read(run, with_zoo=False)
    finally:
        models.unregister("tally")
    forget(run)
    (note,) = primitives(read(run, with_zoo=False)).notes
    assert note.startswith("mine has no share: ") and "'tally' must be registered first" in note
