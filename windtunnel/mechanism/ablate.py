"""What is lost when a part is taken away?

A target is one or more places ablated together (by zero, mean or resampling, see `ablation`): a layer's attention (or
other mixer), its feed-forward part, or the whole layer, both at once, so that the residual stream passes through
unchanged.  Loss in bits of KL.

Nulls: the same ablation of untrained networks; the same damage, position by position equally large, in a random
direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablation import METHODS
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.losses import Losses
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Benches
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes


@dataclass(frozen=True)
class Target:
    """What is ablated together, and how to call it."""

    where: Mapping[str, Any]
    places: Sequence[Place] = field(default_factory=tuple)


def targets(anatomy: Anatomy) -> list[Target]:
    """Mixer, feed-forward part and both, of every layer."""
    found = []
    for layer in range(anatomy.depth):
        parts = {"mixer": anatomy.mixer(layer), "feed-forward": anatomy.ff(layer)}
        present = {part: Place(name) for part, name in parts.items() if name is not None}
        found += [Target({"layer": layer, "part": part}, [place]) for part, place in present.items()]
        if len(present) == 2:
            found.append(Target({"layer": layer, "part": "whole layer"}, list(present.values())))
    return found


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
    benches.record(place.tensor for target in found for place in target.places)
    clean = benches.main.clean_kl.mean(0).cpu().numpy()
    results: list[Measurement | Missing] = []
    for method in methods:
        for target in found:
            losses = Losses.of(benches, target.places, method, draws=draws)
            arrays = {"per_position": losses.own.mean(0).cpu().numpy(), "clean": clean}
            where = {**target.where, "method": method}
            results.append(losses.measured("bits lost to ablation", where=where, arrays=arrays))
    return results
