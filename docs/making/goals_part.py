"""What was asked of speed, and what came of it: a part of docs/results.md, from the same files as its tables."""

from __future__ import annotations

from pathlib import Path

from records_page import load_attempts
from speed_parts import GOAL, seed_rows
from tables import load, one_batch, share_of_rate, table

from windtunnel.training.speed.records import Attempt, records

THROUGHPUT = {
    "hmm/transformer-9x256": 150_000,
    "bijection/transformer": 250_000,
    "hmm/mamba": 100_000,
    "hmm/lstm": 100_000,
    "hmm/mlp": 300_000,
}
"""Sequences per second of training."""
EPISODES_PER_S = 30e6
SECONDS = {("hmm", "transformer", 1e-3): 15, ("hmm", "transformer", 1e-4): 40, ("bijection", "transformer", 1e-3): 15}
"""World, model, bits of KL -> seconds of training, median of five seeds."""
WARM_SETUP_S = 15
QUICK = 1.5
FIRST_STEP_S = 2.0
"""After torch's own import."""


def part(results: Path) -> list[str]:
    """A table of throughput, at the recipes' batch and at twice that; and one of everything else."""
    card, cpu = results / "h200", results / "cpu"
    large, own = load(card / "training-2048.json")["training"], load(card / "training.json")["training"]
    rows = []
    for case, goal in THROUGHPUT.items():
        pair = [next(row for row in measured if row["case"] == case) for measured in (large, own)]
        rates = [row["sequences_per_s"] for row in pair]
        told = [
            f"{rate:,.0f} ({share_of_rate(row)}){_met(rate >= goal)}" for rate, row in zip(rates, pair, strict=True)
        ]
        rows.append([case, f"{goal:,}", *told])
    columns = ["training, sequences/s", "goal", *(f"batch {one_batch(measured)}" for measured in (large, own))]
    say = (
        "One H200, sampling included; in brackets the share of the card's measured rate of matrix products. The recipes"
        " have the smaller batch. ✓: reached."
    )
    lines = ["## What was asked of speed", "", say, "", *table(columns, rows)]
    others = [*_sampling(card), *_seeds(card), *_times(results), *_on_a_cpu(cpu)]
    return lines + table(["other", "goal", "measured"], others)


def _met(reached: bool) -> str:
    return " ✓" if reached else ""


def _sampling(card: Path) -> list[list[str]]:
    (row,) = [row for row in load(card / "sampling.json")["rows"] if row["tunnel"] == "hmm"]
    rate = row["episodes_per_s"]
    told = f"{rate:,.0f}{_met(rate >= EPISODES_PER_S)}"
    return [["HMM episodes with exact beliefs, per second", f"{EPISODES_PER_S:,.0f}", told]]


def _seeds(card: Path) -> list[list[str]]:
    """By batch: the quick preset's, the recipes' and the smallest that was tried."""
    rows = [row for row, _ in seed_rows(sorted((card / "seeds").glob("*.json")))]
    kinds = {
        "the quick preset": [row for row in rows if row["case"] == "quick"],
        "the recipes of a GPU at their batch": [row for row in rows if row["case"] != "quick" and row["batch"] > 64],
        "recipes at a batch of 64, which none has": [row for row in rows if row["batch"] == 64],
    }
    found = []
    for what, some in kinds.items():
        cost, bound = ([row[key] for row in some] for key in ("cost_of_one", "cost_of_batch"))
        told = f"{_range(cost)} times; one network on five times the batch {_range(bound)}{_met(max(cost) <= GOAL)}"
        found.append([f"five seeds together, {what}", f"at most {GOAL} times one", told])
    return found


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if len(values) == 1 else f"{low:.2f} to {high:.2f}"


def _times(results: Path) -> list[list[str]]:
    attempts = [one for one in load_attempts(results) if one.key[0].startswith("NVIDIA")]
    holders: dict[tuple, Attempt] = {one.key[1:]: one for one in records(attempts)}
    found = []
    for (world, model, target), most in SECONDS.items():
        one = holders[world, model, target]
        told = f"{one.median_s:.1f} s ({one.recipe}; docs/records.md){_met(one.median_s <= most)}"
        found.append([f"{world} / {model}, median to a KL of {target:g} bits", f"{most} s", told])
    warm = max(one.setup_s[0] for one in attempts if one.cache_filled and not one.note)
    told = f"{warm:.1f} s{_met(warm < WARM_SETUP_S)}"
    return [*found, ["set-up of a process with a filled cache, longest", f"{WARM_SETUP_S} s", told]]


def _on_a_cpu(cpu: Path) -> list[list[str]]:
    ratio = load(cpu / "against-e4632d6.json")["median_ratio"]
    starts = {row["what"]: row for row in load(cpu / "bench.json")["startup"]}
    after = starts["windtunnel train: first step"]["beyond_torch_s"]
    faster, soon = f"{ratio:.2f} times{_met(ratio >= QUICK)}", f"{after:.2f} s{_met(after <= FIRST_STEP_S)}"
    return [
        ["the quick preset on two CPU cores, against before", f"{QUICK} times as fast", faster],
        ["first step of `windtunnel train`, after torch's import", f"{FIRST_STEP_S:g} s", soon],
    ]
