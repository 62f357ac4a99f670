"""`windtunnel inspect` prints and writes what the library finds."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import windtunnel as wt
from tests.cli.surveyed import ALIKE, train_again
from tests.training.cases import tiny
from windtunnel.cli import show
from windtunnel.cli.main import main
from windtunnel.cli.survey import at_floor
from windtunnel.geometry import Measurement
from windtunnel.mechanism import inspect, load_survey
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.study import zoo


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


def test_where_nothing_can_be_measured_that_is_all_that_is_said(runs, tmp_path, capsys):
    place = shutil.copytree(runs / "deep" / "bijection", tmp_path / "bijection")
    assert main(["inspect", str(place), "--only", "clusters", "--device", "cpu", "--episodes", "8"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing could be measured: clusters: Bijection has no hidden states" in said.err.splitlines()[-1]
    # nothing that would stand in the way of the next
    assert [path.name for path in place.glob("survey*")] == ["survey.lock"]
