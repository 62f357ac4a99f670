"""`windtunnel train`: what it trains, what it says, how it stops and goes on, and how it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

import windtunnel as wt
from windtunnel.cli.main import main
from windtunnel.cli.recipe import RecipeFlags
from windtunnel.training import Optimiser, Recipe, Schedule
from windtunnel.tunnels import registry

TINY = shlex.split(
    "bijection transformer --symbols 4 --length 4 --preset quick --params 2000 --batch 8 --steps 12 "
    "--validate-every 5 --validation-episodes 32 --checkpoint-every 5 --ladder 3 --device cpu"
)


@pytest.fixture
def train(capsys, monkeypatch):
    """Train with the tiny options and more; the exit code, and what was printed where."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*more: object, words: list[str] = TINY):
        code = main(["train", *words, *map(str, more)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


# --- what it does
def test_text(train, tmp_path):
    out = tmp_path / "run"
    code, shown, said = train("--out", out, "--seeds", 2)
    assert code == 0
    first, *lines = said.splitlines()
    assert first == f"windtunnel: {wt.models.describe(wt.load(out).models[0])}"
    step = r"seed (\d)  step (\d+)/12  (?:loss [\d.]+ bits  )?KL [\d.]+ bits  entropy error [\d.]+ bits"
    found = [re.fullmatch(step + r"(?:  [\d,]+ sequences/s)?", line) for line in lines]
    assert [tuple(map(int, match.groups())) for match in found if match] == [
        (seed, step) for seed in (0, 1) for step in (0, 5, 10, 12)
    ]
    for seed in (0, 1):
        last = wt.load(out).metrics(seed)[-1]
        scores = f"{last['kl_bits']:.4f} +{last['entropy_mae_bits']:.4f}"
        assert re.search(rf"^ +{seed} +12/12 +{scores} +\d+\.\d *$", shown, re.MULTILINE)
    assert shown.startswith("transformer on bijection: symbols 4, length 4")
    assert f"windtunnel evaluate {out}" in shown


def test_json_is_what_the_library_trains(train, tmp_path):
    code, shown, _ = train("--out", tmp_path / "run", "--seeds", 2, "--json")
    assert code == 0
    told = json.loads(shown)
    options = {"validation_episodes": 32, "checkpoint_every": 5, "ladder": 3, "validate_every": 5}
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    run = wt.train(
        tunnel, "transformer", preset="quick", params=2000, batch=8, steps=12, seeds=2, device="cpu", **options
    )
    assert Recipe.from_dict(told["recipe"]) == run.recipe
    assert told["parameters"] == wt.models.describe(run.models[0]).params
    assert (told["finished"], told["steps"], told["run"]) == (True, 12, str(tmp_path / "run"))
    for seed, record in enumerate(told["seeds"]):
        assert record.pop("seconds") > 0
        assert record == {"seed": seed, **run.metrics(seed)[-1]}
    assert told["seconds"]["train"] > 0 and set(told["versions"]) == {"windtunnel", "torch", "python"}


def test_an_infinite_kl_is_standard_json_and_a_sign_in_the_table(train, tmp_path):
    train("--out", tmp_path)
    record = {"step": 12, "loss_bits": 1.0, "kl_bits": math.inf, "entropy_mae_bits": 0.5}
    wt.load(tmp_path).folder.seed(0).log(record)
    code, shown, _ = train("--out", tmp_path, "--json")  # finished: it is only told again
    assert code == 0 and json.loads(shown)["seeds"][0]["kl_bits"] == "inf"
    assert re.search(r" 12/12 +∞ +0\.5000 ", train("--out", tmp_path)[1])


def test_every_part_of_a_recipe_has_its_flag():
    parts = {f.name for part in (Recipe, Optimiser, Schedule) for f in dataclasses.fields(part)}
    flags = {f.name for f in dataclasses.fields(RecipeFlags)}
    assert parts - flags == {"tunnel", "model", "model_options", "schedule", "kind"}
    assert flags - parts == {"preset", "params", "depth", "width", "heads", "max_length", "option"}


def test_flags_reach_the_recipe(train, tmp_path):
    words = (
        "hmm mamba --states 2 --symbols 2 --length 3 --preset quick --steps 2 --batch 4 --validation-episodes 8 "
        "--optimiser muon --lr 0.01 --muon-lr 0.03 --betas 0.8 0.9 --momentum 0.9 --weight-decay 0.1 --clip 0.5 "
        "--average 0.25 --warmup 1 --decay none --decay-share 0.5 --floor 0.1 --supervision posterior --name mine "
        "--precision float32 --depth 1 --width 8 --option state=4 --option conv=2 --ladder 0 --device cpu --json"
    )
    code, shown, _ = train("--out", tmp_path / "run", words=words.split())
    assert code == 0
    recipe = Recipe.from_dict(json.loads(shown)["recipe"])
    assert recipe.optimiser == Optimiser("muon", 0.01, 0.03, (0.8, 0.9), 0.9, 0.1, 0.5, 0.25)
    assert recipe.schedule == Schedule(1, "none", 0.5, 0.1)
    assert recipe.model_options == {"depth": 1, "width": 8, "state": 4, "conv": 2}
    assert (recipe.supervision, recipe.name, recipe.ladder) == ("posterior", "mine", 0)
    assert recipe.tunnel == wt.tunnels.HMM(states=2, symbols=2, length=3)


def test_a_preset_of_the_model(train):
    words = "bijection transformer --symbols 4 --length 4 --preset quick --option preset=nope --out x"
    code, _, said = train(words=words.split())
    assert code == 2 and "transformer preset = 'nope': must be one of paper-bijection" in said


def test_finished_is_left_alone(train, tmp_path):
    out = tmp_path / "run"
    assert train("--out", out)[0] == 0
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    code, shown, said = train("--out", out)
    assert code == 0 and said == f"windtunnel: {out} is finished (12 steps); nothing to do\n"
    assert "12/12" in shown and f"windtunnel evaluate {out}" in shown
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def test_a_warm_up_longer_than_the_training_is_shortened_with_a_line_or_refused(train, refusal, tmp_path):
    code, _, said = train("--out", tmp_path / "run")
    first, note, *_ = said.splitlines()
    assert code == 0 and note == "warm-up shortened from 50 steps to 1: there are only 12 in all"
    assert wt.load(tmp_path / "run").recipe.schedule.warmup == 1
    line = refusal("train", *TINY, "--warmup", 500, "--out", tmp_path / "other")
    assert "warmup = 500: must be at most steps = 12" in line and not (tmp_path / "other").exists()


def test_time_is_up_and_then_it_goes_on(train, tmp_path):
    out = tmp_path / "run"
    code, shown, said = train("--out", out, "--max-minutes", "1e-9")
    assert code == 0 and "stopped after" in said
    assert "0/12" in shown and "run the same command again to resume" in shown
    code, shown, said = train("--out", out)
    assert code == 0 and f"windtunnel: continuing {out} from step 0 of 12\n" in said and "12/12" in shown
    assert wt.load(out).finished


def test_a_tensorboard_beside_the_lines(train, tmp_path):
    pytest.importorskip("tensorboard")
    code, _, said = train("--out", tmp_path / "run", "--tracker", "tensorboard")
    assert code == 0 and "step 12/12" in said
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_says_how_to_resume(number, code, tmp_path):
    out = tmp_path / "run"
    words = [*TINY, "--steps", "300", "--validate-every", "1000", "--checkpoint-every", "1000", "--out", str(out)]
    command = [sys.executable, "-m", "windtunnel", "train", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stderr:
            if "step 0/300" in line:  # training has begun
                break
        process.send_signal(number)
        said, shown = process.stderr.read(), process.stdout.read()
    assert process.returncode == code and shown == ""
    assert said == f"windtunnel: stopped by {number.name}; saved in {out}; run the same command again to resume\n"
    stood = wt.load(out).folder.seed(0).last_step()
    assert stood is not None and not wt.load(out).finished
    if number == signal.SIGINT:
        return  # going on is the same
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "300/300" in done.stdout
    assert f"continuing {out} from step {stood} of 300\n" in done.stderr
    assert wt.load(out).finished


@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_is_closed_saves_too(tmp_path, nohup):
    """As when a connection is lost; whoever asked for nohup trains on."""
    out = tmp_path / "run"
    words = [*TINY, "--steps", "300", "--validate-every", "1000", "--checkpoint-every", "1000", "--out", str(out)]
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        output = os.open(os.devnull if nohup else "/dev/tty", os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execv(sys.executable, [sys.executable, "-m", "windtunnel", "train", *words])
    deadline = time.monotonic() + 60
    while not (out / "seed-0" / "step-00000001.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.close(terminal)
    os.waitpid(child, 0)
    stood = wt.load(out).folder.seed(0).last_step()
    assert stood == 300 if nohup else stood is not None and 0 < stood < 300


# --- refusals
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", ["train must be followed by a tunnel", "bijection, hmm, recall"]),
        ("cave transformer --out x", ["tunnel = 'cave'", "bijection, hmm, recall, urn"]),
        ("hmm", ["train hmm must be followed by a model", "transformer, mamba"]),
        ("hmm --out x", ["found '--out'", "train hmm must be followed by a model"]),
        ("hmm perceptron --out x", ["model = 'perceptron'", "transformer, mamba, lstm, mlp, linear-attention"]),
        ("hmm transformer", ["--out is missing", "a path"]),
        ("hmm transformer --out", ["--out has no value"]),
        ("hmm transformer extra --out x", ["unexpected word 'extra'"]),
        ("hmm transformer --out x --states 1", ["states = 1"]),
        ("hmm transformer --out x --preset slow", ["preset = 'slow'", "standard, quick"]),
        ("hmm transformer --out x --positions foo", ["unknown option '--positions': must be `--option positions=foo`"]),
        (
            "hmm transformer --out x --positions=rope --depth 1",
            ["must be `--option positions=rope`", "an option of the model"],
        ),
        ("hmm transformer --out x --positions --depth 1", ["must be `--option positions=…`"]),
        ("hmm transformer --out x --ff-width 8", ["unknown option '--ff-width': must be `--option ff_width=8`"]),
        ("hmm mamba --out x --state 8", ["unknown option '--state': must be `--option state=8`"]),
        ("hmm mamba --out x --positions rope", ["unknown option '--positions'", "train hmm --help`"]),
        ("hmm transformer --out x --step 5", ["unknown option '--step'", "did you mean --steps?"]),
        ("hmm transformer --out x --steps 0", ["steps = 0", "at least 1"]),
        ("hmm transformer --out x --steps many", ["--steps = 'many'", "a whole number"]),
        ("hmm transformer --out x --seeds 0", ["seeds = 0", "from 1 to 10000"]),
        ("hmm transformer --out x --batch 0", ["batch = 0", "at least 1"]),
        ("hmm transformer --out x --lr -1", ["error: --lr = -1.0", "above 0"]),
        ("hmm transformer --out x --betas 0.9", ["--betas = '0.9'", "two numbers"]),
        ("hmm transformer --out x --optimiser sgd", ["optimiser = 'sgd'", "adamw, muon"]),
        ("hmm transformer --out x --decay steep", ["decay = 'steep'", "cosine, linear, none"]),
        ("hmm transformer --out x --supervision none", ["supervision = 'none'", "labels, posterior"]),
        ("hmm transformer --out x --precision int8", ["precision = 'int8'", "float32, bfloat16"]),
        ("hmm transformer --out x --params 10", ["params = 10"]),
        (
            "hmm transformer --out x --max-length 2",
            ["--max-length = 2", "at least 30, the positions of this tunnel's inputs"],
        ),
        ("hmm transformer --out x --max-minutes 0", ["--max-minutes = 0.0", "above 0"]),
        ("hmm transformer --out x --tracker paper", ["--tracker = 'paper'", "none, tensorboard, trackio, wandb"]),
        ("hmm transformer --out x --device tpu", ["device = 'tpu'", "cpu"]),
        ("hmm transformer --out x --option rope", ["--option = 'rope'", "NAME=VALUE"]),
        (
            "hmm transformer --out x --option size=3",
            ["--option size=3", "option of transformer, 'size'", "positions"],
        ),
        ("hmm transformer --out x --option positions=odd", ["positions = 'odd'", "learned, rope, alibi, none"]),
        ("hmm transformer --out x --option batch=3", ["--option = 'batch=3'", "must be given as --batch 3"]),
        ("hmm transformer --out x --option positon=rope", ["preset, ff_width, positions"]),  # not those with a flag
        ("hmm transformer --out x --option seed=3", ["unknown option of transformer, 'seed'"]),
        ("hmm transformer --out x --option tunnel=hmm", ["unknown option of transformer, 'tunnel'"]),
        ("hmm transformer --out x --option ff_width=8 --option ff_width=9", ["ff_width is set already"]),
        ("hmm mamba --out x --heads 2", ["--heads: unknown option of mamba, 'heads'", "state"]),
    ],
)
def test_one_line(words, told, refusal, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    line = refusal("train", *words.split())
    for part in told:
        assert part in line
    assert not list(tmp_path.glob("x/recipe.json"))


def test_a_folder_that_cannot_be_used(train, refusal, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "must be a folder" in refusal("train", *TINY, "--out", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    out = tmp_path / "run"
    assert train("--out", out)[0] == 0
    assert "holds a run with steps = 12, not 13" in refusal("train", *TINY, "--out", out, "--steps", 13)
    (out / "recipe.json").write_text('{"format": 99}')
    assert "format = 99" in refusal("train", *TINY, "--out", out)


def test_a_start_that_failed_does_not_keep_the_folder(train, tmp_path):
    """A batch that no machine has memory for; then the corrected command."""
    out = tmp_path / "run"
    code, _, said = train("--batch", 10**11, "--out", out)
    assert code == 2 and "error: not enough memory" in said.splitlines()[-1]
    code, _, said = train("--out", out)
    begun = "was started with batch = 100000000000, not 8, but no step was trained: starting over"
    assert code == 0 and f"windtunnel: {out} {begun}\n" in said and wt.load(out).finished


def test_a_tunnel_that_differs_in_one_field_is_told_by_that_field(train, refusal, tmp_path):
    out = tmp_path / "run"
    assert train("--out", out)[0] == 0
    line = refusal("train", *TINY, "--out", out, "--symbols", 5)
    assert f"{out}: holds a run with symbols = 4, not 5; give the same" in line


def test_a_list_of_checkpoints_that_is_lost(train, refusal, tmp_path, capsys):
    out = tmp_path / "run"
    assert train("--out", out)[0] == 0
    before = {file: file.read_bytes() for file in out.rglob("*.safetensors")}
    (out / "seed-0" / "checkpoints.json").unlink()
    for words in (["train", *TINY, "--out", out], ["evaluate", out]):
        line = refusal(*words)
        assert f"{out}/seed-0: holds resume-00000012.safetensors and 4 more but no checkpoints.json" in line
    assert main(["runs", str(out)]) == 0 and "but no checkpoints.json" in " ".join(capsys.readouterr().out.split())
    assert {file: file.read_bytes() for file in out.rglob("*.safetensors")} == before
    code, _, said = train("--out", out, "--earlier")
    assert code == 0 and "nothing to do" in said and wt.load(out).finished


def test_a_bad_field_of_a_recipe_names_its_file(train, refusal, tmp_path):
    out = tmp_path / "run"
    assert train("--out", out)[0] == 0
    file = out / "recipe.json"
    file.write_text(file.read_text().replace('"steps": 12', '"steps": "many"'))
    for words in (["train", *TINY, "--out", out], ["evaluate", out]):
        assert refusal(*words) == f"windtunnel: error: {file}: steps = 'many': must be a whole number of at least 1\n"


def test_a_damaged_checkpoint(train, tmp_path):
    out = tmp_path / "run"
    assert train("--out", out, "--max-minutes", "1e-9")[0] == 0
    (state,) = (out / "seed-0").glob("resume-*")
    state.write_bytes(state.read_bytes()[:100])
    code, shown, said = train("--out", out)
    assert code == 2 and shown == "" and "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith(f"windtunnel: error: {state}: is truncated") and "--earlier" in last
    assert train("--out", out, "--earlier")[0] == 0
    assert wt.load(out).finished


def test_a_gpu_that_is_not_here(refusal, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "device = 'cuda'" in refusal("train", *TINY[:-1], "cuda", "--out", tmp_path / "run")


def test_a_tracker_that_is_not_installed(refusal, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "must be installed first (pip install wandb)" in refusal(
        "train", *TINY, "--tracker", "wandb", "--out", tmp_path / "run"
    )


@dataclass(frozen=True)
class Clash(wt.tunnels.Bijection):
    """A world with a field that is also part of a recipe."""

    batch: int = 3


def test_a_registered_tunnel_with_a_taken_name(refusal, monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_TUNNELS", dict(registry._TUNNELS))
    wt.tunnels.register("clash", Clash)
    line = refusal("train", "clash", "transformer", "--out", tmp_path / "run")
    assert "tunnel clash: its field 'batch' must be renamed" in line


def test_no_tunnel_shares_a_name_with_a_recipe(capsys):
    for name in wt.tunnels.names():
        assert main(["train", name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"usage: windtunnel train {name} MODEL" in shown and "--muon-lr" in shown
