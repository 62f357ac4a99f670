"""One frame head or a bank of them?

Each head's output is ablated alone; l_h is what it costs, in bits.  Over all heads of the network:

    largest head                max_h l_h
    share of the largest head   max_h l⁺_h / Σ_h l⁺_h                   1: one head carries all;  l⁺ = max(l, 0)
    effective number of heads   (Σ_h l⁺_h)² / Σ_h (l⁺_h)²               1: one head;  the number of heads: all alike

Null "rotated heads": the width of a layer's heads is cut into equally many random subspaces of equal rank and each of
them is ablated.  Real heads differ from it only by being the network's own units.  Each rotation of the whole network
gives one draw of the three statistics, and (layer by layer) as many draws as heads for a single head.  A layer with one
head has no other subspace of that rank: its rotated head is itself, so there this is no null, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablation import METHODS, ablation, bits_lost
from windtunnel.mechanism.chance import DRAWS, rotation
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.losses import UNTRAINED
from windtunnel.mechanism.place import Place, width_of
from windtunnel.mechanism.score import Bench, Benches
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

ROTATED = "rotated heads"
ALONE = f"no null {ROTATED!r}: with one head in a layer it is the same ablation"


def head_places(bench: Bench) -> list[Place]:
    """Every head's output, in the order of `anatomy.heads`."""
    return [Place(f"blocks.{layer}.attention.head_out", head=head) for layer, head in bench.anatomy.heads]


def head_losses(bench: Bench, method: str) -> np.ndarray:
    """(n, heads) bits lost per sequence to the ablation of each head."""
    return np.stack([per_sequence(bits_lost(bench, [place], method)) for place in head_places(bench)], 1)


def rotated_losses(bench: Bench, method: str, rotations: int) -> np.ndarray:
    """(rotations, heads) mean bits lost to the random subspaces of each rotation, ablated in the heads' place."""
    columns = []
    for layer, head in bench.anatomy.heads:
        name = f"blocks.{layer}.attention.head_out"
        shape = bench.anatomy.shapes[name]
        width, own = width_of(Place(name), shape), slice(head * shape[-1], (head + 1) * shape[-1])
        places = [Place(name, basis=rotation(width, draw, layer)[:, own]) for draw in range(rotations)]
        losses = bench.lost_each([ablation(bench, [place], method) for place in places])
        columns.append([float(lost.mean()) for lost in losses])
    return np.array(columns).T


def largest(losses: np.ndarray) -> np.ndarray:
    """Largest loss over the last axis."""
    return losses.max(-1)


def largest_share(losses: np.ndarray) -> np.ndarray:
    """Share of the positive losses that the largest has; 0 where no head costs anything."""
    positive = np.maximum(losses, 0.0)
    total = positive.sum(-1)
    return positive.max(-1) / np.where(total > 0, total, 1.0)


def effective_number(losses: np.ndarray) -> np.ndarray:
    """Participation ratio of the positive losses; 0 where no head costs anything."""
    positive = np.maximum(losses, 0.0)
    squares = (positive**2).sum(-1)
    return positive.sum(-1) ** 2 / np.where(squares > 0, squares, 1.0)


def heads(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    methods: Sequence[str] = METHODS,
    rotations: int = DRAWS,
) -> list[Measurement | Missing]:
    """The loss of every head by every method, and how it is spread over the heads."""
    benches = Benches.of(model, tunnel, episodes, untrained)
    names = benches.main.anatomy.heads
    if not names:
        return [Missing("heads", "the network has no heads (no tensor blocks.i.attention.head_out)")]
    benches.record(place.tensor for place in head_places(benches.main))
    layers = np.array([layer for layer, _ in names])
    alone = {layer for layer in layers.tolist() if np.sum(layers == layer) == 1}
    several = alone != {*layers.tolist()}  # somewhere there is another way to cut
    results: list[Measurement | Missing] = []
    for method in methods:
        losses, few = benches.of_all_and_few(lambda bench, how=method: head_losses(bench, how))
        rotated = rotated_losses(benches.small, method, rotations if several else 0)
        blank = np.array([head_losses(bench, method).mean(0) for bench in benches.untrained if bench.anatomy.heads])
        for index, (layer, head) in enumerate(names):
            fields = {"where": {"layer": layer, "head": head, "method": method}, "unit": "bits"}
            fields |= {"few": [few[:, index]], "note": ALONE if layer in alone else ""}
            same_head = blank[:, index] if len(blank) else []
            turned = [] if layer in alone else rotated[:, layers == layer].ravel()
            fields["nulls"] = {ROTATED: turned, UNTRAINED: same_head}
            results.append(measured("bits lost to head ablation", [losses[:, index]], **fields))
        for name, statistic, unit, side in (
            ("largest head", largest, "bits", "above"),
            ("share of the largest head", largest_share, "", "above"),
            ("effective number of heads", effective_number, "heads", "below"),
        ):
            nulls = {ROTATED: statistic(rotated), UNTRAINED: statistic(blank) if len(blank) else []}
            top = names[int(losses.mean(0).argmax())]
            where = {"method": method, "layer": top[0], "head": top[1]}
            arrays = {"losses": losses.mean(0), "heads": np.array(names), "rotated": rotated}
            fields = {"where": where, "unit": unit, "side": side, "nulls": nulls, "few": [few], "arrays": arrays}
            fields["note"] = "" if several else ALONE
            results.append(measured(name, [losses], statistic, searched=len(names), **fields))
    return results
