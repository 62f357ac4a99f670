"""Write docs/results.md from the committed result files: no number there is typed by hand.

python benchmarks/tables.py            write the page
python benchmarks/tables.py --check    exit 1 if the page is not what the files say
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "results.md"


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def interval(estimate: dict[str, Any]) -> str:
    """`0.0033 [0.0031, 0.0036]`."""
    return f"{estimate['mean']:.2g} [{estimate['low']:.2g}, {estimate['high']:.2g}]"


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return [*head, *("| " + " | ".join(row) + " |" for row in rows), ""]


def made_with(environment: dict[str, Any]) -> str:
    versions = environment["versions"]
    return f"{environment['device']}, torch {versions['torch']}, Python {environment['python']}"


def reach_part(folder: Path) -> list[str]:
    """What recipes reach, one row each; then HMMs beyond their trained length."""
    results = [load(path) for path in sorted(folder.glob("*.json"))]
    rows, longer = [], []
    for result in results:
        home, seconds = result["scores"]["home"], result["seconds"]
        seeds, steps = len(result["recipe"]["seeds"]), result["recipe"]["steps"]
        rows.append(
            [
                result["name"],
                f"{seeds} × {steps}",
                interval(home["kl_bits"]),
                interval(home["entropy_mae_bits"]),
                interval(home["curve_mae_bits"]),
                f"{home['accuracy']['mean']:.4f} ({home['exact_accuracy']:.4f})",
                f"{seconds['train']:.0f} + {seconds['setup']:.0f}",
            ]
        )
        for length in (30, 50):
            if f"length-{length}" in result["scores"]:
                whole, beyond = (result["scores"][f"length-{length}{part}"] for part in ("", "-extrapolated"))
                told = [interval(score[name]) for score in (whole, beyond) for name in ("kl_bits", "entropy_mae_bits")]
                longer.append([result["name"], str(length), *told])
    shape = ["recipe", "seeds × steps", "KL, bits", "entropy error per sequence, bits", "of the averaged curve, bits"]
    lines = ["## What the recipes reach", "", made_with(results[0]["environment"]), ""]
    lines += table([*shape, "accuracy (exact)", "seconds: training + set-up"], rows)
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


def training_part(path: Path) -> list[str]:
    """Throughput of training steps."""
    result = load(path)
    rows = [
        [
            row["case"],
            str(row["seeds"]),
            str(row["batch"]),
            f"{row['sequences_per_s']:,.0f}",
            f"{row['ms_per_step']:.2f}",
            f"{100 * row['share_of_peak']:.1f}%",
            f"{row['setup_s']:.0f}",
        ]
        for row in result.get("training") or result["rows"]  # `rows` until the file is made again
    ]
    columns = ["case", "seeds", "batch", "sequences/s", "ms per step", "share of matrix rate", "set-up, s"]
    rate = f"{result['matrix_flops_per_s'] / 1e12:.0f} TFLOP/s in a large bfloat16 matrix product"
    return ["## Training throughput", "", f"{made_with(result['environment'])}; {rate}", "", *table(columns, rows)]


def sampling_part(path: Path) -> list[str]:
    """Episodes per second beside plain NumPy."""
    result = load(path)
    rows = [
        [row["tunnel"], f"{row['episodes_per_s']:,.0f}", f"{row['over_plain']:.1f} ×", f"{row['over_tuned']:.1f} ×"]
        for row in result["rows"]
    ]
    columns = ["sampler", "episodes/s", "over plain NumPy", "over tuned NumPy"]
    environment = result["environment"]
    where = f"{made_with(environment)}, {environment['threads']} threads"
    return ["## Sampling with exact posteriors on a CPU", "", where, "", *table(columns, rows)]


def page() -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        "Written by `python benchmarks/tables.py` from `benchmarks/results/`; do not edit. Intervals are 95%, over"
        " seeds where a recipe has several and over sequences otherwise. `docs/log.md` tells what was tried, and what"
        " failed.",
        "",
    ]
    lines += reach_part(RESULTS / "h200" / "reach")
    lines += training_part(RESULTS / "h200" / "training.json")
    lines += sampling_part(RESULTS / "cpu" / "sampling.json")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/results.md from the committed result files.")
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    if not parser.parse_args().check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        sys.exit("docs/results.md is not what benchmarks/results says; run: python benchmarks/tables.py")


if __name__ == "__main__":
    main()
