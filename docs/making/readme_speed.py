"""The part of README.md on speed: throughput of training, and time to a given fidelity, on one GPU."""

from __future__ import annotations

import math
from pathlib import Path

from records_page import load_attempts
from tables import load, markdown, one_batch, share_of_rate

from windtunnel import tunnels
from windtunnel.training.speed.cases import attempted
from windtunnel.training.speed.records import FEWEST_SEEDS, Attempt, records, world_of

TARGETS = (1e-2, 1e-3, 1e-4)
CHANGED = "†"


def speed(results: Path) -> str:
    """A row per network whose throughput was measured; docs/records.md has the times of all others."""
    result = load(results / "h200" / "training-2048.json")
    here = [one for one in load_attempts(results) if one.key[0] == result["environment"]["device"]]
    own = load(results / "h200" / "training.json")["training"]
    at_own = {row["case"]: f"{row['sequences_per_s']:,.0f}" for row in own}
    rows = [
        [
            row["case"],
            f"{row['parameters'] / 1e6:.2f}M",
            at_own[row["case"]],
            f"{row['sequences_per_s']:,.0f}",
            share_of_rate(row),
            *(_seconds(here, row["case"], target) for target in TARGETS),
        ]
        for row in result["training"]
    ]
    small, large = one_batch(own), one_batch(result["training"])
    columns = [
        "tunnel / model",
        "parameters",
        f"sequences/s, batch {small}",
        f"batch {large}",
        "share of the matrix rate",
    ]
    columns += [f"s to {target:g} bits" for target in TARGETS]
    note = (
        f"{result['environment']['device']}, sampling included. The recipes of these networks have batches of {small}."
        " The matrix rate is that of a large bfloat16 matrix product on the same card"
        f" ({result['matrix_flops_per_s'] / 1e12:.0f} TFLOP/s); the share is taken at batches of {large}. The last"
        " three columns are seconds of training, without compilation and at the recipe's batch size, until the"
        " validation KL is that small: the median over five seeds. Brackets say how many seeds got there where not all"
        " did."
        f" {CHANGED}: with settings other than the recipe's, such as a growing batch (docs/records.md)."
    )
    return "\n".join([*markdown(columns, rows), "", note])


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
