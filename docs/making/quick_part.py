"""The quick preset on a CPU, against the commit before the work on speed: a part of docs/results.md."""

from __future__ import annotations

import statistics
from pathlib import Path

from tables import commit_of, load, made_with, table


def part(path: Path) -> list[str]:
    """The whole command, start-up and validation included; a row per tree, from rounds in turns."""
    result = load(path)
    rounds, place = result["rounds"], result["environment"]
    rows = []
    for name, commit in (("before", result["before"]), ("now", commit_of(place))):
        every = [one[name] for one in rounds]
        middle, used = (statistics.median(one[key] for one in every) for key in ("seconds", "processor"))
        last = every[-1]
        per_step = f"{1e3 * middle / last['step']:.1f}"
        scores = [f"{last[key]:.2g}" for key in ("kl_bits", "entropy_mae_bits")]
        rows.append([commit[:7], f"{last['step']:,}", f"{middle:.1f}", per_step, f"{used:.1f}", *scores])
    fastest = result["ratio_of_fastest"]
    said = (
        f"{made_with(place)}, {place['threads']} threads; `python benchmarks/against.py {result['before']}"
        f" --rounds {len(rounds)}`, which runs `{result['command']}` with one tree and the other, in turns. The whole"
        f" command is **{result['median_ratio']:.2f} times as fast**, median of the ratios of {len(rounds)} rounds"
        f" ({fastest['seconds']:.2f} times by the fastest run of each, {fastest['processor']:.2f} in processor"
        " seconds). Most of it is a recipe that ends with less error after fewer steps (Muon and an average of the"
        " weights in place of AdamW): by the clock a step takes about as long."
    )
    columns = ["commit", "steps", "seconds, median", "ms per step, all included", "processor seconds, median"]
    columns += ["validation KL, bits", "entropy error, bits"]
    return ["## The quick preset, before and now", "", said, "", *table(columns, rows)]
