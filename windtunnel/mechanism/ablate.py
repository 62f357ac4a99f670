"""What is lost when a part is taken away?

    zero       the part becomes 0
    mean       it becomes its mean over episodes at each position: its content goes, its usual size and place stay
    resample   it becomes that of another episode: a typical value that says nothing about this one

A target is one or more places ablated together: one head, a layer's attention (or other mixer), its feed-forward part,
or the whole layer, both at once, so that the residual stream passes through unchanged.  Loss in bits of KL.

Nulls: the same ablation of untrained networks (at every layer: one draw each); the same damage, position by position
equally large, in a random direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor, nn

from windtunnel.errors import require_choice
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.chance import derangement, rotation
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.place import Change, Place, stored, substitute, width_of, zero
from windtunnel.mechanism.score import Bench, Benches
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

METHODS = ("zero", "mean", "resample")
TURNED, UNTRAINED = "random direction, equal size", "untrained"
DRAWS = 5
"""Draws of a null that each cost a forward pass per target; 19 are needed for p = 0.05."""


@dataclass(frozen=True)
class Target:
    """What is ablated together, and how to call it."""

    where: Mapping[str, Any]
    places: Sequence[Place] = field(default_factory=tuple)


def targets(anatomy: Anatomy, positions: tuple[int, ...] | None = None) -> list[Target]:
    """Mixer, feed-forward part and both, of every layer; at some positions only, if given."""
    found = []
    for layer in range(anatomy.depth):
        parts = {"mixer": anatomy.mixer(layer), "feed-forward": anatomy.ff(layer)}
        present = {part: Place(name, positions=positions) for part, name in parts.items() if name is not None}
        found += [Target({"layer": layer, "part": part}, [place]) for part, place in present.items()]
        if len(present) == 2:
            found.append(Target({"layer": layer, "part": "whole layer"}, list(present.values())))
    return found


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
        if method == "zero":
            source = zero
        elif method == "mean":
            source = stored(bench.recorded(place.tensor).mean(0, keepdim=True))
        else:
            clean = bench.recorded(place.tensor)
            assert partner is not None
            source = stored(clean[partner.to(clean.device)])
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


def turned_losses(bench: Bench, places: Sequence[Place], method: str, draws: int) -> np.ndarray:
    """(draws,) mean bits lost to damage of equal size in random directions."""
    return np.array([float(bits_lost(bench, places, method, turn=draw).mean()) for draw in range(draws)])


def ablate_target(
    benches: Benches, target: Target, method: str, *, draws: int = DRAWS, untrained: np.ndarray | None = None
) -> Measurement:
    """Bits lost by one target, with its nulls.  `untrained`: the null's values, by default the same target's."""
    lost = bits_lost(benches.main, target.places, method)
    if untrained is None:
        losses = [float(bits_lost(bench, target.places, method).mean()) for bench in benches.untrained]
        untrained = np.array(losses)
    nulls = {TURNED: turned_losses(benches.small, target.places, method, draws), UNTRAINED: untrained}
    return measured(
        "bits lost to ablation",
        [per_sequence(lost)],
        where={**target.where, "method": method},
        unit="bits",
        nulls={name: sample for name, sample in nulls.items() if len(sample)},
        arrays={"per_position": lost.mean(0).cpu().numpy(), "clean": benches.main.clean_kl.mean(0).cpu().numpy()},
        note="" if draws or len(untrained) else "no null was drawn",
    )


def ablate(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    methods: Sequence[str] = METHODS,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """Every layer's mixer, feed-forward part and whole, by every method."""
    benches = Benches.of(model, tunnel, episodes, untrained)
    found = targets(benches.main.anatomy)
    if not found:
        return [Missing("ablate", "the network has no tensor named like a layer's output, e.g. blocks.0.ff.out")]
    results: list[Measurement | Missing] = []
    for method in methods:
        pools: dict[str, list[float]] = {}  # the untrained null of a part: all its layers, all networks
        for bench in benches.untrained:
            for target in targets(bench.anatomy):
                loss = float(bits_lost(bench, target.places, method).mean())
                pools.setdefault(target.where["part"], []).append(loss)
        for target in found:
            pool = np.array(pools.get(target.where["part"], []))
            results.append(ablate_target(benches, target, method, draws=draws, untrained=pool))
    return results
