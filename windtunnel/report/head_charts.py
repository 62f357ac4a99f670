"""Charts of what single heads are worth: one frame head, or a bank of them?

Heads of different seeds have nothing in common but their layer, and an average over "head 3" would smear one strong
head over all numbers.  So the heads of each network are ranked by what they cost, and ranks are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.mechanism.heads import ROTATED
from windtunnel.report.chart import Chart, Heat, Panel, Series
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short
from windtunnel.study.quantity import number

LOST = "bits lost to head ablation"

Record = Mapping[str, Any]


def head_readings(source: Source) -> dict[str, dict[str, list[Record]]]:
    """Subject -> method -> readings of single heads."""
    found: dict[str, dict[str, list[Record]]] = {}
    for subject in source.ordered(source.readings):
        for record in source.readings[subject]:
            if record["name"] == LOST and record.get("value") is not None:
                found.setdefault(subject, {}).setdefault(record["where"]["method"], []).append(record)
    return found


def ranked(records: Sequence[Record]) -> np.ndarray:
    """(seeds, heads) bits lost, the costliest head of each network first; seeds with fewer heads are left out."""
    by_seed: dict[Any, list[float]] = {}
    for record in records:
        by_seed.setdefault(record["where"].get("seed"), []).append(number(record["value"]))
    most = max(map(len, by_seed.values()))
    return np.array([sorted(values, reverse=True) for values in by_seed.values() if len(values) == most])


def head_map(source: Source) -> Chart | None:
    """Bits lost to the heads of each layer, by rank."""
    views, told = {}, []
    for subject, methods in head_readings(source).items():
        views[subject] = [Panel(f"{method} ablation", "layer", heat=_heat(mine)) for method, mine in methods.items()]
        top = max((r for mine in methods.values() for r in mine), key=lambda r: number(r["value"]))
        at = top["where"]
        told.append(
            f"{subject}: the costliest is head {at['head']} of layer {at['layer']} in seed {at.get('seed')}, "
            f"{short(top['value'])} bits ({at['method']})"
        )
    if not views:
        return None
    say = (
        "Each column holds the heads of one layer, its costliest on top, mean over the surveyed seeds: one strong "
        "field would be the published frame head, an even column is a bank of heads."
    )
    return Chart("heads", "What each head is worth", say, listed(told), views, "network")


def _heat(records: Sequence[Record]) -> Heat:
    layers = sorted({record["where"]["layer"] for record in records})
    columns = [ranked([r for r in records if r["where"]["layer"] == layer]).mean(0) for layer in layers]
    rows = max(map(len, columns))
    values = [[float(column[i]) if i < len(column) else None for column in columns] for i in range(rows)]
    names = ["costliest", *(f"no. {rank}" for rank in range(2, rows + 1))]
    return Heat(names, list(map(str, layers)), values, "bits lost")


def head_distribution(source: Source) -> Chart | None:
    """All heads by what they cost, largest first, over what random subspaces of equal rank cost."""
    views, told = {}, []
    for subject, methods in head_readings(source).items():
        views[subject] = [_spread(method, mine) for method, mine in methods.items()]
        method = "resample" if "resample" in methods else next(iter(methods))
        losses = np.maximum(ranked(methods[method]), 0.0)
        total = losses.sum(1)
        share = float(np.mean(losses[:, 0] / np.where(total > 0, total, 1.0)))
        told.append(f"{subject}: the largest head has {100 * share:.0f}% of all that is lost ({method})")
    if not views:
        return None
    say = (
        "A cliff after the first head means one head does it; a slope above the grey line, which ranks random "
        "subspaces of equal size in the same way, means many share the work. A band spans the surveyed seeds, least "
        "to most."
    )
    return Chart("head-distribution", "How the loss is spread over heads", say, listed(told), views, "network")


def _spread(method: str, records: Sequence[Record]) -> Panel:
    table = ranked(records)
    rank = list(range(1, table.shape[1] + 1))
    ends = (table.min(0).tolist(), table.max(0).tolist()) if len(table) > 1 else (None, None)
    series = [Series("heads", rank, table.mean(0).tolist(), *ends, key="measured")]
    drawn = [number(v) for record in records for v in record["nulls"].get(ROTATED, [])]
    if drawn:
        level = np.quantile(drawn, 1 - (np.array(rank) - 0.5) / len(rank)).tolist()
        series.append(Series("random subspaces of equal rank", rank, level, role="reference"))
    return Panel(f"{method} ablation", "rank of the head", "bits lost", series=series)
