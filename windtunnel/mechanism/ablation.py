"""Taking a part away.

zero       the part becomes 0
mean       it becomes its mean over episodes at each position: its content goes, its usual size and place stay
resample   it becomes that of another episode: a typical value that says nothing about this one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float64
from torch import Tensor

from windtunnel.errors import require_choice
from windtunnel.mechanism.chance import derangement, rotation
from windtunnel.mechanism.place import Change, Place, stored, substitute, width_of, zero
from windtunnel.mechanism.score import Bench

METHODS = ("zero", "mean", "resample")


def ablation(
    bench: Bench,
    places: Sequence[Place],
    method: str,
    *,
    partner: Tensor | None = None,
    seed: int = 0,
    turn: int | None = None,
) -> dict[str, Change]:
    """The changes that ablate these places.

    partner  (n,) which episode each takes its tensor from (resample); by default a seeded derangement
    turn     a number: turn the damage in the random direction of that number instead (a null)
    """
    require_choice("method", method, METHODS)
    changes: dict[str, Change] = {}
    if method != "zero":
        bench.record(place.tensor for place in places)
    if method == "resample" and partner is None:
        partner = derangement(len(bench.episodes), seed)
    for index, place in enumerate(places):
        bench.anatomy.require(place.tensor)
        place.require_in(bench.anatomy.shapes[place.tensor])
        if method == "zero":
            source = zero
        elif method == "mean":
            source = stored(bench.recorded(place.tensor).mean(0, keepdim=True))
        else:
            source = stored(bench.recorded(place.tensor), partner)
        matrix = None
        if turn is not None:
            matrix = rotation(width_of(place, bench.anatomy.shapes[place.tensor]), seed, turn, index)
        changes[place.tensor] = _after(changes.get(place.tensor), substitute(place, source, turn=matrix))
    return changes


def _after(earlier: Change | None, change: Change) -> Change:
    """Two changes of one tensor, one after the other."""
    if earlier is None:
        return change
    return lambda value, step, rows: change(earlier(value, step, rows), step, rows)


def bits_lost(
    bench: Bench, places: Sequence[Place], method: str = "resample", **options: Any
) -> Float64[Tensor, "n K"]:
    """Bits of KL lost at every readout when the places are ablated."""
    return bench.lost(ablation(bench, places, method, **options))
