"""zoo/README.md: the shipped networks in a table, and how they were chosen; made from their cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tables import markdown, short_commit

from windtunnel.study import zoo
from windtunnel.study.presets import plan_for
from windtunnel.study.quantity import Quantity
from windtunnel.training import Recipe
from windtunnel.training.batch_stages import batch_told

SHOWN = {"labels": "labels", "posterior": "exact belief"}


def page() -> str:
    """All networks that `zoo` finds."""
    lines = [
        "# Networks",
        "",
        "Written by `python docs/making/pages.py`; do not edit. Scores are of the weights as stored here, on test"
        f" episodes of the tunnel that each was trained in, in bits, with a 95% interval over sequences. {_chosen()}",
        "",
        '    wt.zoo.load("hmm-mamba")      windtunnel evaluate hmm-mamba      windtunnel inspect hmm-mamba',
        "",
    ]
    columns = ("name", "trained on", "network", "training", "stored as", "KL", "entropy error", "accuracy", "commit")
    rows = []
    for name in zoo.names():
        known = zoo.card(name)
        home, recipe = known["scores"]["home"], Recipe.from_dict(known["recipe"])
        kl, error, right = (Quantity.of_record(home[metric]) for metric in ("kl_bits", "entropy_mae_bits", "accuracy"))
        changed = {k: v for k, v in known["recipe"]["tunnel"].items() if getattr(type(recipe.tunnel), k, v) != v}
        world = ", ".join([known["recipe"]["tunnel"]["name"], *(f"{k} {v}" for k, v in changed.items() if k != "name")])
        batch = batch_told(recipe.first_batch, recipe.batch)
        training = f"{recipe.steps:,} × {batch} sequences on the {SHOWN[recipe.supervision]}, seed {recipe.seeds[0]}"
        network = f"{recipe.model}, {known['parameters']:,} parameters"
        numbers = (kl.brief(2), error.brief(2), f"{right.mean:.4f}")
        rows.append((name, world, network, training, known["dtype"], *numbers, short_commit(known["commit"])))
    lines += markdown(columns, rows)
    return "\n".join(lines) + "\n"


def _chosen() -> str:
    """How the networks were chosen: those of a cell of the study, and those that were trained apart from it."""
    cells = {cell.name: cell.recipe for cell in plan_for("paper").cells}
    apart = [name for name in zoo.names() if not _of_cell(Recipe.from_dict(zoo.card(name)["recipe"]), cells)]
    others = ", ".join(apart)
    best = "is the seed of its cell with the lowest KL on the validation stream, so it is better than the mean"
    if not apart:
        return f"Each {best} of the seeds that the study reports."
    was = "was" if len(apart) == 1 else "were"
    return f"Each but {others} {best} of the seeds that the study reports; {others} {was} trained separately."


def _of_cell(recipe: Recipe, cells: Mapping[str, Recipe]) -> bool:
    """Is it one of the seeds of a cell, but for the learning rate, which a sweep may have chosen?"""
    cell = cells.get(recipe.name)
    if cell is None or not set(recipe.seeds) <= set(cell.seeds):
        return False
    return replace(recipe, optimiser=cell.optimiser, seeds=cell.seeds) == cell
