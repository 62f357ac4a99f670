"""`windtunnel evaluate` prints the numbers that the library gives."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
import torch

import windtunnel as wt
from windtunnel.cli import show
from windtunnel.cli.main import main
from windtunnel.fidelity.score import OUT_OF_REACH

METRICS = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "excess_log_loss_bits", "accuracy")


def same_score(told: dict, score: wt.fidelity.Score) -> None:
    for name in METRICS:
        expected = getattr(score, name)
        assert [told[name][end] for end in ("mean", "low", "high")] == [expected.mean, expected.low, expected.high]
        assert told[name]["per_seed"] == expected.per_seed.tolist() and told[name]["over"] == expected.over
    assert told["expected_calibration_error"] == score.calibration.expected_error


def test_json_equals_the_library(runs, output):
    place = runs / "deep" / "bijection"
    told = json.loads(output("evaluate", place, "--episodes", 100, "--seed", 3, "--device", "cpu", "--json"))
    run = wt.load(place)
    score = wt.evaluate(run, episodes=100, seed=3)
    same_score(told["score"], score)
    assert told["score"]["kl_bits"]["over"] == "seeds"
    assert list(told["baselines"]) == list(wt.baselines(run.tunnel))
    for name, predictor in wt.baselines(run.tunnel).items():
        same_score(told["baselines"][name], wt.evaluate(predictor, run.tunnel, episodes=100, seed=3))
    assert told["exact_accuracy"] == score.exact_accuracy
    assert told["entropy_yardstick_bits"] == score.entropy_yardstick_bits
    assert told["parameters"] == wt.models.describe(run.models[0]).params
    assert wt.training.Recipe.from_dict(told["recipe"]) == run.recipe
    assert (told["run"], told["weights_of_step"], told["episodes"]) == (str(place), [12], 100)
    assert told["beyond"] is None and told["equivalent_window"] is None and told["readouts"] == [0, 1, 2, 3]


def test_the_share_of_the_primitive_is_that_of_the_library_and_takes_no_second_reading(runs, output, monkeypatch):
    place = runs / "deep" / "bijection"
    words = ("evaluate", place, "--episodes", 100, "--seed", 3, "--device", "cpu")
    share = wt.primitives(wt.load(place), episodes=100, seed=3)
    assert share.primitive == "accumulation" and share.share.over == "seeds"
    assert json.loads(output(*words, "--json"))["primitive"] == share.to_dict()
    read, reads = wt.models.SequenceModel.log_probs, []
    monkeypatch.setattr(wt.models.SequenceModel, "log_probs", lambda *a, **k: [reads.append(1), read(*a, **k)][1])
    assert [line for line in output(*words).splitlines() if "share" in line] == [str(share)]
    assert len(reads) == 2  # once for each seed


def test_too_few_steps_are_no_statement_about_an_architecture(runs, output, monkeypatch):
    words = ("evaluate", runs / "deep" / "bijection", "--episodes", 50, "--device", "cpu")
    told = "what these weights reached in 12 steps, and says nothing about what the architecture can reach"
    assert f"{told}: `windtunnel scorecard transformer` tries" in " ".join(output(*words).split())
    assert "reached in 3 steps" in " ".join(output(*words, "--step", 3).split())
    assert "weights reached" not in output("evaluate", "urn-transformer", "--episodes", 50, "--device", "cpu")
    monkeypatch.setattr(wt.study.Share, "state", "realised")
    assert "weights reached" not in output(*words)


def test_a_tunnel_that_tests_no_primitive_has_no_share(runs, output):
    words = ("evaluate", runs / "hmm", "--episodes", 50, "--device", "cpu")
    assert json.loads(output(*words, "--json"))["primitive"] is None and "share" not in output(*words)


def test_an_accuracy_out_of_reach_is_told(runs, output, monkeypatch):
    words = ("evaluate", runs / "hmm", "--episodes", 100, "--device", "cpu")
    told = " ".join(OUT_OF_REACH.split())
    assert told not in " ".join(output(*words).split())
    monkeypatch.setattr(wt.fidelity.Score, "out_of_reach", True)
    assert told in " ".join(output(*words).split())


def test_one_episode_has_no_interval_and_says_what_it_takes(runs, output):
    told = "one episode has no interval over sequences: --episodes 2 or more gives one"
    shown = output("evaluate", runs / "hmm", "--episodes", 1, "--device", "cpu")
    assert "nan" not in shown and told in shown
    assert told not in output("evaluate", runs / "hmm", "--episodes", 2, "--device", "cpu")
    shown = output("evaluate", runs / "deep" / "bijection", "--episodes", 1, "--device", "cpu")  # two seeds have one
    assert "nan" not in shown and told not in shown and re.search(r"^ KL, bits +[\d.]+ +[\d.]+ to [\d.]+", shown, re.M)


def test_longer_than_trained(runs, output, monkeypatch):
    words = ("evaluate", runs / "hmm", "--length", 7, "--episodes", 100, "--device", "cpu")
    with monkeypatch.context() as patch:
        patch.setattr("windtunnel.fidelity.window.evaluate", None)  # each window is a baseline: none is scored again
        told = json.loads(output(*words, "--json"))
    run = wt.load(runs / "hmm")
    longer = run.tunnel.with_length(7)
    assert wt.tunnels.from_dict(told["tunnel"]) == longer
    whole = wt.evaluate(run, longer, episodes=100, seed=1)
    alone = wt.evaluate(run, longer, episodes=100, seed=1, positions=slice(4, None))
    same_score(told["score"], whole)
    same_score(told["beyond"]["score"], alone)
    assert told["beyond"]["readouts"] == [4, 5, 6]
    for part, score in ((told, whole), (told["beyond"], alone)):
        window = wt.equivalent_window(score)
        assert part["equivalent_window"] == ("inf" if math.isinf(window) else window)
        assert "window-2" in part["baselines"]

    shown = output(*words)
    assert "beyond the trained length: readouts 5 to 7 alone" in shown
    assert shown.count("equivalent window: ") == 2 and shown.count("KL by position: ") == 2
    for score in (whole, alone):
        kl = score.kl_bits
        assert f"{show.printed(kl.mean)}  " in shown and f"{show.printed(kl.low)} to {show.printed(kl.high)}" in shown
    assert len(re.findall(r"95% interval .*\n .* over sequences ", shown)) == 2  # one seed


def test_longer_than_trained_names_every_baseline_once(runs, output, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    words = ("evaluate", runs / "hmm", "--length", 7, "--episodes", 100, "--device", "cpu")
    told = json.loads(output(*words, "--json"))
    shown = output(*words)
    for name, score in told["baselines"].items():
        (row,) = re.findall(rf"^ {name} .*$", shown, re.MULTILINE)
        numbers = [word for word in row.split()[1:] if not word.startswith("±")]
        beyond = told["beyond"]["baselines"][name]
        kl, error = (show.printed(beyond[metric]["mean"]) for metric in ("kl_bits", "entropy_mae_bits"))
        assert numbers[0] == show.printed(score["kl_bits"]["mean"]) and numbers[-2:] == [kl, error]
    (row,) = re.findall(r"^ constant entropy .*$", shown, re.MULTILINE)
    ends = [show.printed(part["entropy_yardstick_bits"]) for part in (told, told["beyond"])]
    assert row.split()[2:] == ends
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, output(*words).splitlines())) <= 80


def test_text(runs, output):
    place = runs / "deep" / "bijection"
    shown = output("evaluate", place, "--episodes", 100, "--device", "cpu")
    run = wt.load(place)
    score = wt.evaluate(run, episodes=100, seed=1)
    size = wt.models.describe(run.models[0]).params
    assert shown.startswith(
        f"{place}: transformer, {size:,} parameters, 2 seeds, weights of step 12 of 12\n"
        "bijection: symbols 4, length 4, layout plain\n100 episodes, seed 1, stream test\n"
    )
    assert re.search(r"95% interval .*\n .* over seeds ", shown)
    zero, one = map(show.printed, score.kl_bits.per_seed)
    assert f"KL by seed: 0: {zero}, 1: {one}\n" in shown
    assert show.sparkline(score.kl_bits.per_position) in shown
    assert re.search(rf"^ calibration error +{show.printed(score.calibration.expected_error)} ", shown, re.MULTILINE)
    rows = re.findall(r"^ (this run|uniform|set-complement|familiarity|constant entropy|exact belief) ", shown, re.M)
    assert rows == ["this run", "uniform", "set-complement", "familiarity", "constant entropy", "exact belief"]
    assert "equivalent window" not in shown and "beyond" not in shown


def test_an_earlier_step(runs, output):
    place = runs / "deep" / "bijection"
    step = wt.load(place).ladder()[0]
    words = ("--episodes", 50, "--step", step, "--device", "cpu", "--json")
    told = json.loads(output("evaluate", place, *words))
    assert told["weights_of_step"] == [step]
    same_score(told["score"], wt.evaluate(wt.load(place, step=step), episodes=50, seed=1))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", ["evaluate must be followed by the folder of a run"]),
        ("--json", ["found '--json'", "evaluate must be followed by"]),
        ("nowhere", ["nowhere: there is no such folder"]),
        ("deep", ["deep: holds runs, but is not one itself", "`windtunnel evaluate deep/bijection`"]),
        ("deep/bijection/seed-0", ["must be a run folder (it has no recipe.json)"]),
        ("hmm/recipe.json", ["must be a folder, but is a file"]),
        ("deep/bijection --length 5", ["length = 5", "at most symbols = 4"]),
        ("deep/bijection --length 0", ["length = 0"]),
        ("deep/bijection --episodes 0", ["--episodes = 0"]),
        ("deep/bijection --seed -1", ["seed = -1"]),
        ("deep/bijection --stream exam", ["--stream = 'exam'"]),
        ("deep/bijection --step 2", ["step = 2", "must be one of 1, 3, 12"]),
        ("deep/bijection --device tpu", ["device = 'tpu'"]),
        ("deep/bijection --lenght 5", ["--lenght", "--length"]),
        ("deep/bijection more", ["unexpected word 'more'"]),
    ],
)
def test_one_line(words, told, runs, refusal, monkeypatch):
    monkeypatch.chdir(runs)
    line = refusal("evaluate", *words.split())
    for part in told:
        assert part in line


def test_positions_that_do_not_reach(refusal, tmp_path):
    """Learned positions end where training ended."""
    tunnel = wt.tunnels.HMM(states=2, symbols=2, length=3)
    wt.train(
        tunnel, "transformer", preset="quick", steps=1, out=tmp_path, params=2000, positions="learned", device="cpu"
    )
    line = refusal("evaluate", tmp_path, "--length", 6, "--device", "cpu")
    assert "--length = 6: must be at most 3 for this run" in line and "positions=rope (or alibi, none)" in line
    words = line.split()
    assert words[words.index("--max-length") + 1] == str(tunnel.with_length(6).positions)


def test_the_advice_about_positions_works(refusal, output, tmp_path):
    """An mlp with room for length 5: a length in between is scored, one beyond it names the limit."""
    tunnel = wt.tunnels.HMM(states=2, symbols=2, length=3)
    options = {"params": 2000, "max_length": tunnel.with_length(5).positions, "device": "cpu"}
    wt.train(tunnel, "mlp", preset="quick", steps=1, out=tmp_path, **options)
    told = json.loads(output("evaluate", tmp_path, "--length", 5, "--episodes", 10, "--json"))
    assert told["beyond"]["readouts"] == [3, 4]
    line = refusal("evaluate", tmp_path, "--length", 10**9)
    assert "must be at most 5" in line and "context=position" in line


# --- runs that are not all the way
@pytest.fixture
def partial(runs, tmp_path) -> Path:
    """Two seeds, of which the second stands at step 3 of 12."""
    place = tmp_path / "partial"
    shutil.copytree(runs / "deep" / "bijection", place)
    file = place / "seed-1" / "checkpoints.json"
    listed = json.loads(file.read_text())
    listed["ladder"] = [rung for rung in listed["ladder"] if rung["step"] <= 3]
    file.write_text(json.dumps(listed))
    return place


def evaluated(capsys, *words: object) -> tuple[dict, str]:
    assert main(["evaluate", *map(str, words), "--episodes", "50", "--device", "cpu", "--json"]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_an_unfinished_seed_is_scored_as_it_is_and_named(partial, capsys):
    told, line = evaluated(capsys, partial)
    assert line == f"windtunnel: {partial}: seed 1 is unfinished (weights of step 3 of 12)\n"
    assert told["weights_of_step"] == [3, 12] and len(told["score"]["kl_bits"]["per_seed"]) == 2


def test_a_seed_without_weights_is_left_out_and_named(partial, capsys):
    shutil.rmtree(partial / "seed-1")
    told, line = evaluated(capsys, partial)
    assert line == f"windtunnel: {partial}: seed 1 is left out (no weights yet)\n"
    same_score(told["score"], wt.evaluate(wt.load(partial).model(0), wt.load(partial).tunnel, episodes=50, seed=1))


def test_a_seed_that_has_not_reached_the_step_is_left_out(partial, capsys):
    told, line = evaluated(capsys, partial, "--step", 12)
    assert line == f"windtunnel: {partial}: seed 1 is left out (not at step 12 yet)\n"
    assert told["weights_of_step"] == [12] and len(told["score"]["kl_bits"]["per_seed"]) == 1
    told, line = evaluated(capsys, partial, "--step", 3)
    assert line == "" and len(told["score"]["kl_bits"]["per_seed"]) == 2


def test_no_weights_yet(refusal, tmp_path):
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    wt.train(tunnel, "mlp", preset="quick", steps=9, out=tmp_path, params=2000, max_minutes=1e-9, device="cpu")
    assert "seed 0 has no weights yet" in refusal("evaluate", tmp_path)


# --- weights that predict no numbers
def broken(place: Path, step: int) -> None:
    """Weights of that step, checksum and all, that are too large for what is computed with them."""
    seed = wt.load(place).folder.seed(0)
    seed.save_weights(step, {name: weights * 1e30 for name, weights in seed.weights(step).items()})


def test_weights_of_a_training_that_diverged_are_told_as_such(tmp_path, refusal, capsys):
    tunnel, place = wt.tunnels.HMM(states=2, symbols=3, length=4), tmp_path / "run"
    options = {"preset": "quick", "params": 2000, "lr": 1e30, "warmup": 0, "device": "cpu"}
    with pytest.raises(wt.training.Diverged, match="the last weights kept are from step 1, which may predict NaN"):
        wt.train(tunnel, "transformer", steps=20, out=place, **options)
    assert main(["evaluate", str(place), "--episodes", "50", "--device", "cpu"]) == 2
    _, line = capsys.readouterr().err.splitlines()
    assert line == (
        f"windtunnel: error: {place}: the weights of step 1, seed 0, predict NaN because training diverged: "
        "a lower learning rate in another folder may help"
    )
    assert main(["inspect", str(place), "--only", "keys", "--device", "cpu"]) == 2  # and at once
    assert capsys.readouterr().err.splitlines()[-1] == line and not (place / "survey.json").exists()
    for command in ("report", "figures"):  # what it is sent to says the same
        line = refusal(command, place, "--no-zoo")
        assert "resumes it, or says why it cannot" in line and f"`windtunnel evaluate {place}`" in line


def test_earlier_weights_of_a_training_that_diverged_are_offered(runs, tmp_path, capsys):
    place = tmp_path / "run"
    shutil.copytree(runs / "hmm", place)
    first, second, last = wt.load(place).ladder()
    wt.load(place).folder.seed(0).forget_after(second)  # as if it had ended there
    broken(place, second)
    words = ["evaluate", str(place), "--episodes", "50", "--device", "cpu"]
    assert main(words) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"the weights of step {second}, seed 0, predict NaN because training diverged" in told
    assert told.endswith(f", `--step {first}` takes earlier weights")
    assert main([*words, "--step", str(first)]) == 0


def test_a_finished_training_did_not_diverge_and_a_length_may_be_too_much(runs, tmp_path, refusal):
    place = tmp_path / "run"
    shutil.copytree(runs / "hmm", place)
    broken(place, 10)
    words = ("evaluate", place, "--episodes", 50, "--device", "cpu")
    assert f"{place}: the weights of step 10, seed 0, predict NaN on these episodes\n" in refusal(*words)
    assert "seed 0, predict NaN at length 7\n" in refusal(*words, "--length", 7)


def test_a_baseline_without_numbers_is_not_blamed_on_the_run(runs, refusal, monkeypatch):
    class Odd:
        def log_probs(self, inputs):
            return torch.full((len(inputs), len(inputs.readout), 2), torch.nan)

    monkeypatch.setattr("windtunnel.cli.evaluate.baselines", lambda tunnel: {"odd": Odd()})
    assert "Odd.log_probs returned NaN" in refusal("evaluate", runs / "hmm", "--episodes", 50, "--device", "cpu")
