"""docs/results.md: what the committed recipes reach, and how fast."""

from __future__ import annotations

from pathlib import Path

import again_part
import closeness_part
import goals_part
import limit_part
import quick_part
import rounding_part
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

from windtunnel.study.folder.results import StudyFolder


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
    noted = (
        f"; with an asterisk, the card was shared ({'; '.join(shared)}), so those seconds say nothing about speed"
        * bool(shared)
    )
    lines += [f"Training seconds are those of all seeds together{noted}.", ""]
    columns = [
        "recipe",
        "length",
        "KL",
        "entropy error per sequence",
        "KL, new positions",
        "entropy error, new positions",
    ]
    lines += ["## Errors beyond the trained length of 20", ""]
    return lines + table(columns, longer)


def page(results: Path, study: StudyFolder | None) -> str:
    """The whole page, from the folder of the result files, and the study for its baselines."""
    lines = [
        "# Results",
        "",
        "Written by `python docs/making/pages.py` from `benchmarks/results/`; do not edit. Intervals are 95%, over"
        " seeds where a recipe has several and over sequences otherwise. `docs/log.md` lists what was tried, and what"
        " failed.",
        "",
    ]
    lines += closeness_part.part(results / "h200" / "reach", results / "h200" / "reach-again", study)
    lines += reach_part(results / "h200" / "reach")
    folders = ("reach", "reach-again", "reach-before", "records")
    lines += again_part.again_part(*(results / "h200" / name for name in folders))
    lines += rounding_part.part(results / "cpu" / "rounding.json")
    lines += again_part.precision_part(results / "h200" / "reach", results / "h200" / "reach-float32")
    lines += goals_part.part(results)
    lines += training_part(
        sorted((results / "h200").glob("training*.json")),
        sorted((results / "h200" / "training-earlier").glob("*.json")),
    )
    lines += pairs_part(results / "h200" / "records")
    lines += limit_part.part(results / "h200")
    lines += seeds_part(sorted((results / "h200" / "seeds").glob("*.json")))
    lines += kernels_part(results / "h200" / "kernels.json")
    lines += solves_part(results / "h200" / "solves.json")
    lines += sampling_part(results / "h200" / "sampling.json", "a GPU")
    lines += sampling_part(results / "cpu" / "sampling.json", "a CPU")
    lines += bench_part(results / "h200" / "profile.json", "Where the time goes, on a GPU")
    lines += bench_part(
        results / "h200" / "growth.json", "Speed and memory as networks, batches and sequences grow, on a GPU"
    )
    lines += bench_part(results / "h200" / "compile.json", "Starting and compiling, on a GPU")
    lines += quick_part.part(results / "cpu" / "against-e4632d6.json")
    lines += ways_part(results / "cpu" / "cpu-paths.json")
    lines += bench_part(results / "cpu" / "bench.json", "Where the time goes, on a CPU")
    return "\n".join(lines).rstrip() + "\n"
