"""Charts of section 5: what is lost or moved when the network is changed, in bits, with controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from windtunnel.json_numbers import from_json
from windtunnel.mechanism.losses import TURNED
from windtunnel.report.chart import Chart, Heat, Panel
from windtunnel.report.head_charts import head_distribution, head_map
from windtunnel.report.readings import Question, Record, beside_nulls, less_own_null
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short

ABLATION = "{} ablation"
SWAPS = Question(
    "swaps",
    "Does swapping a subspace move the belief?",
    "1 means that the prediction goes all the way to the donor's belief, 0 that it stays, below 0 that it goes away "
    "from it; a carrier lies to the right of all its controls.",
    ("moved to the donor by a swap", "moved to the donor"),
    absent=("swap", "patch"),
    marks=((1.0, "donor"),),
)
DOSE = Question(
    "dose",
    "Does a larger patch move it further?",
    "The donor is put in place in five equal steps. 1: each moves the prediction equally far towards it; 0: some step "
    "moves nothing; below 0: some step leads back.",
    ("dose–response of the patch",),
    absent=("dose",),
)
REMOVED = Question(
    "subspaces",
    "What is lost when a subspace is removed?",
    "A direction can be perfectly readable and yet inert: then no more is lost here than to a random one.",
    ("bits lost to ablation of a subspace",),
    split="method",
    titled=ABLATION,
    absent=("swap",),
)
ROLES = Question(
    "roles",
    "Who carries, who updates, who routes?",
    "Bits lost at one step when a role is silenced at that step, or at all steps before it (carry: also on the "
    "evidence alone, without the header). Routing is what attention or a recurrence brings from other positions; "
    "update is the feed-forward part, carry the residual stream, memory a recurrent state.",
    ("bits lost without a role",),
    split="role",
    absent=("role",),
)
LATE = Question(
    "late",
    "Is late attention needed to go on?",
    "Bits lost when attention (in a recurrent network, whatever mixes positions) is switched off in the top layers, at "
    "the trained length and beyond. Lengths that could not be read are named below, with the reason.",
    ("bits lost with late attention off", "bits lost with late mixers off"),
    absent=("late",),
)

BEYOND = (
    " The lower matrices subtract what damage of the same size in a random direction costs, on the same few sequences: "
    "a part matters as far as it is above 0 there."
)
"""Said where that null was drawn."""


def mechanism_charts(source: Source) -> list[Chart]:
    """Those for which there are numbers."""
    found = [ablation_map(source), head_map(source), head_distribution(source)]
    found += [beside_nulls(source, question) for question in (SWAPS, DOSE, REMOVED, LATE, ROLES)]
    return [chart for chart in found if chart.views]


def ablation_map(source: Source) -> Chart:
    """Bits lost to each part of each layer, by method; below it, how many more than to random damage of equal size."""
    views, told, beyond = {}, [], False
    for subject in source.ordered(source.readings):
        records = source.readings[subject]
        kept = [r for r in records if r["name"] == "bits lost to ablation" and r.get("value") is not None]
        if not kept:
            continue
        drawn = [r for r in kept if r["nulls"].get(TURNED)]
        beyond |= bool(drawn)
        own = _maps(ABLATION, kept, lambda r: from_json(r["value"]))
        views[subject] = own + _maps(f"{ABLATION}, beyond the null", drawn, lambda r: less_own_null(r, TURNED))
        bits, place = max(_fields(own))
        told.append(f"{subject}: most is lost at {place}: {short(bits)} bits")
    say = (
        "Bits of KL lost when a part is taken away, in each of three ways; mean over the surveyed seeds."
        + BEYOND * beyond
    )
    return Chart("ablation", "What each layer is worth", say, listed(told), views, "network")


def _maps(title: str, records: Sequence[Record], read: Callable[[Record], float]) -> list[Panel]:
    """One panel per method of ablation."""
    by_method: dict[str, list[Record]] = {}
    for record in records:
        by_method.setdefault(record["where"]["method"], []).append(record)
    return [Panel(title.format(method), "layer", heat=_heat(mine, read)) for method, mine in by_method.items()]


def _fields(panels: Sequence[Panel]) -> Iterator[tuple[float, str]]:
    """Every value that is drawn, and where."""
    for panel in panels:
        assert panel.heat is not None
        for part, values in zip(panel.heat.rows, panel.heat.values, strict=True):
            for layer, value in zip(panel.heat.columns, values, strict=True):
                if value is not None:
                    yield value, f"layer {layer}, {part} ({panel.title})"


def _heat(mine: Sequence[Record], read: Callable[[Record], float]) -> Heat:
    """Parts × layers; the mean over surveyed seeds."""
    rows = list(dict.fromkeys(r["where"]["part"] for r in mine))
    layers = sorted({r["where"]["layer"] for r in mine})
    found: dict[tuple[Any, Any], list[float]] = {}
    for r in mine:
        found.setdefault((r["where"]["part"], r["where"]["layer"]), []).append(read(r))
    values = [[float(np.mean(found[at, layer])) if (at, layer) in found else None for layer in layers] for at in rows]
    return Heat(rows, list(map(str, layers)), values, "bits lost")
