"""Charts of what single heads are worth: one frame head, or a bank of them?

Heads of different seeds have nothing in common but their layer, and an average over "head 3" would smear one strong
head over all numbers.  So the heads of each network are ranked by what they cost, and ranks are averaged.  Of a single
seed nothing is averaged, and its heads keep their numbers.

Each head's nulls are moved by its own amount (`mechanism.estimate`), so they are never pooled as they stand: a head
counts as what it costs beyond the mean of its null, and a draw of that null as its distance from the same mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from windtunnel.json_numbers import from_json
from windtunnel.mechanism.heads import ROTATED, largest_share
from windtunnel.report.chart import Chart, Heat, Panel, Series
from windtunnel.report.fidelity_charts import seed_band
from windtunnel.report.readings import Record, less_own_null
from windtunnel.report.source import Source
from windtunnel.report.words import listed, short
from windtunnel.study.evidence import null_mean

LOST = "bits lost to head ablation"


def head_readings(source: Source) -> dict[str, dict[str, list[Record]]]:
    """Subject -> method -> readings of single heads."""
    found: dict[str, dict[str, list[Record]]] = {}
    for subject in source.ordered(source.readings):
        for record in source.readings[subject]:
            if record["name"] == LOST and record.get("value") is not None:
                found.setdefault(subject, {}).setdefault(record["where"]["method"], []).append(record)
    return found


def by_seed(records: Sequence[Record]) -> list[list[Record]]:
    """The heads of each network; seeds with fewer heads are left out."""
    found: dict[Any, list[Record]] = {}
    for record in records:
        found.setdefault(record["where"].get("seed"), []).append(record)
    most = max(map(len, found.values()))
    return [mine for mine in found.values() if len(mine) == most]


def seeds_of(records: Iterable[Record]) -> set[Any]:
    """Which networks the readings are of."""
    return {record["where"].get("seed") for record in records}


def ranked(records: Sequence[Record], read: Callable[[Record], float]) -> np.ndarray:
    """(seeds, heads) in bits, the costliest head of each network first."""
    return np.array([sorted(map(read, mine), reverse=True) for mine in by_seed(records)])


def ranked_by_chance(records: Sequence[Record]) -> np.ndarray:
    """(seeds, heads) in bits: the same ranks among the draws of each network's nulls, each less the mean of its own."""
    rows = []
    for mine in by_seed(records):
        around = [from_json(v) - null_mean(record, ROTATED) for record in mine for v in record["nulls"][ROTATED]]
        rows.append(np.quantile(around, 1 - (np.arange(len(mine)) + 0.5) / len(mine)))
    return np.array(rows)


def _own(record: Record) -> float:
    return from_json(record["value"])


def _beyond(record: Record) -> float:
    return less_own_null(record, ROTATED)


def head_map(source: Source) -> Chart:
    """Bits lost to the heads of each layer, by rank."""
    views, told, found = {}, [], head_readings(source)
    for subject, methods in found.items():
        views[subject] = [Panel(f"{method} ablation", "layer", heat=_heat(mine)) for method, mine in methods.items()]
        top = max((r for mine in methods.values() for r in mine), key=_own)
        at = top["where"]
        told.append(
            f"{subject}: the costliest is head {at['head']} of layer {at['layer']} in seed {at.get('seed')}, "
            f"{short(top['value'])} bits ({at['method']})"
        )
    say = (
        "Each column holds the heads of one layer: one strong field would be the published frame head, an even column "
        "is a bank of heads."
    )
    if any(len(seeds_of(r for mine in methods.values() for r in mine)) > 1 for methods in found.values()):
        say += (
            " Head 3 of one seed has nothing in common with head 3 of another: where several seeds were surveyed, each "
            "one's heads are sorted by cost before the mean is taken."
        )
    return Chart("heads", "What each head is worth", say, listed(told), views, "network")


def _heat(records: Sequence[Record]) -> Heat:
    layers = sorted({record["where"]["layer"] for record in records})
    if len(seeds_of(records)) == 1:
        heads = sorted({record["where"]["head"] for record in records})
        known = {(record["where"]["head"], record["where"]["layer"]): _own(record) for record in records}
        values = [[known.get((head, layer)) for layer in layers] for head in heads]
        return Heat([f"head {head}" for head in heads], list(map(str, layers)), values, "bits lost")
    columns = [ranked([r for r in records if r["where"]["layer"] == layer], _own).mean(0) for layer in layers]
    rows = max(map(len, columns))
    values = [[float(column[i]) if i < len(column) else None for column in columns] for i in range(rows)]
    names = ["costliest", *(f"no. {rank}" for rank in range(2, rows + 1))]
    return Heat(names, list(map(str, layers)), values, "bits lost")


def head_distribution(source: Source) -> Chart:
    """All heads by what they cost beyond random subspaces of their layer, largest first."""
    views, told = {}, []
    for subject, every in head_readings(source).items():
        methods = {m: drawn for m, mine in every.items() if (drawn := [r for r in mine if r["nulls"].get(ROTATED)])}
        if not methods:
            continue
        views[subject] = [_spread(method, mine) for method, mine in methods.items()]
        method = "resample" if "resample" in methods else next(iter(methods))
        share = float(np.mean(largest_share(ranked(methods[method], _beyond))))
        told.append(
            f"{subject}: the largest head has {100 * share:.0f}% of all that is lost beyond random subspaces ({method})"
        )
    say = (
        "What each head costs beyond the mean random subspace of equal size in its layer, on the same few sequences. "
        "A cliff after the first head means that one head does the work; a slope above the grey line, that many share "
        "it. The grey line ranks random subspaces in the same way; it is made from a few quantiles of their draws, so "
        "its ends are a little flat. A band spans the surveyed seeds, least to most."
    )
    return Chart("head-distribution", "How the loss is spread over heads", say, listed(told), views, "network")


def _spread(method: str, records: Sequence[Record]) -> Panel:
    table, chance = ranked(records, _beyond), ranked_by_chance(records)
    rank = list(range(1, table.shape[1] + 1))
    series = [seed_band("heads", rank, table, key="measured")]
    series.append(Series("random subspaces of equal rank", rank, chance.mean(0).tolist(), role="reference"))
    first = max(records, key=_beyond)["where"]
    note = f"Rank 1: head {first['head']} of layer {first['layer']}." if len(seeds_of(records)) == 1 else ""
    title, label = f"{method} ablation", "bits lost beyond random subspaces"
    return Panel(title, "rank of the head", label, series=series, note=note)
