"""The part of README.md on speed: throughput of training, and time to a given fidelity, on one GPU."""

from __future__ import annotations

from pathlib import Path

from records_page import load_attempts
from tables import load

from windtunnel.study.files import markdown
from windtunnel.training.speed.records import Attempt, records

TARGETS = (1e-2, 1e-3, 1e-4)


def speed(results: Path) -> str:
    """A row per network whose throughput was measured."""
    result = load(results / "h200" / "training-2048.json")
    attempts = load_attempts(results)
    rows = [
        [
            row["case"],
            f"{row['parameters'] / 1e6:.2f}M",
            f"{row['sequences_per_s']:,.0f}",
            f"{100 * row['share_of_peak']:.0f}%",
            *(_seconds(attempts, row["case"].replace("/", "-"), target) for target in TARGETS),
        ]
        for row in result["training"]
    ]
    columns = ["tunnel / model", "parameters", "sequences/s in training", "share of the card's matrix rate"]
    columns += [f"seconds to {target:g} bits" for target in TARGETS]
    batches = ", ".join(sorted({f"{row['batch']:,}" for row in result["training"]}))
    told = (
        f"{result['environment']['device']}, sampling included, batches of {batches}; the rate is that of a large"
        f" bfloat16 matrix product on the same card ({result['matrix_flops_per_s'] / 1e12:.0f} TFLOP/s). Seconds of"
        " training until the KL from the exact belief is that small, medians of five seeds at the recipes' own batch or"
        " one that grows to it, without set-up; empty where nobody has tried yet."
    )
    return "\n".join([told, "", *markdown(columns, rows)])


def _seconds(attempts: list[Attempt], recipe: str, target: float) -> str:
    """The best that a recipe did, however changed, by the rule of records; that it was not reached, where it was tried.

    Of all recipes for a tunnel and an architecture one holds the record: here each is held against itself.
    """
    tried = [one for one in attempts if one.recipe.split()[0] == recipe and one.key[-1] == target]
    best = records(tried)
    return f"{best[0].median_s:.1f}" if best else "not reached" * bool(tried)
