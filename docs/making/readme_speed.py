"""The part of README.md on speed: throughput of training, and time to a given fidelity, on one GPU."""

from __future__ import annotations

from pathlib import Path

from records_page import load_attempts
from tables import COUNTED_BEFORE, load, share_of_rate

from windtunnel.study.folder.files import markdown
from windtunnel.training.speed.records import Attempt, records

TARGETS = (1e-2, 1e-3, 1e-4)
CHANGED = "†"


def speed(results: Path) -> str:
    """A row per network whose throughput was measured."""
    result = load(results / "h200" / "training-2048.json")
    here = [one for one in load_attempts(results) if one.key[0] == result["environment"]["device"]]
    rows = [
        [
            row["case"],
            f"{row['parameters'] / 1e6:.2f}M",
            f"{row['sequences_per_s']:,.0f}",
            share_of_rate(row),
            *(_seconds(here, row["case"], target) for target in TARGETS),
        ]
        for row in result["training"]
    ]
    columns = ["tunnel / model", "parameters", "sequences/s in training", "share of the card's matrix rate"]
    columns += [f"seconds to {target:g} bits" for target in TARGETS]
    batches = ", ".join(sorted({f"{row['batch']:,}" for row in result["training"]}))
    told = (
        f"{result['environment']['device']}, sampling included, batches of {batches}; the rate is that of a large"
        f" bfloat16 matrix product on the same card ({result['matrix_flops_per_s'] / 1e12:.0f} TFLOP/s). Seconds of"
        " training until the KL from the exact belief is that small, medians of five seeds, without set-up, at the"
        f" recipes' own batch. {CHANGED}: with other settings, so not the training that its neighbours tell of;"
        " docs/records.md names them, and who holds the record."
    )
    if any("*" in cell for row in rows for cell in row):
        told += f" {COUNTED_BEFORE}."
    return "\n".join([told, "", *markdown(columns, rows)])


def _seconds(attempts: list[Attempt], case: str, target: float) -> str:
    """The best that the recipe of a case did, however changed, by the rule of records; that it was not reached, where
    it was tried.

    Of all recipes for a tunnel and an architecture one holds the record: here each is held against itself.
    """
    name, world = case.replace("/", "-"), case.split("/")[0]
    tried = [one for one in attempts if one.recipe.split()[0] == name and one.key[1] == world and one.key[-1] == target]
    if not (best := records(tried)):
        return "not reached" * bool(tried)
    (best,) = best
    some = f" ({best.reached} of {len(best.seconds)})" if best.reached < len(best.seconds) else ""
    return f"{best.median_s:.1f}{CHANGED * (best.recipe != name)}{some}"
