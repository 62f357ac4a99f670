"""The belief that was never shown: table and sentence, made from what `benchmarks/unshown.py` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tables import commit_of, load, made_with, table

from windtunnel.report.words import enumerated
from windtunnel.study.evidence import Record, null_mean, over_seeds
from windtunnel.study.quantity import Quantity

FILE = Path("h200") / "unshown.json"
READ = {
    "belief decoded, R²": "belief",
    "belief beyond windows 1 and 2, R²": "beyond the last two observations",
    "belief beyond next token, R²": "beyond the next symbol's distribution",
}
SEARCHED = ", best of all"
WORDS = {
    "dirichlet": "the paper's",
    "dirichlet-0.3": "rows of concentration 0.3",
    "rotating": "rotating chains",
}
CLEAR = 0.1  # of R²: what must lie between a reading and its highest null before a sentence rests on it
SMALL = 0.01  # of R²: what is called nothing

World = dict[str, Any]


def section(results: Path) -> list[str]:
    """For docs/geometry.md; empty where it was not measured."""
    if not (results / FILE).exists():
        return []
    found = load(results / FILE)
    worlds = found["worlds"]
    some = next(iter(worlds.values()))
    rows = [[WORDS[name], _learnt(world), *(_cell(world, what) for what in READ)] for name, world in worlds.items()]
    return [
        "**A belief that was never shown.** The HMM Transformer of the study, trained only to predict the next"
        " observation: it is shown no hidden state and no probability. A linear map reads the exact belief about the"
        " hidden state from the stream, on sequences that it was not fitted on. Given are R² at the layer where it is"
        " highest, with the 95% interval over seeds, and in brackets the same search on untrained networks and on other"
        " episodes' beliefs."
        f" {len(some['recipe']['seeds'])} seeds, {some['recipe']['steps']:,} steps of {some['recipe']['batch']:,},"
        f" {some['survey_settings']['episodes']} episodes (`benchmarks/unshown.py`, `benchmarks/results/{FILE}`;"
        f" {made_with(found['environment'])}, commit {commit_of(found['environment'])}). The *window* says how much was"
        " learned: an exact filter that sees only that many observations predicts the next symbol equally well.",
        "",
        *table(["world", "KL of the next symbol, bits", *READ.values()], rows),
    ]


def _learnt(world: World) -> str:
    return f"{Quantity.of_record(world['home']['kl_bits']).brief(2)}: window {world['equivalent_window']:.1f}"


def _readings(world: World, what: str) -> list[Record]:
    return [reading for reading in world["survey"] if reading["name"] == what + SEARCHED]


def _null(world: World, what: str, name: str) -> float:
    found = _readings(world, what)
    return sum(null_mean(reading, name) for reading in found) / len(found)


def _cell(world: World, what: str) -> str:
    found = _readings(world, what)
    layers = sorted({str(reading["where"]["layer"]) for reading in found})
    nulls = ", ".join(f"{name} {_null(world, what, name):.2g}" for name in ("untrained", "shuffled episodes"))
    return f"{over_seeds(found).brief(2)} at layer {' or '.join(layers)} ({nulls})"


def _highest(world: World, what: str) -> float:
    """The highest of the nulls, each a mean over draws and seeds."""
    return max(_null(world, what, name) for name in {name for r in _readings(world, what) for name in r["nulls"]})


def finding(results: Path) -> tuple[str, str] | None:
    """In one sentence and in full; None unless each of its parts holds."""
    if not (results / FILE).exists():
        return None
    worlds = load(results / FILE)["worlds"]
    if not {"dirichlet", "dirichlet-0.3"} <= worlds.keys():
        return None
    plain, sharp = worlds["dirichlet"], worlds["dirichlet-0.3"]
    belief, windows, taught = READ
    read, more = (over_seeds(_readings(sharp, what)) for what in (belief, taught))
    past, here = ([reading["value"] for reading in _readings(world, windows)] for world in (sharp, plain))
    blank, nothing = (_highest(sharp, what) for what in (belief, taught))
    drawn = max(draw for reading in _readings(sharp, windows) for null in reading["nulls"].values() for draw in null)
    clear = read.low > blank + CLEAR and more.low > nothing + CLEAR and min(past) > drawn
    if not clear or max(here) > SMALL:
        return None
    each = enumerated(f"{value:.2g}" for value in sorted(past))
    wide = "these differ so much that their interval includes 0" * (Quantity.of_seeds(past).low <= 0)
    brief = (
        "No, as long as knowing the belief helps. Trained only to predict the next symbol, a Transformer represents it"
        f" on chains with sharper rows (R² {read.mean:.2g}, untrained {blank:.2g}). Of what the last two observations"
        f" leave unexplained, a linear map reads {each} on the {len(past)} seeds{f', but {wide}' if wide else ''}; on"
        " the paper's chains it finds nothing beyond them."
    )
    return brief, (
        "Trained on the next observation alone, a Transformer represents the belief about the hidden state where that"
        f" helps it. On chains with sharper rows (concentration 0.3) a linear map reads R² {read.mean:.2g} of the"
        f" belief (untrained {blank:.2g}) and {more.mean:.2g} of what the distribution that it was trained on leaves"
        f" unexplained ({nothing:.2g}). Of what the last two observations leave unexplained, it reads {each} on the"
        f" {len(past)} seeds (no null exceeds {drawn:.2g}{f'; but {wide}' if wide else ''}). On the paper's chains,"
        " where the next symbol depends on little more than the last one, it finds nothing beyond two observations"
        f" ({min(here):.2g} to {max(here):.2g}), within our budget. {len(here)} seeds each"
        " ([geometry.md](geometry.md), *Further readings*)."
    )
