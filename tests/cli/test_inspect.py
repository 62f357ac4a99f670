"""`windtunnel inspect` prints and writes what the library finds."""

from __future__ import annotations

import builtins
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import windtunnel as wt
from tests.training.cases import tiny
from windtunnel.cli import show
from windtunnel.cli.main import main
from windtunnel.cli.survey import at_floor
from windtunnel.geometry import Measurement
from windtunnel.mechanism import inspect, load_survey
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.study import zoo
from windtunnel.training import Run, files, lock
from windtunnel.training.lock import locked

ALIKE = ("--device", "cpu", "--episodes", "8", "--untrained", "2")


def train_again(run: Run) -> None:
    """Other weights in place of the last ones, as a second training on another machine would leave them."""
    weights = {name: value + 0.01 * torch.ones_like(value) for name, value in run.models[0].state_dict().items()}
    run.folder.seed(run.recipe.seeds[0]).save_weights(run.ladder()[-1], weights)


@pytest.fixture
def place(runs, tmp_path):
    """A run of one's own to write into."""
    shutil.copytree(runs / "hmm", tmp_path / "hmm")
    return tmp_path / "hmm"


@pytest.fixture
def inspected(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words: object) -> tuple[str, list[str]]:
        assert main(["inspect", *map(str, words), "--device", "cpu", "--episodes", "8", "--untrained", "2"]) == 0
        said = capsys.readouterr()
        return said.out, said.err.splitlines()

    return run


def test_tables_and_files(place, inspected):
    shown, told = inspected(place, "--only", "lens,ablate,dynamics", "--all")
    assert told == ["1/3  lens, seed 0", "2/3  ablate, seed 0", "3/3  dynamics"]
    survey = load_survey(place)
    measured = list(survey.measurements())
    assert {entry.instrument for entry, _ in measured} == {"lens", "ablate", "dynamics"}
    for _, found in measured:
        assert found.name in shown
    one = next(found for _, found in measured if found.name == "bits lost to ablation")
    row = next(line for line in shown.splitlines() if "bits lost to ablation" in line)
    assert f" {told_p(one)} " in f"{row} " and "random direction, equal size" in row and "untrained" in row
    assert shown.startswith(f"{place}: transformer, seeds 0\n") and "8 episodes, seed 0, stream test" in shown
    assert f"written: {place / 'survey.json'}" in shown.replace("\n", "")


def test_the_summary_shows_the_clearest_of_each_kind(place, inspected):
    shown, _ = inspected(place, "--only", "ablate,heads,values")
    found = [one for entry, one in load_survey(place).measurements("ablate") if entry.seed == 0]
    strongest = min(found, key=lambda one: (one.p_value, one.nulls[one.strongest_null].mean() - one.value))
    rows = [line.split("  ") for line in shown.splitlines() if line.startswith(" bits lost to ablation ")]
    (cells,) = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    null = show.printed(float(strongest.nulls[strongest.strongest_null].mean()))
    effect = [] if strongest.effect is None else [f"{strongest.effect:+.1f}"]
    place = "layer {layer}, {part}, by {method}".format(**strongest.where)
    told = [place, show.printed(strongest.value), null, strongest.strongest_null, *effect, told_p(strongest)]
    assert cells == ["bits lost to ablation", *told, str(len(found)), "ablate"]
    assert "not corrected for that choice" in shown and "--all" in shown and "docs/instruments.md" in shown


@pytest.mark.parametrize(("side", "sign"), [("above", 1), ("below", -1), ("both", -1)])
def test_of_equal_p_the_largest_is_shown_not_the_one_with_the_quietest_null(side, sign, place, inspected, monkeypatch):
    noise = np.linspace(-1.0, 1.0, 19)

    def planted(layer: int, value: float, spread: float, name: str = "planted, R²") -> Measurement:
        nulls = {"drawn": spread * noise}
        return Measurement(name, value, value, value, "sequences", where={"layer": layer}, nulls=nulls, side=side)

    found = [planted(0, sign * 0.2, 0.1), planted(1, sign * 0.04, 1e-4), planted(2, sign * 0.01, 1e-3)]
    found.append(planted(3, sign * 9.0, 5.0, "planted, KL"))  # of the same question, but in another unit
    monkeypatch.setitem(INSTRUMENTS, "ablate", lambda *given: found)
    shown, _ = inspected(place, "--only", "ablate")
    assert re.search(rf"^ planted, R² +layer 0 +{show.printed(sign * 0.2)} ", shown, re.MULTILINE)


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_every_number_of_the_summary_has_its_place_however_narrow_the_terminal(columns, place, inspected, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    shown, _ = inspected(place, "--only", "ablate,heads,values,beliefs,swap,patch,roles")
    head = next(line for line in shown.splitlines() if line.startswith(" measured"))
    left, right = head.index("where"), head.index("value")
    rows = [line for line in shown.splitlines() if re.match(r" \S.*\d\.\d", line)]
    assert len(rows) > 10 and all(line[left : right - 2].strip() for line in rows)
    assert max(map(len, shown[: shown.index("A null is")].splitlines())) <= int(columns)


def test_of_several_seeds_the_summary_tells_whose_number_it_is(tmp_path, inspected, monkeypatch):
    found = [Measurement("planted", 1.0, 1.0, 1.0, "sequences", where={"layer": 2, "head": 1}, note="no null")]
    monkeypatch.setitem(INSTRUMENTS, "ablate", lambda *given: found)
    wt.train(recipe=tiny(seeds=(0, 1)), out=tmp_path / "two", device="cpu")
    shown, _ = inspected(tmp_path / "two", "--only", "ablate")
    assert re.search(r"^ planted +layer 2, head 1, seed 0 ", shown, re.MULTILINE)


def told_p(found: Measurement) -> str:
    return f"{'≤' * at_floor(found)}{found.p_value:.3f}"


@pytest.mark.parametrize("side", ["above", "below", "both"])
def test_a_p_value_that_could_not_be_smaller_is_marked(side):
    extreme = {"above": 9.0, "below": -9.0, "both": 9.0}[side]

    def measured(value: float, draws: int) -> Measurement:
        drawn = np.linspace(-1.0, 1.0, draws)
        return Measurement("x", value, value, value, "sequences", nulls={"drawn": drawn}, side=side)

    assert at_floor(measured(extreme, 39)) and at_floor(measured(extreme, 19))
    assert not at_floor(measured(0.9 * np.sign(extreme), 39))  # some draws are as extreme
    assert not at_floor(measured(extreme, 5))  # Student's t has no floor
    same = Measurement("x", extreme, extreme, extreme, "sequences", nulls={"drawn": np.zeros(5)}, side=side)
    assert at_floor(same)  # without a spread five draws are counted too
    assert not at_floor(Measurement("x", 1.0, 1.0, 1.0, "sequences", note="no null"))


@pytest.mark.parametrize("words", [(), ("--all",)])
def test_the_floor_of_p_is_explained_once_below_the_table_and_only_if_it_is_met(words, place, inspected, monkeypatch):
    drawn = np.linspace(-1.0, 1.0, 19)
    for value, marked in ((9.0, True), (0.95, False)):
        found = [Measurement(f"planted {k}", value, value, value, "sequences", nulls={"drawn": drawn}) for k in "ab"]
        monkeypatch.setitem(INSTRUMENTS, "ablate", lambda *given, found=found: found)
        shown, _ = inspected(place, "--only", "ablate", "--replace", *words)
        assert (shown.count("≤0.050"), shown.count("as small as p can be")) == ((2, 1) if marked else (0, 0))
        assert marked or shown.count(" 0.100 ") == 2


def test_what_has_no_answer_is_told_below_the_summary(runs, tmp_path, inspected):
    """On a bijection the exact entropy is a function of position: nothing is left to explain."""
    shutil.copytree(runs / "deep" / "bijection", tmp_path / "bijection")
    shown, _ = inspected(tmp_path / "bijection", "--only", "values")
    assert re.search(r"^no answer here: entropy after position \(not identifiable", shown, re.MULTILINE)
    assert not re.search(r"^ entropy after position", shown, re.MULTILINE) and len(shown.splitlines()) < 20


def test_json_equals_the_library_and_replaces_what_was_there(place, inspected):
    inspected(place, "--only", "lens")
    before = set(place.iterdir())
    shown, _ = inspected(place, "--only", "heads,clusters", "--seed", 3, "--json", "--replace")
    told = json.loads(shown)
    found = inspect(wt.load(place), only=["heads", "clusters"], episodes=8, seed=3, untrained=2)
    expected = [{"instrument": e.instrument, "seed": e.seed, **e.found.to_dict()} for e in found.entries]
    assert told["records"] == json.loads(json.dumps(expected))
    assert told["format"] == 1 and told["settings"]["seed"] == 3 and told["environment"]["python"]
    assert len(set(place.iterdir())) == len(before)  # the arrays of the first survey are gone
    assert {entry.instrument for entry in load_survey(place).entries} == {"heads", "clusters"}


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


@pytest.mark.parametrize("only", ["clusters,lenz", "lenz,clusters", "lenz"])
def test_a_typo_anywhere_in_the_list_is_refused_before_anything_runs(only, place, refusal):
    line = refusal("inspect", place, *ALIKE, "--only", only)
    assert "only = 'lenz' (did you mean lens?): must be one of keys, " in line
    assert not (place / "survey.json").exists()


def test_what_cannot_be_measured_is_one_line_and_the_rest_runs(inspected, tmp_path):
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    options = {"preset": "quick", "device": "cpu", "params": 2000, "steps": 2, "ladder": 0}
    wt.train(tunnel, "lstm", out=tmp_path / "lstm", **options)
    shown, _ = inspected(tmp_path / "lstm", "--only", "keys,lens,dynamics,clusters")
    assert "not measured: keys: lstm has no keys" in shown
    assert "not measured: dynamics: seed 0 has 1 checkpoint: needs at least 3" in shown
    assert "not measured: clusters: Bijection has no hidden states" in shown and "logit lens" in shown


def test_every_reason_is_told(tmp_path, inspected):
    """Two states and two symbols: each group of tokens has its own line, not only the last."""
    tunnel = wt.tunnels.HMM(states=2, symbols=2, length=3)
    wt.train(tunnel, "transformer", out=tmp_path / "run", preset="quick", device="cpu", params=2000, steps=2, ladder=0)
    shown, _ = inspected(tmp_path / "run", "--only", "keys,lens")
    for group in ("symbols", "transition rows", "emission rows"):
        assert shown.count(f"not measured: keys: 2 {group}: needs at least three hypotheses to compare") == 1


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["tables", "json"])
def test_what_broke_down_is_named_at_the_end_and_not_called_done(more, place, inspected, monkeypatch, capsys):
    """The rest is printed and kept; the same command tries what broke once more."""

    def unlucky(*arguments):
        raise RuntimeError("out of luck")

    with monkeypatch.context() as broken:
        broken.setitem(INSTRUMENTS, "ablate", unlucky)
        assert main(["inspect", str(place), "--only", "lens,ablate,clusters", *more, *ALIKE]) == 2
    said = capsys.readouterr()
    assert "logit lens" in said.out and "out of luck" in said.out
    last = said.err.splitlines()[-1]
    assert last == f"windtunnel: error: {place}: broke down: ablate; run the same command again to retry"
    assert {entry.instrument for entry, _ in load_survey(place).measurements()} == {"lens", "clusters"}
    shown, _ = inspected(place, "--only", "lens,ablate,clusters")
    assert "bits lost to ablation" in shown


def test_bars_for_a_terminal(monkeypatch, capsys):
    from windtunnel.cli.progress import stages

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with stages() as progress:
        progress("keys, seed 0", 0, 2)
        progress("lens, seed 0", 1, 2)
    assert "lens, seed 0" in capsys.readouterr().err


def test_a_shipped_network_serves_as_a_run(tmp_path, monkeypatch, inspected, capsys, refusal):
    recipe = tiny(wt.tunnels.Urn(symbols=3, length=5), "transformer", steps=4, checkpoint_every=4, seeds=(0,))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    run = wt.train(recipe=recipe, out="run", device="cpu")
    zoo.export(run, "urn-transformer", episodes=50)
    shown, _ = inspected("urn-transformer", "--only", "lens,dynamics")
    assert shown.startswith("urn-transformer: transformer, seeds 0") and "not measured: dynamics" in shown
    assert load_survey(tmp_path / "runs" / "zoo-urn-transformer").settings["instruments"] == ["lens", "dynamics"]
    assert main(["evaluate", "urn-transformer", "--episodes", "50", "--json"]) == 0
    live, card = json.loads(capsys.readouterr().out), zoo.card("urn-transformer")["scores"]["home"]
    assert live["run"] == "urn-transformer" and live["weights_of_step"] == [4]
    assert live["score"]["kl_bits"]["mean"] == pytest.approx(card["kl_bits"]["mean"])
    assert "no shipped network of that name (urn-transformer)" in refusal("inspect", "urn-transfromer")
    assert "--step = 2" in refusal("evaluate", "urn-transformer", "--step", "2")
    train_again(run)
    zoo.export(wt.load("run"), "urn-transformer", episodes=50)  # another network by the same name and recipe
    line = refusal("inspect", "urn-transformer", "--only", "lens", *ALIKE)
    assert f"{Path('runs', 'zoo-urn-transformer', 'survey.json')}: was made with other settings (other weights)" in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", ["inspect must be followed by the folder of a run"]),
        ("nowhere", ["nowhere: there is no such folder"]),
        ("hmm --only tarot", ["error: --only = 'tarot': must be one of keys, alignment"]),
        ("hmm --only ,", ["must name at least one of keys"]),
        ("hmm --episodes 1", ["--episodes = 1"]),
        ("hmm --untrained -1", ["--untrained = -1"]),
        ("hmm --seed -1", ["seed = -1"]),
        ("hmm --device tpu", ["device = 'tpu'"]),
        ("hmm --onyl keys", ["--onyl", "--only"]),
    ],
)
def test_one_line(words, told, runs, refusal, monkeypatch):
    monkeypatch.chdir(runs)
    line = refusal("inspect", *words.split())
    for part in told:
        assert part in line


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


def test_where_nothing_can_be_measured_that_is_all_that_is_said(runs, tmp_path, capsys):
    place = shutil.copytree(runs / "deep" / "bijection", tmp_path / "bijection")
    assert main(["inspect", str(place), "--only", "clusters", "--device", "cpu", "--episodes", "8"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing could be measured: clusters: Bijection has no hidden states" in said.err.splitlines()[-1]
    # nothing that would stand in the way of the next
    assert [path.name for path in place.glob("survey*")] == ["survey.lock"]


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
