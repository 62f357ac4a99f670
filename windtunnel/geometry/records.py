"""From a table over layers (and heads) to measurements: the first layer, the last, and the best of all.

Where the best place was searched for, every draw of a null is searched in the same way, so that luck is allowed to
both sides.  The interval of a searched value is that of the place found: it does not include the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from windtunnel.geometry.measurement import Measurement
from windtunnel.geometry.stats import interval

Side = Literal["above", "below", "both"]
Pick = Literal["first", "last", "best"]
NO_NULL = "no null: there was no untrained network to compare with"


def profile(
    name: str,
    table: np.ndarray,
    replicates: np.ndarray,
    nulls: Mapping[str, np.ndarray],
    *,
    layers: Sequence[Any],
    side: Side = "above",
    picks: Sequence[Pick] = ("last", "best"),
    unit: str = "",
    note: str = "",
    where: Mapping[str, Any] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> list[Measurement]:
    """Measurements from a table (L,) or (L, H), its bootstrap replicates (B, …) and null draws name -> (B', …).

    first, last   that layer, mean over heads
    best          the extreme place, on the side where an effect would lie; left out when there is one place only
    """
    nulls = {null: np.asarray(sample, dtype=float) for null, sample in nulls.items() if len(sample)}
    drawn = dict(arrays or {}) | {"layer": np.asarray(layers), "value": table}
    drawn |= {f"null: {null}": sample.mean(0) for null, sample in nulls.items()}
    note = note if note or nulls else NO_NULL
    found = []
    for pick in picks:
        if pick == "best" and table.size == 1:
            continue
        place, chosen = _pick(table, pick, side)
        value = float(chosen(table))
        low, high = interval(value, np.array([chosen(replicate) for replicate in replicates]))
        spot = dict(where or {}) | {"layer": layers[place[0]]}
        if table.ndim > 1:
            spot["head"] = int(place[1]) if len(place) > 1 else "mean"
        searched = table.size if pick == "best" else 1
        samples = {null: np.array([_value(draw, pick, side) for draw in sample]) for null, sample in nulls.items()}
        title = f"{name}, best of all" if pick == "best" else name
        found.append(
            Measurement(title, value, low, high, "sequences", spot, unit, samples, side, searched, drawn, note)
        )
    return found


def _pick(table: np.ndarray, pick: Pick, side: Side) -> tuple[tuple[int, ...], Callable[[np.ndarray], Any]]:
    """The place and a function that reads it from a table of the same shape."""
    if pick != "best":
        row = 0 if pick == "first" else -1
        return (row,), lambda t: np.mean(t[row])
    signed = {"above": table, "below": -table, "both": np.abs(table)}[side]
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(signed)), table.shape))
    return place, lambda t: t[place]


def _value(table: np.ndarray, pick: Pick, side: Side) -> float:
    _, read = _pick(table, pick, side)
    return float(read(table))


def scalar(
    name: str,
    value: float,
    replicates: np.ndarray,
    nulls: Mapping[str, np.ndarray],
    *,
    side: Side = "above",
    unit: str = "",
    where: Mapping[str, Any] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Measurement:
    """One number with its bootstrap replicates (B,) and null draws; empty nulls are left out."""
    kept = {null: np.asarray(sample, dtype=float) for null, sample in nulls.items() if len(sample)}
    low, high = interval(value, np.asarray(replicates))
    note = "" if kept else NO_NULL
    return Measurement(
        name, float(value), low, high, "sequences", where or {}, unit, kept, side, arrays=arrays or {}, note=note
    )


def unanswerable(name: str, why: str, where: Mapping[str, Any] | None = None) -> Measurement:
    """A question that these data cannot answer: no number, and the reason."""
    nan = float("nan")
    return Measurement(name, nan, nan, nan, "sequences", where or {}, note=f"not identifiable: {why}")
