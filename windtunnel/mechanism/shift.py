"""What do worlds from another prior cost?  Asked of any predictor, from outside.

Value: KL there − KL at home, bits.

Nulls: both worlds at the same mean (the bootstrap noise of either); untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.errors import InputError
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import Predictor
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.estimate import measured, resampled_means
from windtunnel.mechanism.losses import UNTRAINED
from windtunnel.mechanism.score import predictions
from windtunnel.mechanism.worlds import shifted
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

EQUAL = "equal means"
REPLICATES = 199


def shifted_prior(
    model: Predictor,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[Predictor],
    *,
    worlds: dict[str, Tunnel] | None = None,
    seed: int = 1,
) -> list[Measurement | Missing]:
    """KL in worlds of another prior, less that at home.  Their episodes come from (seed, "test")."""
    worlds = shifted(tunnel) if worlds is None else worlds
    if not worlds:
        why = f"no other prior is defined for {type(tunnel).__name__} of this layout"
        return [Missing("shifted prior", f"{why} (windtunnel.mechanism.worlds.shifted)")]

    def bits(predictor: Predictor, world: Tunnel, sample: Episodes) -> np.ndarray:
        log_q = predictions(predictor, world, sample.inputs)
        return kl_bits(sample.posterior.double(), log_q).mean(1).cpu().numpy()

    def noise(values: np.ndarray, draw: int) -> np.ndarray:
        return resampled_means(values - values.mean(), replicates=REPLICATES, seed=draw)

    home = bits(model, tunnel, episodes)
    results: list[Measurement | Missing] = []
    for name, world in worlds.items():
        try:
            sample = world.sample(len(episodes), seed, "test", episodes.posterior.device)
            there = bits(model, world, sample)
            blank = [bits(p, world, sample).mean() - bits(p, tunnel, episodes).mean() for p in untrained]
        except InputError as error:
            results.append(Missing(f"shifted prior, {name}", str(error)))
            continue
        nulls = {EQUAL: noise(there, 2) - noise(home, 1), UNTRAINED: blank}
        arrays = {"home": home, "there": there}
        fields = {"where": {"world": name}, "unit": "bits", "nulls": nulls, "side": "both", "arrays": arrays}
        results.append(measured("KL added by a shifted prior", [there, home], lambda a, b: a - b, **fields))
    return results
