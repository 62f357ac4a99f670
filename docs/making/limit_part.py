"""How near the fastest Transformers are to what the card allows: a part of docs/results.md.

However well each kernel is written, a step of these takes at least the time of its matrix products at the measured
rate, and of the bytes that the kernels between them must move (each input read once, each output written once) at the
card's bandwidth.  Sampling and optimiser count as they were measured, launch gaps and all else as nothing.
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
BYTES_PER_S = 4.4e12
"""Bandwidth that is assumed, not measured here; the data sheet promises 4.8e12."""
STREAM, HALF = 4, 2  # bytes of float32 and of bfloat16


class Parts(NamedTuple):
    """Milliseconds that a step takes at least."""

    products: float
    between: float
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
        parts = least(recipe, result["matrix_flops_per_s"], spent)
        all_ms, goal_ms = sum(parts), 1e3 * recipe.batch / goal
        rows.append(
            [
                case,
                *(f"{ms:.2f}" for ms in (*parts, all_ms)),
                f"{1e3 * recipe.batch / all_ms:,.0f}",
                f"{measured['ms_per_step']:.2f}",
                f"{100 * all_ms / measured['ms_per_step']:.0f}%",
                f"{goal:,}",
                f"{100 * all_ms / goal_ms:.0f}%",
            ]
        )
    columns = ["case", "products", "add, norm, GELU", "attention", "sampling", "optimiser", "together"]
    columns += ["sequences/s at most", "measured, ms", "of the limit", "stretch goal", "which needs, of the limit"]
    where = (
        f"The least time that a step of {result['training'][0]['batch']:,} sequences can take with the kernels divided"
        " as they are, in milliseconds: matrix products at the measured rate; every other tensor read and written once"
        f" at an assumed {BYTES_PER_S / 1e12:.1f} TB/s; sampling and optimiser as they were profiled; launch gaps,"
        " casts, embeddings and the loss at no cost. What would lower this limit: fewer bytes (products that add, norm"
        " and apply the GELU before their result leaves the chip, or a residual stream in bfloat16) and a faster"
        " optimiser. None of these has been measured."
    )
    return ["## What the card allows", "", where, "", *table(columns, rows)]


def least(recipe: Recipe, flops_per_s: float, profiled: dict[str, Any]) -> Parts:
    """Of one step.  Sampling grows with the batch, the optimiser does not.

    After the attention of the last block only the readouts go on: its norm and its GELU have fewer rows.
    """
    model = models.build(recipe.model, recipe.tunnel, quiet=True, **recipe.model_options)
    config: Any = model.config  # type: ignore[union-attr]
    rows, read = recipe.batch * recipe.tunnel.positions, recipe.batch * recipe.tunnel.readouts
    # Forward: stream and branch in, stream and norm out.  Backward: stream, its gradient and the norm's in; two out.
    norm = config.width * ((2 * STREAM + 2 * HALF) + (3 * STREAM + 2 * HALF))
    gelu = config.ff_width * HALF * (2 + 3)
    attention = config.width * HALF * (4 + 7)  # q, k, v, out; then q, k, v, the gradient of out, and three out
    between = rows * ((2 * config.depth - 2) * norm + (config.depth - 1) * gelu) + read * (norm + gelu)
    to_ms = 1e3 / BYTES_PER_S
    return Parts(
        1e3 * recipe.batch * work_of(recipe).flops_per_sequence / flops_per_s,
        to_ms * between,
        to_ms * rows * config.depth * attention,
        profiled["sampling_ms"] * recipe.batch / profiled["batch"],
        profiled["optimiser_ms"],
    )
