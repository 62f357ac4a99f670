"""The part of README.md on speed: throughput of training, and time to a given fidelity, on one GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from records_page import load_attempts
from tables import COUNTED_BEFORE, load, share_of_rate

from windtunnel.study.folder.files import markdown
from windtunnel.training.speed.cases import PAIRS
from windtunnel.training.speed.records import Attempt, records

TARGETS = (1e-2, 1e-3, 1e-4)
CHANGED = "†"


def speed(results: Path) -> str:
    """A row per network whose throughput was measured, and then per pair whose time to fidelity was."""
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
    rows += [[case, "", "", "", *seconds] for case, seconds in _others(here, {row[0] for row in rows})]
    columns = ["tunnel / model", "parameters", "sequences/s in training", "share of the card's matrix rate"]
    columns += [f"seconds to {target:g} bits" for target in TARGETS]
    batches = ", ".join(sorted({f"{row['batch']:,}" for row in result["training"]}))
    told = (
        f"{result['environment']['device']}, sampling included, batches of {batches}; the rate is that of a large"
        f" bfloat16 matrix product on the same card ({result['matrix_flops_per_s'] / 1e12:.0f} TFLOP/s). Seconds of"
        " training until the KL from the exact belief is that small, medians of five seeds where no other number is"
        f" given, without set-up, at the recipes' own batch. {CHANGED}: with other settings, so not the training that"
        " its neighbours tell of;"
        " docs/records.md names them, and who holds the record."
    )
    if any("*" in cell for row in rows for cell in row):
        told += f" {COUNTED_BEFORE}."
    return "\n".join([told, "", *markdown(columns, rows)])


def _others(attempts: list[Attempt], shown: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Pairs that are not shown yet and were attempted."""
    for pair in PAIRS:
        case = pair.replace("-", "/", 1)
        if case not in shown and _tried(attempts, case):
            yield case, [_seconds(attempts, case, target) for target in TARGETS]


def _tried(attempts: list[Attempt], case: str) -> list[Attempt]:
    """Attempts with the recipe of a case, however changed."""
    name, world = case.replace("/", "-"), case.split("/")[0]
    return [one for one in attempts if one.recipe.split()[0] == name and one.key[1].split()[0] == world]


def _seconds(attempts: list[Attempt], case: str, target: float) -> str:
    """The best that the recipe of a case did, by the rule of records; without a record what too few seeds took; that it
    was not reached, where it was tried.

    Of all recipes for a tunnel and an architecture one holds the record: here each is held against itself.
    """
    tried = [one for one in _tried(attempts, case) if one.key[-1] == target]
    if best := records(tried):
        (best,) = best
        some = f" ({best.reached} of {len(best.seconds)})" if best.reached < len(best.seconds) else ""
        return f"{best.median_s:.1f}{CHANGED * (best.recipe != case.replace('/', '-'))}{some}"
    few = [one for one in tried if one.reached == len(one.seconds)]
    if not few:
        return "not reached" * bool(tried)
    found = min(few, key=lambda one: one.median_s)
    return f"{found.median_s:.1f} ({len(found.seconds)} seed{'s' * (len(found.seconds) > 1)})"
