"""A survey is gone on with, replaced or left alone: when it is stopped, asked for more, or two ask at a time."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys

import pytest

import windtunnel as wt
from tests.cli.surveyed import ALIKE, train_again
from windtunnel.cli.main import main
from windtunnel.mechanism import load_survey
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.training import files, lock
from windtunnel.training.lock import locked


def test_replacing_one_instrument_keeps_the_others_or_names_what_it_forgets(place, inspected):
    def numbers(instrument):
        return [found.to_dict() for _, found in load_survey(place).measurements(instrument)]

    inspected(place, "--only", "lens,ablate,heads")
    lens = numbers("lens")
    shown, told = inspected(place, "--only", "ablate", "--replace")
    assert told == ["1/1  ablate, seed 0"] and "kept from the earlier survey: lens, heads" in shown
    assert numbers("lens") == lens and numbers("ablate") and numbers("heads")
    shown, told = inspected(place, "--only", "ablate", "--replace", "--seed", 3)
    assert told == ["windtunnel: discarded, as made with other settings or weights: lens, heads", "1/1  ablate, seed 0"]
    assert "kept from" not in shown and not numbers("lens") and numbers("ablate")
    _, told = inspected(place, "--only", "ablate", "--replace")  # nothing else is there to lose
    assert told == ["1/1  ablate, seed 0"]
    (place / "survey.json").write_text("{")
    _, told = inspected(place, "--only", "ablate", "--replace")
    assert told[0].startswith(f"windtunnel: discarded: {place / 'survey.json'}: must be JSON, but is damaged")


def test_an_interrupt_leaves_what_was_there(place, inspected, monkeypatch, capsys):
    inspected(place, "--only", "lens")
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}

    def stop(*arguments):
        raise KeyboardInterrupt

    given = ["inspect", str(place), "--device", "cpu", "--episodes", "8", "--untrained", "2"]
    with monkeypatch.context() as patched:
        patched.setitem(INSTRUMENTS, "ablate", stop)
        assert main([*given, "--only", "ablate"]) == 130
        assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
        assert main([*given, "--only", "ablate,keys"]) == 130  # keys come first
    assert "run the same command again to resume" in capsys.readouterr().out
    assert set(load_survey(place).seconds) == {"lens, seed 0", "keys, seed 0"}
    kept = list(load_survey(place).measurements("keys"))
    _, told = inspected(place, "--only", "ablate,keys")
    assert told == ["1/1  ablate, seed 0"]  # what was measured is not measured again
    whole = load_survey(place)
    assert [found.value for _, found in whole.measurements("keys")] == [found.value for _, found in kept]
    assert {entry.instrument for entry, _ in whole.measurements()} == {"lens", "keys", "ablate"}


def test_a_replacement_that_is_stopped_goes_on_without_the_word(place, inspected, monkeypatch, capsys):
    """With it everything would be measured once more; and before the first instrument has ended nothing is replaced."""
    inspected(place, "--only", "lens,keys", "--seed", "3")
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}

    def stop(*arguments):
        raise KeyboardInterrupt

    words = ["inspect", str(place), *ALIKE]
    with monkeypatch.context() as patched:
        patched.setitem(INSTRUMENTS, "ablate", stop)
        assert main([*words, "--only", "ablate", "--replace"]) == 130
        assert "stopped before anything was measured: what was there is unchanged" in capsys.readouterr().out
        assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
        assert main([*words, "--only", "ablate,keys", "--replace"]) == 130
        assert "run the same command without --replace to resume" in capsys.readouterr().out
    _, told = inspected(place, "--only", "ablate,keys")
    assert told == ["1/1  ablate, seed 0"]


def test_a_second_selection_joins_the_first(place, inspected):
    inspected(place, "--only", "lens")
    first = [found.value for _, found in load_survey(place).measurements("lens")]
    shown, _ = inspected(place, "--only", "late")
    assert "kept from the earlier survey: lens" in shown
    both = load_survey(place)
    assert {entry.instrument for entry in both.entries} == {"lens", "late"}
    assert both.settings["instruments"] == ["lens", "late"] and len(both.seconds) == 2
    assert [found.value for _, found in both.measurements("lens")] == first
    renamed = place.rename(place.with_name("renamed"))  # a run is a folder, wherever it lies
    shown, _ = inspected(renamed, "--only", "lens,late")
    assert "kept from the earlier survey: lens, late" in shown


def test_a_survey_that_was_made_otherwise_is_not_touched_unless_told_so(place, inspected, refusal):
    inspected(place, "--only", "lens")
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    line = refusal("inspect", str(place), "--only", "late", "--seed", "3", *ALIKE)
    assert "was made with other settings (seed 0)" in line and "--replace" in line
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
    older = json.loads(before["survey.json"])
    del older["settings"]["revision"]  # as surveys were before instruments were counted
    (place / "survey.json").write_text(json.dumps(older))
    line = refusal("inspect", str(place), "--only", "late", *ALIKE)
    assert "(another revision of the instruments)" in line and "--replace" in line
    (place / "survey.json").write_text("{")
    assert "--replace" in refusal("inspect", str(place), "--only", "late", *ALIKE)
    inspected(place, "--only", "late", "--seed", 3, "--replace")
    assert {entry.instrument for entry in load_survey(place).entries} == {"late"}


def test_a_survey_of_other_weights_is_not_gone_on_with(place, inspected, refusal):
    inspected(place, "--only", "lens")
    before = (place / "survey.json").read_bytes()
    train_again(wt.load(place))
    line = refusal("inspect", place, "--only", "late", *ALIKE)
    assert line.endswith("was made with other settings (other weights): must be the same; --replace measures again\n")
    assert (place / "survey.json").read_bytes() == before
    inspected(place, "--only", "late", "--replace")
    _, told = inspected(place, "--only", "late")
    assert told == []  # the same weights: nothing is left to measure


# --- two at a time
STALLED = """
import sys, time
from windtunnel.cli.main import main
from windtunnel.mechanism.survey import INSTRUMENTS
def stall(*arguments):
    print("stalled", flush=True)
    time.sleep(600)
INSTRUMENTS["ablate"] = stall
main(sys.argv[1:])
"""


def test_a_second_inspect_is_refused_while_one_runs_and_a_killed_one_is_not_in_the_way(place, inspected, refusal):
    words = ["inspect", str(place), *ALIKE, "--only", "lens,ablate"]
    first = subprocess.Popen([sys.executable, "-c", STALLED, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None and first.stdout.readline() == "stalled\n"
        kept = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
        for more in ((), ("--replace",)):
            line = refusal("inspect", place, *ALIKE, "--only", "late", *more)  # one line: nothing was begun
            told = f"{place / 'survey.json'}: another process (pid {first.pid}) is writing it; wait for it to end"
            assert line == f"windtunnel: error: {told}\n"
        assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == kept
        assert wt.train(recipe=wt.load(place).recipe, out=place, device="cpu").finished  # the run itself is free
    finally:
        first.kill()
        first.wait()
    inspected(place, "--only", "late")
    assert {entry.instrument for entry, _ in load_survey(place).measurements()} == {"lens", "late"}


def test_a_run_that_is_being_trained_may_be_inspected(place, inspected):
    with locked(place):
        inspected(place, "--only", "lens")


@pytest.fixture
def read_only(place, monkeypatch):
    """From now on the run lies where nothing can be written; permissions alone would not stop everybody."""

    def refuse(path, mode="r", *arguments, **options):
        if not mode.startswith("r") and str(path).startswith(str(place)):
            raise PermissionError(13, os.strerror(13), str(path))
        return builtins.open(path, mode, *arguments, **options)

    def begin():
        for module in (files, lock):
            monkeypatch.setattr(module, "open", refuse, raising=False)

    return begin


def test_a_folder_that_cannot_be_written_to_is_one_line(place, refusal, read_only):
    read_only()
    line = refusal("inspect", place, *ALIKE, "--only", "lens")
    assert line == f"windtunnel: error: {place / 'survey.json'}: cannot be written (Permission denied)\n"


def test_a_finished_survey_is_printed_from_where_nothing_can_be_written(place, inspected, refusal, read_only):
    """Also with what this network cannot be asked; but nothing is measured that could not be kept."""
    shown, _ = inspected(place, "--only", "keys,lens,exchange,dynamics")
    told = json.loads(inspected(place, "--only", "lens,dynamics", "--json")[0])
    inspected(place, "--only", "keys,lens,exchange,dynamics")
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    read_only()
    again, said = inspected(place, "--only", "keys,lens,exchange,dynamics")
    *lines, last = again.splitlines()
    assert said == [] and last == f"read: {place / 'survey.json'} (it cannot be written to)"
    assert lines == shown.splitlines()[:-1] and "not measured: " in shown
    records = json.loads(inspected(place, "--only", "lens,dynamics", "--json")[0])["records"]
    assert records == told["records"]
    for words in (["--only", "lens,ablate"], ["--only", "lens", "--replace"], []):
        line = refusal("inspect", place, *ALIKE, *words)
        assert line == f"windtunnel: error: {place / 'survey.json'}: cannot be written (Permission denied)\n"
    assert "made with other settings (seed 0)" in refusal("inspect", place, *ALIKE, "--only", "lens", "--seed", 3)
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before
