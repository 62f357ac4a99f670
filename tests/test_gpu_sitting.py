"""benchmarks/sitting.py does its jobs in turn, keeps what they said, and goes on where it was stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import sitting  # noqa: E402
import warm  # noqa: E402
from sitting import PAIRS, RECORDS, Job, jobs, packed, sit, warming  # noqa: E402

from windtunnel.errors import InputError  # noqa: E402


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


@pytest.fixture
def words(monkeypatch, capsys):
    """What `sitting.py` prints for these words."""

    def said(*given: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["sitting.py", *given])
        sitting.main()
        return capsys.readouterr().out.splitlines()

    return said


def test_the_plan_has_seconds_of_each_and_of_all_and_commands_that_fit(words):
    three = ["growth", "precision", "kernels"]
    seconds = [jobs()[name].about_s for name in three]
    assert words("--list", "--only", ",".join(three)) == [
        *(f"{s:5d} s  {name}" for s, name in zip(seconds, three, strict=True)),
        f"{sum(seconds):5d} s  together",
    ]
    first, second = words("--list", "--only", "warm,growth,precision,record-urn-mlp", "--minutes", "8")[-2:]
    assert first.endswith(" s  --only warm,growth --for growth,record-urn-mlp")  # also for the command that comes after
    assert second.endswith(" s  --only precision,record-urn-mlp")
    assert words("--list", "--only", "precision", "--minutes", "1")[-1].endswith("precision, too long for one command")


def test_every_command_of_a_plan_fits_and_none_is_forgotten():
    known = jobs()
    commands = packed(known, list(known), most_s=570)
    assert [name for some in commands for name in some] == [*known]
    assert all(sum(known[name].about_s for name in some) <= 570 for some in commands)  # as long as one may take here


def test_warm_compiles_for_the_jobs_that_are_chosen():
    known = jobs()
    assert warming(known, ["profile", "record-urn-mlp", "growth"]).words == "--only urn-mlp,growth"
    seeds = warming(known, ["seeds-rest", "record-hmm-short"]).words
    assert seeds == f"--only seeds,hmm-transformer-9x256 --seeds-of {sitting.NOT_YET}"
    with pytest.raises(InputError, match="warm: must have jobs to compile for"):
        warming(known, ["tests", "warm", "kernels"])
    only, of_seeds = warming(known, list(known)).words.split()[1::2]
    assert warm.chosen(only.split(","), [], of_seeds.split(","))  # words that it knows


def test_every_pair_has_its_attempt():
    attempts = {name.removeprefix("record-") for name, job in jobs().items() if job.script == "records"}
    assert {*PAIRS} <= attempts and {*RECORDS} <= {*PAIRS}


def test_every_job_is_a_script_of_the_folder():
    assert all((ROOT / "benchmarks" / f"{job.script}.py").exists() for job in jobs().values())
