"""Code of one's own that fails while it is trained: one line, nothing lost, and no success that was none."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.training.cases import BIJECTION, Counts, one_line
from windtunnel.errors import InputError
from windtunnel.training import train

FEW = {"steps": 6, "batch": 4, "validate_every": 2, "validation_episodes": 8, "checkpoint_every": 2, "device": "cpu"}


def at_step(step, accident):
    """A module that meets with an accident when it is trained for the so-manieth time."""

    class Fragile(Counts):
        trained = 0

        def forward(self, tokens, features, readout):
            if self.training and torch.is_grad_enabled() and len(tokens) == FEW["batch"]:
                Fragile.trained += 1
                if Fragile.trained == step:
                    accident()
            return super().forward(tokens, features, readout)

    return Fragile


def slip():
    raise ValueError("too many episodes\nand a long story")


@pytest.mark.parametrize(
    ("accident", "told"),
    [(slip, r"ValueError in test_own_accidents\.py:\d+: too many episodes"), (sys.exit, "SystemExit")],
)
def test_an_accident_at_the_full_batch_alone_is_one_line(tmp_path, accident, told):
    with pytest.raises(InputError, match=told) as error:
        train(BIJECTION, at_step(1, accident), out=tmp_path / "run", **FEW)
    line = one_line(error)
    assert line.startswith("model Fragile on Bijection: training failed after step 0 (")
    assert line.endswith("; there is no checkpoint yet")


def test_a_later_accident_loses_nothing_that_was_saved(tmp_path):
    Fragile = at_step(6, slip)
    with pytest.raises(InputError, match=r"failed after step 5 .*; the last good checkpoint is step 4$"):
        train(BIJECTION, Fragile, out=tmp_path / "run", **FEW)
    run = train(BIJECTION, Fragile, out=tmp_path / "run", **FEW)  # mended: it goes on from there
    whole = train(BIJECTION, Fragile, out=tmp_path / "whole", **FEW)
    assert run.finished
    for name, value in whole.models[0].state_dict().items():
        assert torch.equal(run.models[0].state_dict()[name], value)


def test_without_a_folder_nothing_was_saved():
    with pytest.raises(InputError, match=r"training failed after step 2 .*; nothing was saved$"):
        train(BIJECTION, at_step(3, slip), **FEW)


def test_a_mistake_of_ours_is_seen_whole(monkeypatch):
    def broken(network):
        raise ValueError("ours")

    monkeypatch.setattr("windtunnel.training.network.Network.loss", broken)
    with pytest.raises(ValueError, match=r"^ours$"):
        train(BIJECTION, "mlp", params=2000, **FEW)


class Full(OSError):
    """No room on the disk."""


def test_what_saving_meets_is_not_laid_at_the_model_s_door(tmp_path, monkeypatch):
    def full(*arguments):
        raise Full(28, "No space left on device", "somewhere")

    monkeypatch.setattr("windtunnel.training.seed_folder.SeedFolder.save_state", full)
    with pytest.raises(Full):
        train(BIJECTION, at_step(99, slip), out=tmp_path / "run", **FEW)


def test_a_factory_that_ends_the_process_is_one_line():
    def leaving(tunnel):
        sys.exit("farewell")

    with pytest.raises(InputError, match=r"its factory failed, .*SystemExit in test_own_accidents\.py:\d+: farewell"):
        train(BIJECTION, leaving, **FEW)


def test_a_forward_that_changes_its_inputs_while_it_is_trained_is_refused(tmp_path):
    class Erasing(Counts):
        def forward(self, tokens, features, readout):
            logits = super().forward(tokens, features, readout)
            if self.training:
                tokens.zero_()
            return logits

    with pytest.raises(InputError, match="model Erasing: forward must leave tokens, features and readout as they are"):
        train(BIJECTION, Erasing, out=tmp_path / "run", **FEW)
    assert not (tmp_path / "run").exists()
