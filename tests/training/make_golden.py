"""Write `golden.json`: the first 20 training losses (nats) of every architecture on one small recipe each.

    python -m tests.training.make_golden

Run it only after a change that is *meant* to alter training (initialisation, data, loss, optimiser, a model's
arithmetic), in the same commit, and say in the commit why the losses moved.  A change that is not meant to alter
results (speed, structure) must leave the file as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from tests.training.cases import SMALL_HMM, VARIANTS, tiny
from windtunnel.training import Recipe
from windtunnel.training.network import Network
from windtunnel.tunnels import HMM, Tunnel

GOLDEN = Path(__file__).with_name("golden.json")
STEPS = 20

# One fixed world, so that every architecture learns something in 20 steps and the losses are sensitive to how …
FIXED = HMM(
    states=3,
    symbols=3,
    length=6,
    header=None,
    transition=((0.9, 0.1, 0.0), (0.0, 0.9, 0.1), (0.3, 0.0, 0.7)),
    emission=((0.9, 0.1, 0.0), (0.1, 0.9, 0.0), (0.0, 0.1, 0.9)),
)
# … and one world per episode, described in features.
CASES: dict[str, tuple[Tunnel, str]] = {variant: (FIXED, variant) for variant in VARIANTS}
CASES["transformer-features"] = (SMALL_HMM, "transformer")


def golden_recipe(case: str, lr: float = 5e-3) -> Recipe:
    """Both optimisers at work, with decay and clipping, at rates that move the loss well within 20 steps.

    At twice these rates linear attention takes a rounding error of 1e-7 to 1e-3 within the 20 steps, and no record of
    it would hold on another machine.
    """
    options = {
        "batch": 64,
        "steps": STEPS,
        "lr": lr,
        "muon_lr": lr,
        "weight_decay": 0.1,
        "average": 0.0,
        "supervision": "posterior",
    }
    tunnel, variant = CASES[case]
    return tiny(tunnel, variant, **options)


def first_losses(recipe: Recipe) -> list[float]:
    """The loss of each of the first steps, in nats."""
    network, losses = Network(recipe, 0, "cpu"), []
    for _ in range(STEPS):
        before = network.loss_sum.clone()
        network.advance()
        losses.append(float(network.loss_sum - before))
    return losses


def main() -> None:
    torch.set_num_threads(1)
    record = {case: [round(loss, 7) for loss in first_losses(golden_recipe(case))] for case in CASES}
    lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(losses)}" for case, losses in record.items())
    GOLDEN.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
