"""Charts of section 5: what is lost or moved when the network is changed, in bits, with controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.mechanism.losses import TURNED
from windtunnel.report.chart import Chart, Heat, Panel
from windtunnel.report.head_charts import head_distribution, head_map
from windtunnel.report.readings import Question, beside_nulls
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short
from windtunnel.study.evidence import null_mean
from windtunnel.study.quantity import number

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
    "1: every part of the way moves the prediction by its part; 0: nothing moves; below 0: some step leads back.",
    ("dose–response of the patch",),
    absent=("dose",),
)
REMOVED = Question(
    "subspaces",
    "What is lost when a subspace is removed?",
    "A direction can be perfectly readable and yet inert: then no more is lost here than to a random one.",
    ("bits lost to ablation of a subspace",),
    absent=("swap",),
)
ROLES = Question(
    "roles",
    "Who carries, who updates, who routes?",
    "Bits lost at one step when a role is silenced at it, or everywhere before it. Routing is what attention (or a "
    "recurrence) brings from other positions, update the feed-forward part, carry the residual stream, memory a "
    "recurrent state.",
    ("bits lost without a role",),
    split="role",
    absent=("role",),
)
LATE = Question(
    "late",
    "Is late attention needed to go on?",
    "Bits lost with attention (in a recurrent network, what mixes positions) of the top layers off, at the trained "
    "length and beyond it; a length at which there is no reading is named with its reason.",
    ("bits lost with late attention off",),
    absent=("late",),
)


def mechanism_charts(source: Source) -> list[Chart]:
    """Those for which there are numbers."""
    found = [ablation_map(source), head_map(source), head_distribution(source)]
    found += [beside_nulls(source, question) for question in (SWAPS, DOSE, REMOVED, LATE, ROLES)]
    return [chart for chart in found if chart is not None]


def ablation_map(source: Source) -> Chart | None:
    """Bits lost to each part of each layer, by method; below it, to random damage of equal size."""
    views, told = {}, []
    for subject in source.ordered(source.readings):
        records = source.readings[subject]
        kept = [r for r in records if r["name"] == "bits lost to ablation" and r.get("value") is not None]
        if not kept:
            continue
        methods = list(dict.fromkeys(r["where"]["method"] for r in kept))
        kinds = {"{} ablation": _own}
        if any(TURNED in record["nulls"] for record in kept):
            kinds["null of {} ablation"] = _null
        views[subject] = [
            Panel(title.format(method), "layer", heat=_heat(kept, method, read))
            for title, read in kinds.items()
            for method in methods
        ]
        top = max(kept, key=lambda r: number(r["value"]))
        place = f"layer {top['where']['layer']}, {top['where']['part']}"
        told.append(f"{subject}: most is lost at {place} ({top['where']['method']}): {short(top['value'])} bits")
    if not views:
        return None
    say = (
        "Bits of KL lost when a part is taken away, by three ways of taking it, mean over the surveyed seeds. Below, "
        "the null: damage of the same size in a random direction. A part matters as far as its field is stronger than "
        "that."
    )
    return Chart("ablation", "What each layer is worth", say, listed(told), views, "network")


def _own(record: Mapping[str, Any]) -> float:
    return number(record["value"])


def _null(record: Mapping[str, Any]) -> float:
    return null_mean(record, TURNED)


def _heat(records: Sequence[Mapping[str, Any]], method: str, read: Callable[[Mapping[str, Any]], float]) -> Heat:
    """Parts × layers; the mean over surveyed seeds."""
    mine = [r for r in records if r["where"]["method"] == method]
    rows = list(dict.fromkeys(r["where"]["part"] for r in mine))
    layers = sorted({r["where"]["layer"] for r in mine})
    found: dict[tuple[Any, Any], list[float]] = {}
    for r in mine:
        found.setdefault((r["where"]["part"], r["where"]["layer"]), []).append(read(r))
    values = [[float(np.mean(found[at, layer])) if (at, layer) in found else None for layer in layers] for at in rows]
    return Heat(rows, list(map(str, layers)), values, "bits lost")
