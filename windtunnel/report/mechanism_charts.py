"""Charts of section 5: what is lost or moved when the network is changed, in bits, with controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.report.chart import Chart, Heat, Panel, Series
from windtunnel.report.readings import Question, beside_nulls, places
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short
from windtunnel.study.quantity import number

SWAPS = Question(
    "swaps",
    "Does swapping a subspace move the belief?",
    "1 means that the prediction goes all the way to the donor's belief; controls should stay at 0.",
    ("moved to the donor by a swap", "moved to the donor"),
    marks=((1.0, "donor"),),
)
DOSE = Question(
    "dose",
    "Does a larger patch move it further?",
    "1: every part of the way moves the prediction by its part; 0: nothing moves; below 0: some step leads back.",
    ("dose–response of the patch",),
)
REMOVED = Question(
    "subspaces",
    "What is lost when a subspace is removed?",
    "A direction can be perfectly readable and yet inert: then nothing is lost here.",
    ("bits lost to ablation of a subspace",),
)
ROLES = Question(
    "roles",
    "Who carries, who updates, who routes?",
    "Bits lost at one step when a role is silenced there, or everywhere before it.",
    ("bits lost without a role",),
)
LATE = Question(
    "late",
    "Is late attention needed to go on?",
    "Bits lost with the top layers' attention off, at the trained length and beyond it.",
    ("bits lost with late attention off",),
)


def mechanism_charts(source: Source) -> list[Chart]:
    """Those for which there are numbers."""
    found = [ablation_map(source), head_map(source), head_distribution(source)]
    found += [beside_nulls(source, question) for question in (SWAPS, DOSE, REMOVED, LATE, ROLES)]
    return [chart for chart in found if chart is not None]


def ablation_map(source: Source) -> Chart | None:
    """Bits lost to each part of each layer, by method."""
    return _map(
        source,
        "bits lost to ablation",
        "part",
        Chart(
            "ablation",
            "What each layer is worth",
            "Bits of KL lost when a part is taken away, by three ways of taking it; strong colour is costly.",
            "",
            {},
            "network",
        ),
    )


def head_map(source: Source) -> Chart | None:
    """Bits lost to each head."""
    return _map(
        source,
        "bits lost to head ablation",
        "head",
        Chart(
            "heads",
            "What each head is worth",
            "A single strong field would be the published frame head; an even row is a bank of heads.",
            "",
            {},
            "network",
        ),
    )


def _map(source: Source, name: str, row: str, empty: Chart) -> Chart | None:
    """A matrix of layers × rows for each method; the mean over surveyed seeds."""
    views, told = {}, []
    for subject in source.ordered(source.readings):
        records = source.readings[subject]
        kept = [r for r in records if r["name"] == name and r.get("value") is not None]
        methods = list(dict.fromkeys(r["where"]["method"] for r in kept))
        panels = [Panel(f"{method} ablation", heat=_heat(kept, method, row)) for method in methods]
        if panels:
            views[subject] = panels
            top = max(kept, key=lambda r: number(r["value"]))
            place = f"layer {top['where']['layer']}, {_named(row, top['where'][row])}"
            told.append(f"{subject}: most is lost at {place} ({top['where']['method']}): {short(top['value'])} bits")
    return Chart(empty.id, empty.title, empty.say, listed(told), views, empty.picks) if views else None


def _heat(records: Sequence[Mapping[str, Any]], method: str, row: str) -> Heat:
    mine = [r for r in records if r["where"]["method"] == method]
    rows = list(dict.fromkeys(r["where"][row] for r in mine))
    layers = sorted({r["where"]["layer"] for r in mine})
    sums: dict[tuple[Any, Any], list[float]] = {}
    for r in mine:
        sums.setdefault((r["where"][row], r["where"]["layer"]), []).append(number(r["value"]))
    values = [[float(np.mean(sums[at, layer])) if (at, layer) in sums else None for layer in layers] for at in rows]
    names = [_named(row, at) for at in rows]
    return Heat(names, [f"layer {layer}" for layer in layers], values, "bits lost")


def _named(row: str, at: Any) -> str:
    return f"head {at}" if row == "head" else str(at)


def head_distribution(source: Source) -> Chart | None:
    """All heads by what they cost, largest first, over what random subspaces of equal rank cost."""
    views, told = {}, []
    for subject in source.ordered(source.readings):
        records = source.readings[subject]
        kept = [r for r in records if r["name"] == "bits lost to head ablation" and r.get("value") is not None]
        panels = []
        for method in dict.fromkeys(r["where"]["method"] for r in kept):
            groups = places(kept, "bits lost to head ablation", method=method)
            cost = sorted((float(np.mean([number(r["value"]) for r in g])) for g in groups.values()), reverse=True)
            drawn = [number(v) for g in groups.values() for r in g for v in r["nulls"].get("rotated heads", [])]
            rank = list(range(1, len(cost) + 1))
            series = [Series("heads", rank, cost, key="measured", role="points")]
            if drawn:
                level = sorted(drawn, reverse=True)
                at = np.linspace(0, len(level) - 1, len(cost)).astype(int)
                series.append(Series("random subspaces of equal rank", rank, [level[i] for i in at], role="reference"))
            panels.append(Panel(f"{method} ablation", "rank of the head", "bits lost", series=series))
            total = sum(max(c, 0.0) for c in cost)
            if method == "resample" or not told:
                share = max(cost[0], 0.0) / total if total > 0 else 0.0
                told.append(f"{subject}: the largest head has {100 * share:.0f}% of all that is lost ({method})")
        if panels:
            views[subject] = panels
    if not views:
        return None
    say = "A cliff after the first head means one head does it; a slope above the grey line means many share the work."
    return Chart("head-distribution", "How the loss is spread over heads", say, listed(told), views, "network")
