"""One ablation and its nulls: what most instruments here share.

own        bits lost by the network
nulls      the same damage in a random direction (the network itself); the same ablation of untrained networks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from windtunnel.geometry.measurement import Measurement
from windtunnel.mechanism.ablation import ablation, bits_lost
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.match_size import as_large
from windtunnel.mechanism.place import Change, Place
from windtunnel.mechanism.score import Bench, Benches

TURNED, UNTRAINED = "random direction, equal size", "untrained"


def damage(bench: Bench, places: Sequence[Place], method: str, draws: int) -> list[dict[str, Change]]:
    """Damage as large as that of an ablation, in random directions."""
    random = [ablation(bench, places, method, turn=draw) for draw in range(draws)]
    return as_large(bench, ablation(bench, places, method), random)


def turned(bench: Bench, places: Sequence[Place], method: str, draws: int) -> Sequence[Float64[Tensor, "n K"]]:
    """Bits lost to damage of equal size in random directions, one table per draw."""
    return bench.lost_each(damage(bench, places, method, draws))


@dataclass(frozen=True)
class Losses:
    """Bits lost (n, K) to one ablation, or another table in bits; each null has a table per draw, on the first m
    episodes, and `few` is what those lose in a run of their own (see `estimate`)."""

    own: Float64[Tensor, "n K"]
    nulls: Mapping[str, Sequence[Float64[Tensor, "m K"]]]
    few: Float64[Tensor, "m K"]

    @classmethod
    def of(cls, benches: Benches, places: Sequence[Place], method: str, *, draws: int = DRAWS) -> Losses:
        """Run the ablation and its nulls."""
        nulls = {
            TURNED: turned(benches.small, places, method, draws),
            UNTRAINED: [bits_lost(bench, places, method) for bench in benches.untrained],
        }
        own, few = benches.of_all_and_few(lambda bench: bits_lost(bench, places, method))
        return cls(own, nulls, few)

    def measured(self, name: str, read: Callable[[Tensor], np.ndarray] = per_sequence, **fields: Any) -> Measurement:
        """As a measurement in bits; `read` takes a table (n, K) to one number per sequence."""
        nulls = {null: [read(table).mean() for table in tables] for null, tables in self.nulls.items()}
        if not any(nulls.values()):
            fields["note"] = "; ".join(filter(None, [fields.get("note", ""), "no null was drawn"]))
        return measured(name, [read(self.own)], nulls=nulls, few=[read(self.few)], unit="bits", **fields)
