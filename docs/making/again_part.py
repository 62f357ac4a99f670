"""The parts of docs/results.md that ask whether a recipe trained again still reaches the same fidelity."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import commit_of, interval, load, table

from windtunnel.errors import InputError
from windtunnel.study import compare
from windtunnel.study.quantity import Quantity

COMPARED = {
    "kl_bits": "KL, bits",
    "entropy_mae_bits": "entropy error per sequence, bits",
    "curve_mae_bits": "of the averaged curve, bits",
}
PAIRED = (
    "Ratios are geometric means over seeds, paired, with 95% intervals: an interval that includes 1 is no evidence of a"
    " change."
)


def again_part(first: Path, again: Path, before: Path, attempts: Path) -> list[str]:
    """The same recipes on the same seeds, at a later commit: is what they reach still the same?

    before     results from before the kernels, of those recipes that were there already
    attempts   at times to fidelity: they train recipes too, until the last target is met
    """
    say = f"{PAIRED} Even the same seed on the same code need not come out the same twice, because a GPU may add"
    say += " in another order. The error of the averaged curve is what is left where errors of both signs cancel: it"
    say += " differs most from one training to the next; how firm it is, is told below."
    early = (
        "*Then* is from before we wrote kernels for the residual addition, the norm and the GELU; the Transformer's"
        " attention already had one. The LSTM uses none of these kernels, so its row shows the effect of all other"
        " changes."
    )
    left = [load(path) for path in sorted(first.glob("*.json")) if not (again / path.name).exists()]
    on_the_way = [row for result in left if (row := _row_on_the_way(result, attempts)) is not None]
    told = {row[0] for row in on_the_way}
    once = ", ".join(f"{one['name']} ({commit_of(one['environment'])})" for one in left if one["name"] not in told)
    lines = ["## The same recipes rerun on faster code", "", say, ""]
    lines += _side_by_side(first, again, ("then", "now"))
    lines += _on_the_way_part(on_the_way)
    lines += [f"Trained once, and not repeated: {once}.", ""] if once else []
    lines += ["### Compared with before the block kernels", "", early, ""]
    return lines + _side_by_side(before, again, ("then", "now"), some=True)


def precision_part(first: Path, exact: Path) -> list[str]:
    """The same recipes on the same seeds in float32: what does bfloat16 cost?  Nothing, where that was not measured."""
    if not exact.is_dir():
        return []
    say = f"Trained in float32 instead, on the same episodes. {PAIRED}"
    lines = _side_by_side(first, exact, ("bfloat16", "float32"), apart="precision")
    return ["## What bfloat16 costs", "", say, "", *lines]


def _side_by_side(
    first: Path, second: Path, words: tuple[str, str], apart: str | None = None, some: bool = False
) -> list[str]:
    """Results of one name in two folders, of the same recipe and seeds but for one option; seconds are not told.

    some   the first folder does not have all that the second has
    """
    rows = []
    for path in sorted(second.glob("*.json")):
        if some and not (first / path.name).exists():
            continue
        if not (first / path.name).exists():
            raise InputError(f"{path}: must have its like, {first / path.name}, to be listed beside it")
        before, after = load(first / path.name), load(path)
        one, other = ({k: v for k, v in result["recipe"].items() if k != apart} for result in (before, after))
        if one != other:
            raise InputError(f"{path}: must be of the same recipe and seeds as {first / path.name}")
        seeds = tuple(after["recipe"]["seeds"])
        told = [after["name"]]
        for name in COMPARED:
            old, new = (result["scores"]["home"][name] for result in (before, after))
            told += [interval(old), interval(new), _ratio(new, old, seeds)]
        rows.append([*told, f"{commit_of(before['environment'])} → {commit_of(after['environment'])}"])
    columns = [column for what in COMPARED.values() for column in (f"{what}: {words[0]}", words[1], "ratio")]
    return table(["recipe", *columns, "commits"], rows)


def _ratio(new: dict[str, Any], old: dict[str, Any], seeds: tuple[int, ...]) -> str:
    """Of two records of the same seeds.  One seed has no interval: that over sequences knows one training each."""
    if len(seeds) == 1:
        return f"{new['mean'] / old['mean']:.3g} × (one seed)"
    quantities = [replace(Quantity.of_record(record), seeds=seeds) for record in (new, old)]
    return f"{compare.ratio(*quantities).brief(3)} ×"


def _on_the_way_part(rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    say = (
        "Some recipes were not trained a second time in full, but attempts at times to fidelity trained the same seeds"
        " until their last target was reached. These are compared before that point: by the validation KL at the last"
        " step where the first training was validated and all attempts were still running. The attempts' KL at that"
        " step is interpolated, in log KL, between their own validations."
    )
    columns = ["recipe", "at step", "seeds", "KL, bits: then", "now", "ratio", "commits"]
    return ["### The same seeds, part of the way through training", "", say, "", *table(columns, rows)]


def _row_on_the_way(first: dict[str, Any], attempts: Path) -> list[str] | None:
    """A result beside the newest attempt at the same recipe on at least two of its seeds; None without one."""
    alike = [one for path in sorted(attempts.glob("*.json")) if _same_recipe(first, one := load(path))]
    shared = [(one, pairs) for one in alike if len(pairs := _pairs(first, one)) > 1]
    if not shared:
        return None
    attempt, pairs = max(shared, key=lambda made: made[0]["date"])
    looks = [{look["step"] for look in history} for history, _ in pairs.values()]
    steps = [s for s in set.intersection(*looks) if 0 < s <= min(curve[-1][1] for _, curve in pairs.values())]
    if not steps:
        return None
    step, seeds = max(steps), tuple(pairs)
    then = [next(look["kl_bits"] for look in history if look["step"] == step) for history, _ in pairs.values()]
    now = [_kl_at(step, curve) for _, curve in pairs.values()]
    old, new = (replace(Quantity.of_seeds(values, "log"), seeds=seeds) for values in (then, now))
    told = [first["name"], f"{step:,} of {first['recipe']['steps']:,}", str(len(seeds)), old.brief(2), new.brief(2)]
    commits = " → ".join(commit_of(result["environment"]) for result in (first, attempt))
    return [*told, f"{compare.ratio(new, old).brief(3)} ×", commits]


def _pairs(first: dict[str, Any], attempt: dict[str, Any]) -> dict[int, tuple[list, list]]:
    """Seed -> its history and its curve in the attempt, for seeds that both have."""
    curves = {one["seed"]: one["curve"] for one in attempt["seeds"]}
    return {seed: (first["history"][str(seed)], curves[seed]) for seed in curves if str(seed) in first["history"]}


def _same_recipe(first: dict[str, Any], attempt: dict[str, Any]) -> bool:
    """But for its name and seeds."""
    one, other = ({k: v for k, v in made["recipe"].items() if k not in ("name", "seeds")} for made in (first, attempt))
    return one == other


def _kl_at(step: int, curve: list[list[float]]) -> float:
    """KL in bits at a step of an attempt, whose looks are [seconds, step, KL in bits]."""
    _, steps, kl_bits = zip(*curve, strict=True)
    return math.exp(np.interp(step, steps, np.log(kl_bits)))
