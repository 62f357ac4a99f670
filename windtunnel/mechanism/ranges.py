"""Which part of the input does the prediction rest on?

The stream before any mixing of positions (the embedding, with learned positions if it has them) is ablated over a range
of positions, and the loss read at all readouts that come at or after the range's first position.  Ranges: an HMM's
header (its transition and its emission half where each row is a position), and four equal parts of the rest.

Nulls: damage of equal size in a random direction, the same in untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablation import METHODS
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.estimate import per_sequence
from windtunnel.mechanism.losses import Losses
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Benches
from windtunnel.tunnels import HMM, Tunnel
from windtunnel.tunnels.episodes import Episodes


def named_ranges(tunnel: Tunnel) -> dict[str, range]:
    """Ranges of input positions by name."""
    found: dict[str, range] = {}
    header = tunnel.header_positions if isinstance(tunnel, HMM) else 0
    if header:
        found["header"] = range(header)
    if isinstance(tunnel, HMM) and tunnel.header == "rows":
        found |= {"transition rows": range(tunnel.states), "emission rows": range(tunnel.states, header)}
    cuts = np.linspace(header, tunnel.positions, 5).round().astype(int).tolist()
    parts = ("first", "second", "third", "last")
    found |= {f"{name} quarter": range(a, b) for name, a, b in zip(parts, cuts, cuts[1:]) if b > a}
    return found


def position_ranges(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    methods: Sequence[str] = METHODS,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """Bits lost to the ablation of each range of positions."""
    benches = Benches.of(model, tunnel, episodes, untrained)
    stream = benches.main.anatomy.unmixed
    if stream is None:
        return [Missing("ranges", "the network has no stream (no tensor before the first block)")]
    results: list[Measurement | Missing] = []
    for name, positions in named_ranges(tunnel).items():
        later = episodes.inputs.readout >= positions.start
        if not later.any():
            continue
        places = [Place(stream, positions=tuple(positions))]
        for method in methods:
            losses = Losses.of(benches, places, method, draws=draws)
            where = {"positions": name, "tensor": stream, "method": method}
            title, read = "bits lost to ablation of positions", lambda lost, at=later: per_sequence(lost[:, at])
            results.append(losses.measured(title, read, where=where))
    return results
