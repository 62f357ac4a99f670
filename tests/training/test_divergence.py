"""A loss, weights or predictions that are no numbers: training stops, and says what is kept and what to try."""

from __future__ import annotations

import math

import pytest
from safetensors.torch import load_file

from tests.training.cases import Counts, contents, on_cpu, one_line, tiny
from windtunnel.errors import InputError
from windtunnel.training import Diverged, load, train
from windtunnel.training.network import Network

RECIPE = tiny(steps=5)


def saved_tensors(folder):
    return [tensor for path in folder.rglob("*.safetensors") for tensor in load_file(path).values()]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_with_step_checkpoint_and_advice(tmp_path, monkeypatch, bad):
    loss, stopped = Network.loss, tmp_path / "stopped"
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (bad if int(net.step) == 5 else 1.0))
    with pytest.raises(InputError) as error:
        on_cpu(tiny(steps=20), stopped)
    assert one_line(error) == (
        "seed 0: the loss was not finite at step 5; the last good checkpoint is step 4; "
        "try in another folder a lower learning rate (lr is 0.003), a longer warm-up, or precision float32"
    )
    assert load(stopped).steps == 4
    assert all(bool(tensor.isfinite().all()) for tensor in saved_tensors(stopped))
    monkeypatch.setattr(Network, "loss", loss)  # whatever broke it is mended: the same call goes on
    on_cpu(tiny(steps=20), stopped)
    on_cpu(tiny(steps=20), tmp_path / "whole")
    assert contents(stopped) == contents(tmp_path / "whole")


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
        "seed 0: the predictions were not finite before any step; there is no checkpoint yet; the model itself is "
        "the cause: check its initial weights and its forward"
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
        (9, 20, 4, "to resume from, and the last weights kept are from step 4, which may predict NaN"),
        (9, 2, 4, "there is no checkpoint to resume from, and the last weights kept are from step 1"),
        (9, 20, 0, "there is no checkpoint yet"),
    ],
)
def test_divergence_says_what_is_kept(tmp_path, monkeypatch, every, rungs, bad, told):
    loss = Network.loss
    monkeypatch.setattr(Network, "loss", lambda net: loss(net) * (math.nan if int(net.step) == bad else 1.0))
    with pytest.raises(Diverged) as error:
        on_cpu(tiny(steps=20, checkpoint_every=every, ladder=rungs), tmp_path)
    found = error.value.found
    advice = "try in another folder a lower" if bad else "the model itself is the cause"
    assert found.endswith(told) and one_line(error).startswith(f"{found}; {advice}")
    if "weights" in told:
        assert f"from step {load(tmp_path).ladder()[-1]}" in told
