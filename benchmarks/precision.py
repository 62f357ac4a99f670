"""What rounding does to a training step: the gradient with our kernels and without, against the one in float32.

    python benchmarks/precision.py [--only bijection-transformer,hmm-mamba] [--json FILE]

Trained networks of `zoo/`, fresh batches of their recipes.  Both paths are compiled and in bfloat16, as in training;
the plain one has none of our kernels, nor has the float32 gradient.  Distances are norms of differences over all
parameters, in units of the norm of the mean float32 gradient over all batches.

    one batch    of the gradient of one batch, on average
    mean         of the mean over all batches: what is left is no noise but a lean to one side
    sampling     how far the float32 gradient of one batch is from the mean over all: the scale to read the others by

A network that was trained to the end in bfloat16 has little left of a float32 gradient: compare paths, not networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from common import Parser, place, run, save, whole
from torch import Tensor

from windtunnel.environment import environment, require_device
from windtunnel.errors import require_choice
from windtunnel.models.compiled import must_compile
from windtunnel.models.kernels import without_kernels
from windtunnel.study import zoo
from windtunnel.training import Recipe
from windtunnel.training.network import Network

FIRST_STEP = 1_000_000  # batches that no training has come to


def gradients(name: str, batches: int, device: str, precision: str) -> Iterator[Tensor]:
    """The whole gradient on each of the same batches, as one float64 vector."""
    recipe = replace(Recipe.from_dict(zoo.card(name)["recipe"]), precision=precision)
    network = Network(recipe, seed=0, device=device)
    network.model.load_state_dict(zoo.load(name, device).state_dict())
    if precision == "bfloat16":
        torch._dynamo.reset()  # what was compiled with kernels must not serve without them
        network.compile()
        with must_compile():
            network.loss()  # it is compiled now, or never
    for batch in range(batches):
        network.step.fill_(FIRST_STEP + batch)
        found = torch.autograd.grad(network.loss(), network.parameters)
        yield torch.cat([gradient.flatten().double() for gradient in found])


def measure(name: str, batches: int, device: str) -> dict[str, Any]:
    """Both paths against float32 for one network."""
    with without_kernels(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        exact = list(gradients(name, batches, device, "float32"))
        plain = list(gradients(name, batches, device, "bfloat16"))
    ours = list(gradients(name, batches, device, "bfloat16"))
    centre = torch.stack(exact).mean(0)
    unit = float(centre.norm())
    sampling = sum(float((one - centre).norm()) for one in exact) / batches / unit
    row: dict[str, Any] = {"network": name, "batches": batches, "sampling": sampling}
    for path, found in (("kernels", ours), ("plain", plain)):
        alone = sum(float((one - wanted).norm()) for one, wanted in zip(found, exact, strict=True)) / batches
        lean = float((torch.stack(found).mean(0) - centre).norm())
        row[path] = {"one_batch": alone / unit, "mean": lean / unit}
    return row


def main() -> None:
    parser = Parser(description="Gradients in bfloat16, with our kernels and without, against float32.")
    parser.add_argument("--only", default="", help="networks of the zoo, separated by commas")
    parser.add_argument("--batches", type=whole(2), default=32)
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    device = require_device("cuda")
    names = options.only.split(",") if options.only else zoo.names()
    for name in names:
        require_choice("--only", name, zoo.names())
    columns = f"{'kernels: one batch':>18s} {'mean':>9s} {'plain: one batch':>17s} {'mean':>9s} {'sampling':>9s}"
    print(f"{'network':24s} {columns}")
    rows, where = [], environment(device)
    for name in names:
        row = measure(name, options.batches, device)
        rows.append(row)
        save(options.json, {"environment": where, "precision": rows})  # after every row: time may run out
        ours, plain = row["kernels"], row["plain"]
        told = f"{ours['one_batch']:18.4f} {ours['mean']:9.5f} {plain['one_batch']:17.4f} {plain['mean']:9.5f}"
        print(f"{name:24s} {told} {row['sampling']:9.3f}", flush=True)


if __name__ == "__main__":
    run(main)
