"""Does the prediction stay where a change must not matter?  Asked of any predictor, from outside.

Evidence is reordered where its order is irrelevant (HMM: the states are renamed).

Value: total variation between the two predictions, over that between unrelated episodes.  0: exact;  1: as if it were
another episode.  Episodes that look the same after it say nothing and are left out.

Nulls: unrelated episodes; untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from windtunnel.fidelity.metrics import total_variation
from windtunnel.fidelity.predictor import Predictor
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.chance import DRAWS, derangement, mismatches
from windtunnel.mechanism.estimate import measured
from windtunnel.mechanism.losses import UNTRAINED
from windtunnel.mechanism.score import predictions
from windtunnel.mechanism.worlds import exchange, middle
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes


def exchangeability(
    model: Predictor,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[Predictor],
    *,
    step: int | None = None,
    shuffles: int = DRAWS,
) -> list[Measurement | Missing]:
    """How much a change that must not matter moves the prediction."""
    step = middle(tunnel, step)
    edited = exchange(tunnel, episodes, step)
    differs = edited.differs(episodes)
    if differs.sum() < 2:  # of a pair each is the other's unrelated episode
        told = f"{int(differs.sum())} of {len(episodes)} episodes look otherwise after the exchange, at least 2 must"
        return [Missing("exchangeability", f"nothing to exchange at readout {step}: {told}")]
    episodes, edited, note = episodes[differs], edited[differs], _unaltered(differs)
    chosen = edited.lag >= 0

    def moved(predictor: Predictor) -> tuple[np.ndarray, list[np.ndarray]]:
        before = predictions(predictor, tunnel, episodes.inputs)
        after = predictions(predictor, tunnel, edited.episodes.inputs)
        if edited.rename is not None:
            after = after.gather(2, edited.rename[:, None, :].expand_as(after))
        drawn = mismatches(len(before), shuffles)
        partners = [derangement(len(before), 6, draw).to(before.device) for draw in drawn]
        # the exchanged worlds of other episodes, so that value and null are drawn from the same predictions
        unrelated = [_mean_over(total_variation(before.exp(), after[p]), chosen) for p in partners]
        return _mean_over(total_variation(before.exp(), after), chosen), unrelated

    change, unrelated = moved(model)
    scale = np.mean(unrelated, 0)
    if not scale.mean() > 0:
        return [Missing("exchangeability", "the prediction is the same for every episode")]
    blank = [moved(predictor) for predictor in untrained]
    nulls = {
        "unrelated episodes": [one.mean() / scale.mean() for one in unrelated],
        UNTRAINED: [one.mean() / max(1e-300, np.mean(other)) for one, other in blank],
    }
    fields = {"where": {"step": step}, "nulls": nulls, "side": "below", "arrays": {"tv": change, "unrelated": scale}}
    return [measured("change under exchange, relative", [change, scale], lambda a, b: a / b, **fields, note=note)]


def _unaltered(differs: Tensor) -> str:
    same, count = int((~differs).sum()), len(differs)
    return f"{same} of {count} episodes left out: they look the same after the exchange" if same else ""


def _mean_over(values: Tensor, chosen: Tensor) -> np.ndarray:
    return ((values * chosen).sum(1) / chosen.sum(1).clamp_min(1)).cpu().numpy()
