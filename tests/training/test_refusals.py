"""What `train` refuses: in one line, and before anything is written."""

from __future__ import annotations

import os
import sys

import pytest
import torch

import windtunnel as wt
from tests.training.cases import BIJECTION, Counts, counts, on_cpu, one_line, same, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.trackers import Silent
from windtunnel.tunnels import Bijection

RECIPE = tiny(steps=5)


class Unnamed(Bijection):
    """A world that nobody has registered."""


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


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system takes no such name")
def test_a_path_that_safetensors_cannot_open_is_refused_before_training(tmp_path):
    """Its weights could be written, and would be called damaged when they are read."""
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(InputError, match=r"^out = .*: must be a path in UTF-8$"):
        on_cpu(RECIPE, odd)
    assert not list(tmp_path.iterdir())
    assert on_cpu(RECIPE, tmp_path / "café ∞").models
    (tmp_path / "café ∞").rename(odd)
    with pytest.raises(InputError, match=r"^path = .*: must be a path in UTF-8$"):
        load(odd)


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
            r"its state has module\._extra_state: must be parameters and buffers only \(not get_extra_state\)$",
        ),
        (SecretTensor, r"its state has module\._extra_state: must be parameters and buffers only"),
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
