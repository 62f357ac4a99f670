"""The part of README.md on speed: throughput of training, and time to a given fidelity, on one GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from records_page import load_attempts
from tables import load, marks_of_counts, on_recall, share_of_rate

from windtunnel import tunnels
from windtunnel.study.folder.files import markdown
from windtunnel.training.speed.cases import PAIRS, attempted
from windtunnel.training.speed.records import FEWEST_SEEDS, Attempt, records, world_of

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
        " training until the KL from the exact belief is that small, medians over all seeds, five where no other"
        " number is given (how many of them passed), without set-up, at the recipes' own batch."
        f" {CHANGED}: with other settings, so not the training that its neighbours tell of;"
        " docs/records.md names them, and who holds the record."
    )
    worlds = [_world(row[0]) for row in rows if any(row[-len(TARGETS) :])]
    return "\n".join([" ".join([told, *on_recall(worlds), *marks_of_counts(rows)]), "", *markdown(columns, rows)])


def _others(attempts: list[Attempt], shown: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Pairs that are not shown yet and were attempted."""
    for pair in PAIRS:
        case = pair.replace("-", "/", 1)
        if case not in shown and _tried(attempts, case):
            yield case, [_seconds(attempts, case, target) for target in TARGETS]


def _tried(attempts: list[Attempt], case: str) -> list[Attempt]:
    """Attempts with the recipe of a case in its own world, however changed otherwise."""
    name = case.replace("/", "-")
    return [one for one in attempts if one.recipe.split()[0] == name and one.key[1] == _world(case)]


def _world(case: str) -> str:
    """That of its recipe."""
    return world_of(tunnels.to_dict(attempted()[case.replace("/", "-")].tunnel))


def _seconds(attempts: list[Attempt], case: str, target: float) -> str:
    """The best that the recipe of a case did, by the rule of records; without a record the attempt of most seeds, and
    of those the fastest.  How many seeds passed, where these are not five of five.

    Of all recipes for a tunnel and an architecture one holds the record: here each is held against itself.
    """
    tried = [one for one in _tried(attempts, case) if one.key[-1] == target]
    if not tried:
        return ""
    best = (records(tried) or [min(tried, key=lambda one: (-len(one.seconds), one.median_s))])[0]
    told = f"{best.median_s:.1f}" if math.isfinite(best.median_s) else "not reached"
    changed = CHANGED * (best.recipe != case.replace("/", "-"))
    counts = best.reached, len(best.seconds)
    usual = counts == (FEWEST_SEEDS,) * 2 or counts == (0, FEWEST_SEEDS)
    return f"{told}{changed}" + f" ({counts[0]} of {counts[1]})" * (not usual)
