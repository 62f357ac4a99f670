"""docs/results.md from the committed result files, and the small parts of tables that other pages use too.

`python docs/making/pages.py` writes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError
from windtunnel.study import compare
from windtunnel.study.files import markdown
from windtunnel.study.quantity import Quantity


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def interval(estimate: dict[str, Any]) -> str:
    """`0.0033 [0.0031, 0.0036]`."""
    return Quantity.of_record(estimate).brief(2)


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """A table and the empty line after it."""
    return [*markdown(columns, rows), ""]


def made_with(environment: dict[str, Any]) -> str:
    versions = environment["versions"]
    return f"{environment['device']}, torch {versions['torch']}, Python {environment['python']}"


BUDGET = "seeds × steps × batch"


def budget(recipe: dict[str, Any]) -> str:
    """What a recipe was given, as `BUDGET` says: `3 × 4,000 × 1,024`."""
    return f"{len(recipe['seeds'])} × {recipe['steps']:,} × {recipe['batch']:,}"


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
                f"{seconds['train']:.0f} + {seconds['setup']:.0f}",
                result["environment"]["commit"],
            ]
        )
        for length in (30, 50):
            if f"length-{length}" in result["scores"]:
                whole, beyond = (result["scores"][f"length-{length}{part}"] for part in ("", "-extrapolated"))
                told = [interval(score[name]) for score in (whole, beyond) for name in ("kl_bits", "entropy_mae_bits")]
                longer.append([result["name"], str(length), *told])
    shape = ["recipe", BUDGET, "KL, bits", "entropy error per sequence, bits", "of the averaged curve, bits"]
    lines = ["## What the recipes reach", "", made_with(results[0]["environment"]), ""]
    lines += table([*shape, "accuracy (exact)", "seconds: training + set-up", "commit"], rows)
    lines += ["Training seconds are those of all seeds together.", ""]
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


def again_part(first: Path, again: Path) -> list[str]:
    """The same recipes on the same seeds, at a later commit: is what they reach still the same?"""
    rows = []
    for path in sorted(again.glob("*.json")):
        before, after = load(first / path.name), load(path)
        if before["recipe"] != after["recipe"]:
            raise InputError(f"{path}: must be of the same recipe and seeds as {first / path.name}")
        seeds = tuple(after["recipe"]["seeds"])
        told = [after["name"]]
        for name in ("kl_bits", "entropy_mae_bits"):
            old, new = (result["scores"]["home"][name] for result in (before, after))
            quantities = [replace(Quantity.of_record(record), seeds=seeds) for record in (new, old)]
            told += [interval(old), interval(new), f"{compare.ratio(*quantities).brief(3)} ×"]
        rows.append([*told, f"{before['environment']['commit']} → {after['environment']['commit']}"])
    columns = ["recipe", "KL, bits: then", "now", "ratio", "entropy error, bits: then", "now", "ratio", "commits"]
    say = (
        "Ratios are geometric means over seeds, paired, with 95% intervals: one that holds 1 does not show a change."
        " Even the same seed on the same code does not come out the same twice, because sums on a GPU are taken in any"
        " order."
    )
    return ["## The same recipes again, as the code has grown faster", "", say, "", *table(columns, rows)]


def training_part(files: list[Path]) -> list[str]:
    """Throughput of training steps; of sittings on one machine each."""
    results = [load(file) for file in files]
    rows = [
        [
            row["case"],
            str(row["seeds"]),
            str(row["batch"]),
            f"{row['sequences_per_s']:,.0f}",
            f"{row['ms_per_step']:.2f}",
            f"{100 * row['share_of_peak']:.1f}%",
            f"{row['setup_s']:.0f}",
            result["environment"]["commit"],
        ]
        for result in results
        for row in result["training"]
    ]
    columns = ["case", "seeds", "batch", "sequences/s", "ms per step", "share of matrix rate", "set-up, s", "commit"]
    rates = " and ".join(f"{result['matrix_flops_per_s'] / 1e12:.0f}" for result in results)
    where = f"{made_with(results[0]['environment'])}; {rates} TFLOP/s in a large bfloat16 matrix product"
    return ["## Training throughput", "", where, "", *table(columns, rows)]


def seeds_part(files: list[Path]) -> list[str]:
    """Five seeds in one step against one; and the same five times the work as one network's batch, for scale."""
    newest = {  # a case at a batch was measured again on a quiet card, in the file that comes last
        (row["case"], row["batch"]): (row, result) for result in map(load, files) for row in result["seeds"]
    }
    rows = [
        [
            row["case"],
            str(row["batch"]),
            f"{row['one_ms']:.2f}",
            f"{row['together_ms']:.2f}",
            f"{row['cost_of_one']:.2f} ×",
            f"{row['cost_of_batch']:.2f} ×",
            f"{100 * row['busy_share']:.0f}%" if "busy_share" in row else "",
            result["environment"]["commit"],
        ]
        for row, result in newest.values()
    ]
    rows.sort(key=lambda row: (-int(row[1]), row[0]))
    columns = ["case", "batch", "one seed, ms", "five seeds, ms", "cost", "cost of five times the batch"]
    columns += ["one seed: time with a kernel running", "commit"]
    where = (
        f"{made_with(load(files[-1])['environment'])}; milliseconds per step. Those at f0f409c were taken in turns with"
    )
    where += " other work on the card."
    scale = (
        "A batch five times as large is the same work in one network, with one optimiser step instead of five and each"
        " weight read once: with these kernels five seeds cannot cost less. Where that alone costs more than 3 times"
        " one seed, the card is full in this sense, though not of arithmetic (the table above has the shares of the"
        " matrix rate): one seed keeps kernels running nearly all the time, and they are large enough to fill it."
        " `quick` and the batches of 64 have small kernels, which run side by side."
    )
    return ["## Five seeds in one step", "", where, scale, "", *table(columns, rows)]


def kernels_part(path: Path) -> list[str]:
    """Our GPU kernels against the plain form of the same, compiled."""
    result = load(path)
    rows = []
    for row in result["kernels"]:
        ours, twin = row["ours"], row["twin"]
        timed = [f"{part[key]:.3f}" for key in ("forward_ms", "both_ms") for part in (ours, twin)]
        rows.append([row["kernel"], *timed, f"{twin['both_ms'] / ours['both_ms']:.1f} ×"])
    columns = ["kernel", "forward, ms", "compiled twin", "both ways, ms", "compiled twin", "as fast, both ways"]
    where = f"{made_with(result['environment'])}, beside other work on the card: the ratios count."
    return ["## Kernels against their plain twins", "", where, "", *table(columns, rows)]


def sampling_part(path: Path, place: str) -> list[str]:
    """Episodes per second beside plain NumPy."""
    result = load(path)
    rows = [
        [row["tunnel"], f"{row['episodes_per_s']:,.0f}", f"{row['over_plain']:.1f} ×", f"{row['over_tuned']:.1f} ×"]
        for row in result["rows"]
    ]
    columns = ["sampler", "episodes/s", "over plain NumPy", "over tuned NumPy"]
    environment = result["environment"]
    where = f"{made_with(environment)}, {environment['threads']} threads"
    return [f"## Sampling with exact posteriors on {place}", "", where, "", *table(columns, rows)]


def page(results: Path) -> str:
    """The whole page, from the folder of the result files."""
    lines = [
        "# Results",
        "",
        "Written by `python docs/making/pages.py` from `benchmarks/results/`; do not edit. Intervals are 95%, over"
        " seeds where a recipe has several and over sequences otherwise. `docs/log.md` tells what was tried, and what"
        " failed.",
        "",
    ]
    lines += reach_part(results / "h200" / "reach")
    lines += again_part(results / "h200" / "reach", results / "h200" / "reach-again")
    lines += training_part(sorted((results / "h200").glob("training*.json")))
    lines += seeds_part(sorted((results / "h200" / "seeds").glob("*.json")))
    lines += kernels_part(results / "h200" / "kernels.json")
    lines += sampling_part(results / "h200" / "sampling.json", "a GPU")
    lines += sampling_part(results / "cpu" / "sampling.json", "a CPU")
    return "\n".join(lines).rstrip() + "\n"
