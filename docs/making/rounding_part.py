"""What rounding does to the averaged entropy curve: a part of docs/results.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tables import commit_of, load, made_with, table

PATHS = {
    "float32": "as scored: float32",
    "rounded": "weights rounded to bfloat16",
    "bfloat16": "rounded as in training",
}


def part(file: Path) -> list[str]:
    """Bias of the mean entropy of shipped networks, by what is rounded when they are scored."""
    result = load(file)
    rows = [_row(row) for row in result["rounding"]]
    columns = ["network", "trained in", *PATHS.values(), "weights rounded at random: moved by"]
    where = made_with(result["environment"]) + f", commit {commit_of(result['environment'])}"
    (episodes,) = {row["episodes"] for row in result["rounding"]}
    paths = [path for row in result["rounding"] for name, path in row["paths"].items() if name != "float32"]
    exact = [row["paths"]["float32"] for row in result["rounding"] for name in row["paths"] if name != "float32"]
    most = max(abs(path["kl_bits"] / one["kl_bits"] - 1) for path, one in zip(paths, exact, strict=True))
    (draws,) = {len(row["dithered_moved_bits"]) for row in result["rounding"]}
    say = (
        "How firm is the error of an averaged curve? In bfloat16 every matrix product reads its weights rounded"
        " to 8 bits; the float32 weights behind them are what is kept and scored. The table has the mean of"
        " H_model − H_exact over positions and sequences, in bits, of finished networks on the same episodes; in"
        " brackets how far rounding moves it, paired, with a 95% interval over sequences. In the last column each"
        f" weight is rounded up or down at random, {draws} times: the root mean square of how far that moves it,"
        f" and its share of the error as scored. KL changes by at most {100 * most:.0f}%. Where that share is"
        " large, the direction in which weights happen to be rounded decides about the curve, and a difference of"
        " that size between the curves of two trainings is no evidence of a change. The control is a network that"
        " was trained in float32. What training in float32 would give to the others has not been measured."
    )
    made = f"{where}; {episodes:,} test episodes, networks of zoo/. Made by `python benchmarks/rounding.py`."
    return [
        "### What rounding does to the averaged curve",
        "",
        say,
        "",
        made,
        "",
        *table(columns, rows),
    ]


def _row(row: dict[str, Any]) -> list[str]:
    told = []
    for path in PATHS:
        found = row["paths"][path]
        words = f"{found['bias_bits']['mean']:+.1e}"
        if "moved_bits" in found:
            moved = found["moved_bits"]
            words += f" ({moved['mean']:+.1e} [{moved['low']:+.1e}, {moved['high']:+.1e}])"
        told.append(f"{words}, KL {found['kl_bits']:.2e}")
    spread = float(np.sqrt(np.mean(np.square(row["dithered_moved_bits"]))))
    share = spread / abs(row["paths"]["float32"]["bias_bits"]["mean"])
    return [row["network"], row["trained_in"], *told, f"±{spread:.1e} ({100 * share:.0f}%)"]
