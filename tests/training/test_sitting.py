"""`train`: what a run contains depends on its recipe alone; stops and bad input are told in one line."""

from __future__ import annotations

import json
import math
import time
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

import windtunnel as wt
from tests.training.cases import BIJECTION, SMALL_HMM, VARIANTS, Counts, contents, counts, same, tiny
from windtunnel.errors import InputError
from windtunnel.training import Diverged, Recipe, load, sitting, train
from windtunnel.training.network import Network
from windtunnel.training.recipes import quick
from windtunnel.training.trackers import Silent
from windtunnel.tunnels import Bijection

RECIPE = tiny(steps=5)


class Unnamed(Bijection):
    """A world that nobody has registered."""


def on_cpu(recipe: Recipe, out=None, **options):
    return train(recipe=recipe, out=out, device="cpu", **options)


def one_line(error) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


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


def test_max_minutes_stops_and_the_same_call_ends_identically(tmp_path, monkeypatch):
    recipe = tiny(seeds=(0, 1), steps=7)
    on_cpu(recipe, tmp_path / "whole")
    hasty(monkeypatch, after=3)
    sittings, said = 0, []
    while not (run := on_cpu(recipe, tmp_path / "parts", max_minutes=60, say=said.append)).finished:
        sittings += 1
        assert sittings < 20
    assert sittings >= 4
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert "stopped after 60 minutes; the same command goes on from here" in said
    assert len(run.folder.timings()) >= sittings


def test_a_time_limit_needs_a_folder_to_go_on_from():
    with pytest.raises(InputError, match="max_minutes = 60: must be left out unless out"):
        on_cpu(tiny(seeds=(0, 1)), max_minutes=60)


@pytest.mark.parametrize("minutes", [0, -1, "5", math.nan, True])
def test_bad_minutes_are_told_in_one_line(tmp_path, minutes):
    with pytest.raises(InputError, match=f"^max_minutes = {minutes!r}: must be a finite number above 0$"):
        on_cpu(RECIPE, tmp_path / "run", max_minutes=minutes)
    assert not (tmp_path / "run").exists()


# --- a loss that is no number
def saved_tensors(folder):
    return [tensor for path in folder.rglob("*.safetensors") for tensor in load_file(path).values()]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_with_step_checkpoint_and_advice(tmp_path, monkeypatch, bad):
    loss = Network.loss
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (bad if int(net.step) == 5 else 1.0))
    with pytest.raises(InputError) as error:
        on_cpu(tiny(steps=20), tmp_path)
    assert one_line(error) == (
        "seed 0: the loss was not finite at step 5; the last good checkpoint is step 4; "
        "try in another folder a lower learning rate (lr is 0.003), a longer warm-up, or precision float32"
    )
    assert load(tmp_path).steps == 4
    assert all(bool(tensor.isfinite().all()) for tensor in saved_tensors(tmp_path))
    monkeypatch.setattr(Network, "loss", loss)  # whatever broke it is mended: the same call goes on
    on_cpu(tiny(steps=20), tmp_path)
    on_cpu(tiny(steps=20), tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    assert {name: content for name, content in contents(tmp_path).items() if not name.startswith("whole")} == whole


def test_weights_that_are_no_numbers_are_never_saved(tmp_path):
    """A huge rate: the loss of step 0 is fine, the weights after it are not, and every step is a checkpoint."""
    recipe = tiny(lr=1e39, optimiser="adamw", average=0.0, warmup=0, checkpoint_every=1, ladder=50, validate_every=1)
    with pytest.raises(InputError) as error:
        on_cpu(recipe, tmp_path)
    message = one_line(error)
    assert "seed 0: the weights were not finite after step 1; there is no checkpoint yet" in message
    assert "lr is 1e+39" in message
    assert saved_tensors(tmp_path) == []
    assert [record["step"] for record in load(tmp_path).metrics()] == [0]


def test_finite_weights_whose_predictions_are_no_numbers_have_diverged(tmp_path):
    """Too large for what is computed with them, at a step that validates before anything else would notice."""
    recipe = tiny(lr=1e22, optimiser="adamw", average=0.0, warmup=0, validate_every=1)
    with pytest.raises(Diverged) as error:
        on_cpu(recipe, tmp_path)
    assert one_line(error).startswith("seed 0: the predictions were not finite after step 1; there is no checkpoint")
    assert error.value.seed == 0 and [record["step"] for record in load(tmp_path).metrics()] == [0]


def test_bad_gradients_with_a_good_loss_never_reach_the_disk(tmp_path, monkeypatch):
    """As an overflow in the backward pass would make them, at a step that is a checkpoint."""
    loss = Network.loss

    def spoilt(net):
        value = loss(net)
        if int(net.step) == 3:
            value.register_hook(lambda gradient: gradient * math.nan)
        return value

    monkeypatch.setattr(Network, "loss", spoilt)
    with pytest.raises(InputError, match="weights were not finite after step 4; the last good checkpoint is step 2"):
        on_cpu(tiny(steps=20), tmp_path)
    assert load(tmp_path).steps == 2
    assert all(bool(tensor.isfinite().all()) for tensor in saved_tensors(tmp_path))


def test_without_a_folder_a_broken_loss_says_that_there_is_no_checkpoint(monkeypatch):
    loss = Network.loss
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * math.nan)
    with pytest.raises(InputError, match="not finite at step 0; there is no checkpoint; the model itself"):
        on_cpu(RECIPE)
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (math.nan if int(net.step) == 1 else 1.0))
    with pytest.raises(InputError, match="not finite at step 1; there is no checkpoint; try a lower learning rate"):
        on_cpu(RECIPE)  # nor is there a folder that could be in the way


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_predictions_that_are_no_numbers_from_the_start_are_not_blamed_on_the_learning_rate(tmp_path, precision):
    class Broken(Counts):
        def forward(self, tokens, features, readout):
            return super().forward(tokens, features, readout) * math.nan

    recipe = tiny(model="broken", model_options={}, precision=precision)
    with pytest.raises(Diverged) as error:
        train(model=Broken, recipe=recipe, out=tmp_path, device="cpu")
    assert one_line(error) == (
        "seed 0: the predictions were not finite before any step; there is no checkpoint yet; the model itself gives "
        "them, its first weights or its forward; no learning rate has acted yet"
        + "; precision float32 may help"
        * (precision == "bfloat16")
    )


def test_advice_after_divergence_can_be_followed(tmp_path):
    """A folder keeps to its recipe: the lower rate has to go elsewhere, and there it trains."""
    wild = tiny(lr=1e22, optimiser="adamw", average=0.0, warmup=0)
    with pytest.raises(Diverged, match="try in another folder a lower learning rate"):
        on_cpu(wild, tmp_path / "a")
    tame = tiny(lr=1e-3, optimiser="adamw", average=0.0, warmup=0)
    with pytest.raises(InputError, match=r"holds a run with lr = 1e\+22"):
        on_cpu(tame, tmp_path / "a")
    assert on_cpu(tame, tmp_path / "b").finished


@pytest.mark.parametrize(
    ("every", "rungs", "bad", "told"),
    [
        (4, 20, 4, "the last checkpoint is step 4"),  # weights that went in before their loss broke are not called good
        (4, 20, 5, "the last good checkpoint is step 4"),
        (9, 20, 4, "to go on from, and the last weights kept are of step 4, which may predict no numbers"),
        (9, 2, 4, "there is no checkpoint to go on from, and the last weights kept are of step 1"),
        (9, 20, 0, "there is no checkpoint yet"),
    ],
)
def test_divergence_says_what_is_kept(tmp_path, monkeypatch, every, rungs, bad, told):
    loss = Network.loss
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (math.nan if int(net.step) == bad else 1.0))
    with pytest.raises(Diverged) as error:
        on_cpu(tiny(steps=20, checkpoint_every=every, ladder=rungs), tmp_path)
    found = error.value.found
    advice = "try in another folder a lower" if bad else "the model itself gives them"
    assert found.endswith(told) and one_line(error).startswith(f"{found}; {advice}")
    if "weights" in told:
        assert f"of step {load(tmp_path).ladder()[-1]}" in told


# --- bad input
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tunnel": None}, "tunnel = None: must be given when no recipe is"),
        ({"model": "rnn"}, "model = 'rnn': must be one of transformer, mamba"),
        ({"colour": "red"}, "unknown option 'colour': must be one of optimiser"),
        ({"heads": 5, "width": 16}, "heads = 5: must be a divisor of width = 16"),
        ({"steps": 0}, "steps = 0: must be a whole number of at least 1"),
        ({"seeds": 0}, "seeds = 0: must be a whole number from 1 to 10000"),
        ({"preset": "paper"}, "preset = 'paper': must be one of standard, quick"),
        ({"optimiser": "sgd"}, "optimiser = 'sgd': must be one of adamw, muon"),
        ({"device": "tpu"}, "device = 'tpu': must be cpu, cuda or cuda:N"),
        ({"tracker": "paper"}, "tracker = 'paper': must be one of none, print, tensorboard"),
        (
            {"tracker": None},
            "tracker = None: must be one of none, print, tensorboard, trackio, wandb, or an object with start,",
        ),
        (
            {"tracker": Silent},
            "Silent'>: must be one of none, print, tensorboard, trackio, wandb, or an object with start, log",
        ),
        ({"tunnel": Unnamed()}, "tunnel = Unnamed: must be registered with windtunnel.tunnels.register first"),
        ({"tunnel": None, "recipe": "quick"}, "recipe = 'quick': must be a windtunnel.training.Recipe"),
        ({"tunnel": None, "recipe": tiny(), "model": counts}, "recipe.model = 'transformer': must be a name that no"),
        ({"model": counts, "colour": "red"}, "unknown option 'colour': must be one of optimiser"),
        ({"step": 3}, "unknown option 'step' (did you mean steps?): must be one of optimiser, supervision"),
        ({"model": "lstm", "posittions": "rope"}, "unknown option 'posittions': must be one of optimiser"),
    ],
)
def test_bad_input_is_told_in_one_line_and_before_anything_is_written(tmp_path, arguments, told):
    arguments = {"tunnel": BIJECTION, "device": "cpu", "steps": 2, "out": tmp_path / "run"} | arguments
    with pytest.raises(InputError) as error:
        train(**arguments)
    assert told in one_line(error)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("out", [5, "", b"run"])
def test_what_is_no_path_is_told_in_one_line(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=rf"^out = {out!r}: must be a path"):
        on_cpu(RECIPE, out)
    with pytest.raises(InputError, match=rf"^path = {out!r}: must be a path"):
        load(out)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_module_that_would_be_trained_again_and_again_is_refused_before_training(tmp_path, seeds):
    """By several seeds in turn; or by one, whose rungs would all be the same module."""
    net = Counts(BIJECTION)
    with pytest.raises(InputError, match="must be a function that builds a new module at every call") as error:
        train(BIJECTION, lambda tunnel: net, seeds=seeds, steps=2, device="cpu", out=tmp_path / "run")
    assert one_line(error) and not (tmp_path / "run").exists()
    wt.models.register("shared", lambda tunnel: net)
    try:
        with pytest.raises(InputError, match="model = 'shared': must be a function that builds a new module"):
            train(BIJECTION, "shared", seeds=seeds, steps=2, device="cpu")
    finally:
        wt.models.unregister("shared")
    assert train(BIJECTION, counts, seeds=seeds, steps=2, batch=4, device="cpu").finished


class Complex(Counts):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.turn = torch.nn.Parameter(torch.ones(8, dtype=torch.complex64))


class Secretive(Counts):
    def get_extra_state(self):
        return {"calls": 3}

    def set_extra_state(self, state):
        pass


class SecretTensor(Secretive):
    def get_extra_state(self):
        return torch.zeros(3)


class WideBuffer(Counts):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.register_buffer("turns", torch.ones(8, dtype=torch.complex128))


class Frozen(Counts):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.requires_grad_(False)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (Complex, r"parameter module\.turn is torch\.complex64: must be real; torch\.view_as_complex makes"),
        (
            Secretive,
            r"its state has module\._extra_state: must be parameters and buffers alone \(not get_extra_state\)$",
        ),
        (SecretTensor, r"its state has module\._extra_state: must be parameters and buffers alone"),
        (WideBuffer, r"module\.turns is torch\.complex128: must be of a dtype safetensors knows$"),
        (Frozen, r"must have parameters to train$"),
    ],
)
def test_a_model_that_cannot_be_trained_or_kept_is_told_before_there_is_a_folder(tmp_path, factory, told):
    for out in (None, tmp_path / "run"):
        with pytest.raises(InputError, match=rf"^model {factory.__name__}: {told}") as error:
            train(BIJECTION, factory, steps=2, batch=4, device="cpu", out=out)
        assert one_line(error) and not (tmp_path / "run").exists()


def test_sparse_gradients_train_as_dense_ones_do(tmp_path):
    def sparse(tunnel, is_sparse):
        net = Counts(tunnel)
        net.table.sparse = is_sparse
        return net

    options = {"steps": 3, "batch": 4, "device": "cpu"}
    runs = [train(BIJECTION, sparse, is_sparse=kind, out=tmp_path / str(kind), **options) for kind in (True, False)]
    assert same(runs[0].models[0].state_dict(), runs[1].models[0].state_dict())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_absent_is_told_in_one_line(tmp_path, device):
    with pytest.raises(InputError) as error:
        train(recipe=RECIPE, device=device, out=tmp_path / "run")
    assert f"device = '{device}': must be cpu" in one_line(error)
    assert not (tmp_path / "run").exists()


def test_where_no_folder_can_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError) as error:
            on_cpu(RECIPE, out)
        assert f"{out}: must be a folder that can be written to" in one_line(error)


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
