"""How near the fastest Transformers are to what the card allows: a part of docs/results.md.

A step is taken apart as the kernels divide it.  A matrix product, and attention, take the longer of two times: their
operations at the measured matrix rate, and their bytes (each input read once, each output written once) at the card's
bandwidth.  What lies between them takes its bytes.  Sampling and optimiser count as they were measured, launch gaps and
all else as nothing.  Bandwidth is not measured here and kernels may overlap, so this is an estimate: for a bandwidth
that kernels are assumed to reach, and beside it for that of the data sheet, which they do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tables import load, table

from windtunnel import models
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.rates import work_of

STRETCH = {"hmm/transformer-9x256": 250_000, "bijection/transformer": 400_000}
"""Stretch goals, in sequences per second."""
REACHED, PROMISED = 4.4e12, 4.8e12
"""Bytes per second: assumed to be within reach, not measured here; and of the data sheet."""
STREAM, HALF = 4, 2  # bytes of float32 and of bfloat16


class Parts(NamedTuple):
    """Milliseconds that a step takes at least."""

    products: float  # but for those of attention
    between: float  # adding, norms and GELUs
    attention: float
    sampling: float
    optimiser: float


def part(results: Path) -> list[str]:
    """Both cases, at the batch at which their throughput was measured."""
    result, profile = load(results / "training-2048.json"), load(results / "profile.json")
    rows = []
    for case, goal in STRETCH.items():
        (measured,) = [row for row in result["training"] if row["case"] == case]
        (spent,) = [row for row in profile["profile"] if row["case"] == case]
        recipe = cases("cuda")[case].with_options(batch=measured["batch"])
        parts, others = (least(recipe, result["matrix_flops_per_s"], rate, spent) for rate in (REACHED, PROMISED))
        all_ms, goal_ms = sum(parts), 1e3 * recipe.batch / goal
        rows.append(
            [
                case,
                *(f"{ms:.2f}" for ms in (*parts, all_ms)),
                *(f"{round(1e3 * recipe.batch / sum(ms), -3):,.0f}" for ms in (parts, others)),
                f"{measured['ms_per_step']:.2f}",
                f"{100 * all_ms / measured['ms_per_step']:.0f}%",
                f"{goal:,}",
                f"{100 * all_ms / goal_ms:.0f}%",
            ]
        )
    columns = ["case", "products", "add, norm, GELU", "attention", "sampling", "optimiser", "together"]
    columns += [
        "sequences/s, about",
        f"at {PROMISED / 1e12} TB/s",
        "measured, ms",
        "of the limit",
        "stretch goal",
        "which needs, of the limit",
    ]
    batch = f"{result['training'][0]['batch']:,}"
    where = (
        f"An estimate of the least time that a step of {batch} sequences can take with the kernels divided as they "
        "are, in milliseconds: a limit of this code, not of the card. A matrix product, and attention, take the "
        "longer of two times: their operations at the measured matrix rate, or their bytes (inputs read once, "
        f"outputs written once) at {REACHED / 1e12} TB/s, which is assumed; the data sheet has {PROMISED / 1e12} "
        "(one column). Residual additions, norms and GELUs take their bytes. Sampling and optimiser count as they "
        "were profiled; launch gaps, casts, embeddings and the loss cost nothing. A stretch goal that needs "
        "nearly all of the limit is not proved to be out of reach: that depends on a bandwidth which was not "
        "measured. Fewer bytes would lower this limit (products that add, norm and apply the GELU before their "
        "result leaves the chip, or a residual stream in bfloat16), and so would a faster optimiser. None of "
        "these has been measured."
    )
    return ["## What the card allows", "", where, "", *table(columns, rows)]


def least(recipe: Recipe, flops_per_s: float, bytes_per_s: float, profiled: dict[str, Any]) -> Parts:
    """Of one step.  Sampling grows with the batch, the optimiser does not.

    After the attention of the last block only the readouts go on: what follows it there has fewer rows.
    """
    model = models.build(recipe.model, recipe.tunnel, quiet=True, **recipe.model_options)
    config: Any = model.config  # type: ignore[union-attr]
    width, wide, depth, length = config.width, config.ff_width, config.depth, recipe.tunnel.positions
    rows, read = recipe.batch * length, recipe.batch * recipe.tunnel.readouts

    def ms(flops: float, moved: float) -> float:
        return 1e3 * max(flops / flops_per_s, moved / bytes_per_s)

    def linear(count: int, inward: int, outward: int) -> tuple[float, float]:
        """Operations and milliseconds of so many rows through a matrix and back: three products."""
        flops = 2 * count * inward * outward
        return 3 * flops, 3 * ms(flops, HALF * (count * (inward + outward) + inward * outward))

    shapes = [(rows, width, 3 * width)] * depth  # queries, keys and values
    for count, blocks in ((rows, depth - 1), (read, 1)):
        shapes += [(count, width, width), (count, width, wide), (count, wide, width)] * blocks
    in_blocks = [linear(*shape) for shape in shapes]
    attention_flops = 6 * 2 * rows * length * width  # both products forward, four backward
    everything = recipe.batch * work_of(recipe).flops_per_sequence
    outside = everything - sum(flops for flops, _ in in_blocks) - depth * attention_flops  # embedding and head
    # Forward: stream and branch in, stream and norm out.  Backward: stream, its gradient and the norm's in; two out.
    add_norm = width * ((2 * STREAM + 2 * HALF) + (3 * STREAM + 2 * HALF))
    first_norm = width * ((STREAM + HALF) + (3 * STREAM + HALF))  # nothing is added before it
    gelu = wide * HALF * (2 + 3)
    attention = width * HALF * (4 + 7)  # q, k, v, out; then q, k, v, the gradient of out, and three out
    between = rows * (first_norm + (2 * depth - 2) * add_norm + (depth - 1) * gelu) + read * (2 * add_norm + gelu)
    return Parts(
        sum(taken for _, taken in in_blocks) + ms(outside, 0),
        ms(0, between),
        depth * ms(attention_flops, rows * attention),
        profiled["sampling_ms"] * recipe.batch / profiled["batch"],
        profiled["optimiser_ms"],
    )
