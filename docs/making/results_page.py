"""docs/results.md: what the committed recipes reach, and how fast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import closeness_part
import limit_part
from speed_parts import (
    bench_part,
    kernels_part,
    pairs_part,
    sampling_part,
    seeds_part,
    solves_part,
    training_part,
    ways_part,
)
from tables import BUDGET, budget, commit_of, interval, load, made_with, table

from windtunnel.errors import InputError
from windtunnel.study import compare
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.quantity import Quantity


def reach_part(folder: Path) -> list[str]:
    """What recipes reach, one row each; then HMMs beyond their trained length."""
    results = [load(path) for path in sorted(folder.glob("*.json"))]
    rows, longer = [], []
    for result in results:
        home, seconds = result["scores"]["home"], result["seconds"]
        rows.append(
            [
                result["name"],
                budget(result["recipe"]),
                interval(home["kl_bits"]),
                interval(home["entropy_mae_bits"]),
                interval(home["curve_mae_bits"]),
                f"{home['accuracy']['mean']:.4f} ({home['exact_accuracy']:.4f})",
                f"{seconds['train']:.0f} + {seconds['setup']:.0f}{'*' * bool(result.get('note'))}",
                commit_of(result["environment"]),
            ]
        )
        for length in (30, 50):
            if f"length-{length}" in result["scores"]:
                whole, beyond = (result["scores"][f"length-{length}{part}"] for part in ("", "-extrapolated"))
                told = [interval(score[name]) for score in (whole, beyond) for name in ("kl_bits", "entropy_mae_bits")]
                longer.append([result["name"], str(length), *told])
    shape = ["recipe", BUDGET, "KL, bits", "entropy error per sequence, bits", "of the averaged curve, bits"]
    lines = ["## Every recipe", "", made_with(results[0]["environment"]), ""]
    lines += table([*shape, "accuracy (exact)", "seconds: training + set-up", "commit"], rows)
    shared = [f"{result['name']}: {result['note']}" for result in results if result.get("note")]
    noted = f"; with an asterisk, the card was shared ({'; '.join(shared)}), so that they tell no speed" * bool(shared)
    lines += [f"Training seconds are those of all seeds together{noted}.", ""]
    columns = [
        "recipe",
        "length",
        "KL",
        "entropy error per sequence",
        "KL, new positions",
        "entropy error, new positions",
    ]
    lines += ["## Beyond the trained length of 20", ""]
    return lines + table(columns, longer)


PAIRED = "Ratios are geometric means over seeds, paired, with 95% intervals: one that holds 1 does not show a change."


def again_part(first: Path, again: Path, before: Path) -> list[str]:
    """The same recipes on the same seeds, at a later commit: is what they reach still the same?

    before   results from before the kernels, of those recipes that were there already
    """
    say = f"{PAIRED} Even the same seed on the same code does not come out the same twice, because sums on a GPU are"
    say += " taken in any order."
    lines = _side_by_side(first, again, ("then", "now"))
    early = (
        "From before adding, norming and the GELU became kernels of ours; the attention of the Transformer was one"
        " already. The LSTM has none of them: its row shows what all other changes did."
    )
    left = [load(path) for path in sorted(first.glob("*.json")) if not (again / path.name).exists()]
    told = ", ".join(f"{result['name']} ({commit_of(result['environment'])})" for result in left)
    return [
        *("## The same recipes again, as the code has grown faster", "", say, "", *lines),
        *(f"Trained once, and not repeated: {told}.", ""),
        *(
            "### Before the kernels of a block",
            "",
            early,
            "",
            *_side_by_side(before, again, ("then", "now"), some=True),
        ),
    ]


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
            raise InputError(f"{path}: must have its like, {first / path.name}, to be told beside it")
        before, after = load(first / path.name), load(path)
        one, other = ({k: v for k, v in result["recipe"].items() if k != apart} for result in (before, after))
        if one != other:
            raise InputError(f"{path}: must be of the same recipe and seeds as {first / path.name}")
        seeds = tuple(after["recipe"]["seeds"])
        told = [after["name"]]
        for name in ("kl_bits", "entropy_mae_bits"):
            old, new = (result["scores"]["home"][name] for result in (before, after))
            quantities = [replace(Quantity.of_record(record), seeds=seeds) for record in (new, old)]
            told += [interval(old), interval(new), f"{compare.ratio(*quantities).brief(3)} ×"]
        rows.append([*told, f"{commit_of(before['environment'])} → {commit_of(after['environment'])}"])
    parts = [[f"{what}: {words[0]}", words[1], "ratio"] for what in ("KL, bits", "entropy error, bits")]
    return table(["recipe", *parts[0], *parts[1], "commits"], rows)


def page(results: Path, study: StudyFolder | None) -> str:
    """The whole page, from the folder of the result files, and the study for its baselines."""
    lines = [
        "# Results",
        "",
        "Written by `python docs/making/pages.py` from `benchmarks/results/`; do not edit. Intervals are 95%, over"
        " seeds where a recipe has several and over sequences otherwise. `docs/log.md` tells what was tried, and what"
        " failed.",
        "",
    ]
    lines += closeness_part.part(results / "h200" / "reach", study)
    lines += reach_part(results / "h200" / "reach")
    lines += again_part(*(results / "h200" / name for name in ("reach", "reach-again", "reach-before")))
    lines += precision_part(results / "h200" / "reach", results / "h200" / "reach-float32")
    lines += training_part(sorted((results / "h200").glob("training*.json")))
    lines += pairs_part(results / "h200" / "records")
    lines += limit_part.part(results / "h200")
    lines += seeds_part(sorted((results / "h200" / "seeds").glob("*.json")))
    lines += kernels_part(results / "h200" / "kernels.json")
    lines += solves_part(results / "h200" / "solves.json")
    lines += sampling_part(results / "h200" / "sampling.json", "a GPU")
    lines += sampling_part(results / "cpu" / "sampling.json", "a CPU")
    lines += bench_part(results / "h200" / "profile.json", "Where the time goes, on a GPU")
    lines += bench_part(results / "h200" / "growth.json", "As networks, batches and sequences grow, on a GPU")
    lines += bench_part(results / "h200" / "compile.json", "Starting and compiling, on a GPU")
    lines += ways_part(results / "cpu" / "cpu-paths.json")
    lines += bench_part(results / "cpu" / "bench.json", "Where the time goes, on a CPU")
    return "\n".join(lines).rstrip() + "\n"
