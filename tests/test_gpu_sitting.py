"""benchmarks/sitting.py does its jobs in turn, keeps what they said, and goes on where it was stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import sitting  # noqa: E402
from sitting import PAIRS, RECORDS, Job, jobs, sit  # noqa: E402


@pytest.fixture
def known(tmp_path, monkeypatch) -> dict[str, Job]:
    monkeypatch.setattr(sitting, "HERE", tmp_path)
    (tmp_path / "good.py").write_text("import sys; open(sys.argv[1], 'a').write('x'); print('it is', sys.argv[2])")
    (tmp_path / "bad.py").write_text("print('first'); raise SystemExit('broken')")
    return {"one": Job("good", "OUT/one.json fine", 5), "two": Job("bad", "", 5), "long": Job("good", "OUT/b x", 600)}


def test_what_was_done_is_not_done_again_and_what_failed_is(known, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    assert sit(known, list(known), out, minutes=5) == ["two"]
    assert (out / "one.txt").read_text() == "it is fine\n" and (out / "one.json").read_text() == "x"
    assert "broken" in (out / "two.failed.txt").read_text() and not (out / "two.txt").exists()
    assert "long: left out, takes about 600 s" in capsys.readouterr().out and not (out / "b").exists()

    (tmp_path / "bad.py").write_text("print('mended')")
    assert sit(known, list(known), out, minutes=None) == []
    assert (out / "one.json").read_text() == "x" and "one: done before" in capsys.readouterr().out
    assert (out / "two.txt").read_text() == "mended\n" and not (out / "two.failed.txt").exists()
    assert (out / "b").exists()


def test_every_pair_has_its_attempt():
    attempts = {name.removeprefix("record-") for name, job in jobs().items() if job.script == "records"}
    assert {*PAIRS} <= attempts and {*RECORDS} <= {*PAIRS}


def test_every_job_is_a_script_of_the_folder():
    assert all((ROOT / "benchmarks" / f"{job.script}.py").exists() for job in jobs().values())
