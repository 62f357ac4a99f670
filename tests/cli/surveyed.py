"""What the tests of `windtunnel inspect` share."""

from __future__ import annotations

import torch

from windtunnel.training import Run

ALIKE = ("--device", "cpu", "--episodes", "8", "--untrained", "2")


def train_again(run: Run) -> None:
    """Other weights in place of the last ones, as a second training on another machine would leave them."""
    weights = {name: value + 0.01 * torch.ones_like(value) for name, value in run.models[0].state_dict().items()}
    run.folder.seed(run.recipe.seeds[0]).save_weights(run.ladder()[-1], weights)
