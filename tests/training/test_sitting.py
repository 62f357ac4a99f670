"""`train`: what a run contains depends on its recipe alone; a folder goes on, is left alone, or is another's."""

from __future__ import annotations

import json
import math
import time
from types import SimpleNamespace

import pytest
import torch

import windtunnel as wt
from tests.training.cases import BIJECTION, SMALL_HMM, VARIANTS, Counts, contents, counts, on_cpu, one_line, same, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, sitting, train
from windtunnel.training.network import Network
from windtunnel.training.recipes import quick

RECIPE = tiny(steps=5)


# --- one recipe, one result
@pytest.mark.parametrize("variant", ["transformer", "mamba", "lstm-residual"])
def test_two_trainings_with_one_recipe_leave_the_same_bytes(tmp_path, variant):
    recipe = tiny(SMALL_HMM, variant, seeds=(0, 1))
    torch.manual_seed(1)
    on_cpu(recipe, tmp_path / "a")
    torch.manual_seed(2)  # global random state must not matter
    on_cpu(recipe, tmp_path / "b")
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert a == b
    assert {name for name in a if name.startswith("seed-1/")} == {
        "seed-1/checkpoints.json",
        "seed-1/metrics.jsonl",
        *(f"seed-1/step-{step:08d}.safetensors" for step in (1, 2, 6)),
        *(f"seed-1/resume-{step:08d}.safetensors" for step in (4, 6)),
    }


def test_metrics_hold_every_score_and_no_clock(tmp_path):
    on_cpu(tiny(steps=7, validate_every=3), tmp_path)
    records = [json.loads(line) for line in (tmp_path / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 3, 6, 7]
    assert all(record.keys() == {"step", "loss_bits", "kl_bits", "entropy_mae_bits"} for record in records)
    assert records[0]["loss_bits"] is None
    assert all(math.isfinite(record["kl_bits"]) and record["kl_bits"] > 0 for record in records)


def test_a_logged_loss_is_the_mean_since_the_last_score(tmp_path):
    net, losses = Network(RECIPE, 0, "cpu"), []
    for _ in range(3):
        losses.append(float(net.loss().detach()) / math.log(2))
        net.advance()
    on_cpu(RECIPE, tmp_path)
    assert load(tmp_path).metrics()[1]["loss_bits"] == pytest.approx(sum(losses) / 3, rel=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_seeds_together_equal_seeds_alone(variant):
    together = on_cpu(tiny(SMALL_HMM, variant, seeds=(0, 1, 2), steps=3))
    for index, seed in enumerate((0, 1, 2)):
        alone = on_cpu(tiny(SMALL_HMM, variant, seeds=(seed,), steps=3))
        assert same(alone.models[0].state_dict(), together.models[index].state_dict())
        assert alone.metrics(seed) == together.metrics(seed)


def test_a_seed_does_not_depend_on_its_companions(tmp_path):
    on_cpu(tiny(seeds=(7, 3)), tmp_path / "a")
    on_cpu(tiny(seeds=(3, 8, 9)), tmp_path / "b")
    a, b = ({k: v for k, v in contents(tmp_path / x).items() if k.startswith("seed-3/")} for x in "ab")
    assert a == b and len(a) == 7
    assert (tmp_path / "a/seed-7/metrics.jsonl").read_bytes() != (tmp_path / "a/seed-3/metrics.jsonl").read_bytes()


def test_in_memory_equals_on_disk(tmp_path):
    memory, disk = on_cpu(RECIPE), on_cpu(RECIPE, tmp_path)
    assert same(memory.models[0].state_dict(), disk.models[0].state_dict())
    assert memory.metrics() == disk.metrics()
    assert memory.steps == disk.steps == RECIPE.steps and memory.finished and disk.finished


def test_training_learns():
    """From labels alone, towards a belief it is never shown."""
    run = on_cpu(tiny(batch=64, steps=150, validate_every=150, validation_episodes=256, lr=1e-2, average=0.0, ladder=0))
    first, last = run.metrics()[0], run.metrics()[-1]
    assert last["kl_bits"] < 0.5 * first["kl_bits"]


# --- a finished folder, the same folder with another recipe
def test_a_finished_folder_is_left_alone(tmp_path):
    on_cpu(RECIPE, tmp_path)

    def look():
        files = {path: path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before, said = look(), []
    run = on_cpu(RECIPE, tmp_path, say=said.append)
    assert look() == before
    assert said == [f"{tmp_path} is finished (5 steps); nothing to do"]
    assert run.finished and len(run.models) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch": 9}, "batch = 8, not 9"),
        ({"steps": 50}, "steps = 5, not 50"),
        ({"lr": 0.5}, "lr = 0.003, not 0.5"),
        ({"optimiser": "adamw"}, "optimiser = 'muon', not 'adamw'"),
        ({"warmup": 9}, "warmup = 2, not 9"),
        ({"seeds": (0, 1)}, "seeds = (0,), not (0, 1)"),
        ({"model": "mamba"}, "model = 'transformer', not 'mamba'"),
        ({"model_options": {"depth": 1}}, "depth = 2, not 1, width = 16, not left out, and heads = 2, not left out"),
        ({"tunnel": SMALL_HMM}, "tunnel = 'bijection', not 'hmm'; give the same options"),
    ],
)
def test_a_folder_of_another_recipe_is_refused_and_the_field_named(tmp_path, options, told):
    on_cpu(RECIPE, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError) as error:
        on_cpu(RECIPE.with_options(**options), tmp_path)
    assert f"{tmp_path}: holds a run with {told}" in one_line(error)
    assert contents(tmp_path) == before


def test_options_of_a_factory_with_tuples_can_be_given_again(tmp_path):
    def factory(tunnel, widths):
        return Counts(tunnel, sum(widths))

    for _ in range(2):
        run = train(BIJECTION, factory, out=tmp_path, steps=2, batch=4, widths=(4, 4), device="cpu")
    assert run.models[0].module.mix.in_features == 8


# --- stops
def hasty(monkeypatch, after: int) -> None:
    """A clock that jumps by an hour and more each time it is looked at `after` times."""
    looks = 0

    def monotonic() -> float:
        nonlocal looks
        looks += 1
        return time.monotonic() + (3700 if looks % (after + 1) == 0 else 0)

    monkeypatch.setattr(sitting, "time", SimpleNamespace(monotonic=monotonic, perf_counter=time.perf_counter))


@pytest.mark.parametrize("count", [1, 2])
def test_max_minutes_stops_and_the_same_call_ends_identically(tmp_path, monkeypatch, threads, count):
    threads(count)  # seeds one after the other; seeds side by side, as many steps between two looks as a second has
    monkeypatch.setattr(sitting, "_LOOK_S", 1e-9)
    recipe = tiny(seeds=(0, 1), steps=7)
    on_cpu(recipe, tmp_path / "whole")
    hasty(monkeypatch, after=3)
    sittings, said = 0, []
    while not (run := on_cpu(recipe, tmp_path / "parts", max_minutes=60, say=said.append)).finished:
        sittings += 1
        assert sittings < 20
    assert sittings >= 4 // count  # both seeds stop at every look, where they go together
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert "stopped after 60 minutes; run the same command again to resume" in said
    assert len(run.folder.timings()) >= sittings


def test_a_time_limit_needs_a_folder_to_go_on_from():
    with pytest.raises(InputError, match="max_minutes = 60: must be left out unless out"):
        on_cpu(tiny(seeds=(0, 1)), max_minutes=60)


@pytest.mark.parametrize("minutes", [0, -1, "5", math.nan, True])
def test_bad_minutes_are_told_in_one_line(tmp_path, minutes):
    with pytest.raises(InputError, match=f"^max_minutes = {minutes!r}: must be a finite number above 0$"):
        on_cpu(RECIPE, tmp_path / "run", max_minutes=minutes)
    assert not (tmp_path / "run").exists()


# --- from names and presets to a recipe
def test_train_takes_recipe_and_options():
    run = wt.train(BIJECTION, "mlp", preset="quick", steps=2, depth=1, width=8, batch=4, seeds=(5,), device="cpu")
    expected = quick(BIJECTION, "mlp").with_options(
        steps=2, batch=4, seeds=(5,), model_options={"depth": 1, "width": 8}
    )
    assert run.recipe == expected.with_options(warmup=0)  # of 50 steps it would be, with two to train
    assert run.models[0].config.depth == 1


@pytest.mark.parametrize("preset", [None, "quick"])
def test_a_factory_gets_a_recipe_without_built_in_sizes(preset):
    run = train(BIJECTION, counts, preset=preset, steps=2, batch=4, device="cpu")
    made = quick(BIJECTION, "counts")  # what a CPU takes when nothing is said
    assert run.recipe == made.with_options(steps=2, warmup=0, batch=4, model_options={})


def test_a_network_with_tied_weights_trains_saves_and_resumes(tmp_path):
    class Tied(Counts):
        def __init__(self, tunnel):
            super().__init__(tunnel)
            self.second = torch.nn.Linear(8, 8)
            self.second.weight = self.mix.weight

        def forward(self, tokens, features, readout):
            return self.last(self.second(torch.tanh(self.mix(self.table(tokens)))))[:, readout]

    options = {"steps": 4, "batch": 4, "checkpoint_every": 2, "optimiser": "muon", "device": "cpu"}
    run = train(BIJECTION, Tied, out=tmp_path, **options)
    again = load(tmp_path, model=Tied)
    assert same(run.models[0].state_dict(), again.models[0].state_dict())
    module = again.models[0].module
    assert module.second.weight is module.mix.weight


class Ahead(torch.nn.Module):
    """Reads the whole sequence in both directions, with a head that starts at zero and so hides it."""

    def __init__(self, tunnel) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(tunnel.vocabulary, 8)
        self.lstm = torch.nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(16, tunnel.classes)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, tokens, features, readout):
        return self.head(self.lstm(self.embedding(tokens))[0][:, readout])


def test_a_model_that_looks_ahead_is_found_out_at_the_first_validation_of_trained_weights():
    options = {"lr": 0.02, "supervision": "labels", "validate_every": 5, "batch": 16, "validation_episodes": 16}
    with pytest.raises(InputError, match=r"^model Ahead: must be causal; its prediction at position \d+ changed"):
        train(BIJECTION, Ahead, preset="quick", device="cpu", steps=50, **options)
