"""How near the fastest Transformers are to what the card allows: a part of docs/results.md.

A step is taken apart as the kernels divide it.  A matrix product, and attention, take the longer of two times: their
operations at the measured matrix rate, and their bytes (each input read once, each output written once) at the card's
bandwidth.  What lies between them takes its bytes.  Sampling and optimiser count as they were measured, launch gaps and
all else as nothing.  Kernels may overlap, so this is an estimate: for the best bandwidth that any of our kernels
between products reaches in the profile, and beside it for that of the data sheet, which none does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from speed_parts import GOAL
from tables import load, table

from windtunnel import models
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.rates import work_of

STRETCH = {"hmm/transformer-9x256": 250_000, "bijection/transformer": 400_000}
"""Stretch goals, in sequences per second."""
PROMISED = 4.8e12
"""Bytes per second, of the data sheet."""
STREAM, HALF = 4, 2  # bytes of float32 and of bfloat16
# Bytes per number.  Forward: stream and branch in, stream and norm out.  Backward: stream, its gradient and the norm's
# in; two out.  GELU: one in and one out; then two in and one out.
ADD_NORM, ADD_NORM_BACKWARD = 2 * STREAM + 2 * HALF, 3 * STREAM + 2 * HALF
GELU, GELU_BACKWARD = 2 * HALF, 3 * HALF


class Parts(NamedTuple):
    """Milliseconds that a step takes at least."""

    products: float  # but for those of attention
    between: float  # adding, norms and GELUs
    attention: float
    sampling: float
    optimiser: float


def part(results: Path) -> list[str]:
    """The limit of one seed at the batch at which throughput was measured; the bandwidth that kernels reach; the limit
    of five seeds."""
    result, profile = load(results / "training-2048.json"), load(results / "profile.json")
    spent = {row["case"]: row for row in profile["profile"] if row["case"].endswith(("transformer", "9x256"))}
    rates = {case: reached(_recipe(case, row["batch"]), row) for case, row in spent.items()}
    best = max(rate for found in rates.values() for rate in found.values())
    rows = []
    for case, goal in STRETCH.items():
        (measured,) = [row for row in result["training"] if row["case"] == case]
        recipe = _recipe(case, measured["batch"])
        flops_per_s = result["matrix_flops_per_s"]
        parts, others = (least(recipe, flops_per_s, rate, spent[case]) for rate in (best, PROMISED))
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
    where = (
        f"An estimate of the least time that a step of {result['training'][0]['batch']:,} sequences can take with the"
        " kernels divided as they are, in milliseconds: a limit of this code, not of the card. A matrix product, and"
        " attention, take the longer of two times: their operations at the measured matrix rate, or their bytes (inputs"
        f" read once, outputs written once) at {best / 1e12:.1f} TB/s, the most that any kernel of the next table"
        f" reaches; the data sheet has {PROMISED / 1e12} (one column). Residual additions, norms and GELUs take their"
        " bytes. Sampling and optimiser count as they were profiled; launch gaps, casts, embeddings and the loss cost"
        " nothing. Fewer bytes would lower this limit (products that add, norm and apply the GELU before their result"
        " leaves the chip, or a residual stream in bfloat16), and so would a faster optimiser. None of these has been"
        " measured."
    )
    lines = ["## What the card allows", "", where, "", *table(columns, rows)]
    return lines + _bandwidth_part(rates, spent) + _five_part(spent, profile["matrix_flops_per_s"], best)


def _bandwidth_part(rates: dict[str, dict[str, float]], spent: dict[str, Any]) -> list[str]:
    kernels = [kernel for found in rates.values() for kernel in found]
    rows = [
        [case, *(f"{found[kernel] / 1e12:.1f}" for kernel in dict.fromkeys(kernels))] for case, found in rates.items()
    ]
    (batch,) = {row["batch"] for row in spent.values()}
    say = f"What the kernels between products reach in the profile of a step of {batch:,} sequences, in TB/s: the bytes"
    say += " counted above over the time that a kernel takes."
    slowest = {min(found, key=lambda kernel: found[kernel]) for found in rates.values()}
    if len(slowest) == 1:
        say += f" In all of them `{slowest.pop()}` is the furthest from the card's bandwidth."
    return [say, "", *table(["case", *dict.fromkeys(kernels)], rows)]


def _five_part(spent: dict[str, Any], flops_per_s: float, bytes_per_s: float) -> list[str]:
    """Five seeds by the same sum, each with its own sampling and optimiser, in times of one seed as it was profiled."""
    rows, costs = [], []
    for case, row in spent.items():
        limit_ms = 5 * sum(least(_recipe(case, row["batch"]), flops_per_s, bytes_per_s, row))
        rows.append([case, str(row["batch"]), f"{row['ms_per_step']:.2f}", f"{limit_ms:.2f}"])
        costs.append(limit_ms / row["ms_per_step"])
        rows[-1].append(f"{costs[-1]:.2f} ×")
    say = "Five seeds by the same sum, each with its own sampling and optimiser step, against one seed as it is now."
    beyond = sum(cost > GOAL for cost in costs)
    say += f" In {beyond} of {len(costs)} cases {GOAL} times one seed, the goal of the next section, is less than that:"
    say += " there it takes better kernels, not another arrangement of them."
    return [say, "", *table(["case", "batch", "one seed, measured, ms", "five seeds, at least, ms", "cost"], rows)]


def _recipe(case: str, batch: int) -> Recipe:
    return cases("cuda")[case].with_options(batch=batch)


def reached(recipe: Recipe, profiled: dict[str, Any]) -> dict[str, float]:
    """Bytes per second of the kernels between products.  In the last block only the readouts go on, and what is added
    last is not normed by them."""
    config = _config(recipe)
    rows, read = recipe.batch * recipe.tunnel.positions, recipe.batch * recipe.tunnel.readouts
    normed = config.width * ((2 * config.depth - 2) * rows + read)
    bent = config.ff_width * ((config.depth - 1) * rows + read)
    moved = {
        "_add_norm_kernel": normed * ADD_NORM,
        "_add_norm_backward_kernel": normed * ADD_NORM_BACKWARD,
        "_bias_gelu_kernel": bent * GELU,
        "_bias_gelu_backward_kernel": bent * GELU_BACKWARD,
    }
    taken = {row["operation"]: row["ms"] for row in profiled["operations"]}
    return {kernel: bytes_moved / (1e-3 * taken[kernel]) for kernel, bytes_moved in moved.items() if kernel in taken}


def _config(recipe: Recipe) -> Any:
    model: Any = models.build(recipe.model, recipe.tunnel, **recipe.model_options)
    return model.config


def least(recipe: Recipe, flops_per_s: float, bytes_per_s: float, profiled: dict[str, Any]) -> Parts:
    """Of one step.  Sampling grows with the batch, the optimiser does not.

    After the attention of the last block only the readouts go on: what follows it there has fewer rows.
    """
    config = _config(recipe)
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
    add_norm = width * (ADD_NORM + ADD_NORM_BACKWARD)
    first_norm = width * ((STREAM + HALF) + (3 * STREAM + HALF))  # nothing is added before it
    gelu = wide * (GELU + GELU_BACKWARD)
    attention = width * HALF * (4 + 7)  # q, k, v, out; then q, k, v, the gradient of out, and three out
    between = rows * (first_norm + (2 * depth - 2) * add_norm + (depth - 1) * gelu) + read * (2 * add_norm + gelu)
    return Parts(
        sum(taken for _, taken in in_blocks) + ms(outside, 0),
        ms(0, between),
        depth * ms(attention_flops, rows * attention),
        profiled["sampling_ms"] * recipe.batch / profiled["batch"],
        profiled["optimiser_ms"],
    )
