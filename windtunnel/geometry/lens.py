"""Logit lens: what if the network had to answer after this layer?

    q_l = softmax(head(final_norm(x_l)))        x_l the residual stream after block l, at the readouts
    lens KL = KL(exact belief ‖ q_l)            bits; at the last layer it is the network's own KL

Nulls: untrained twins; shuffled episodes (the answer held against another episode's belief at the same position).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from windtunnel.fidelity.metrics import kl_bits
from windtunnel.geometry.gather import at_readout, label, layer_of, residual_names
from windtunnel.geometry.measurement import Missing, Result
from windtunnel.geometry.records import profile
from windtunnel.geometry.stats import resampled_mean, resampling_weights
from windtunnel.models import SequenceModel
from windtunnel.tunnels import Episodes, Tunnel

DRAWS = 99


@torch.no_grad()
def answers(model: SequenceModel, stream: np.ndarray) -> torch.Tensor:
    """(n, K, C) float64 log-probabilities of the network's own norm and head applied to a stream (n, K, D)."""
    weight = model.head.weight
    x = torch.from_numpy(stream).to(weight.device, weight.dtype)
    return F.log_softmax(model.head(model.final_norm(x)).double(), -1).cpu()


def kl_of(posterior: torch.Tensor, log_q: torch.Tensor) -> np.ndarray:
    """(n,) mean over readouts of KL in bits.  posterior and log_q (n, K, C) float64."""
    return kl_bits(posterior, log_q).mean(-1).numpy()


def shuffled_kl(posterior: torch.Tensor, log_q: torch.Tensor, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws,) mean KL of the answers held against the beliefs of other episodes."""
    orders = [torch.from_numpy(rng.permutation(len(posterior))) for _ in range(draws)]
    return np.array([kl_of(posterior[order], log_q).mean() for order in orders])


def lens(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Bits of KL after every layer, and of the stream before the first."""
    if not isinstance(model, SequenceModel):
        return [Missing("lens", f"{label(model)} is not a built-in model: its final norm and head are not known")]
    kept = residual_names(model, episodes)
    streams = at_readout(model, episodes, kept)
    kept = [name for name in kept if streams[name].shape[-1] == model.head.weight.shape[1]]  # a narrow embedding drops
    posterior, rng = episodes.posterior.double().cpu(), np.random.default_rng(0)
    log_q = {name: answers(model, streams[name]) for name in kept}
    own = np.stack([kl_of(posterior, log_q[name]) for name in kept], axis=1)  # (n, L)
    twins = []
    for twin in untrained:
        assert isinstance(twin, SequenceModel)
        theirs = at_readout(twin, episodes, kept)
        twins.append([kl_of(posterior, answers(twin, theirs[name])).mean() for name in kept])
    shuffled = np.stack([shuffled_kl(posterior, log_q[name], DRAWS, rng) for name in kept], axis=1)
    return profile(
        "logit lens, KL",
        own.mean(0),
        resampled_mean(own, resampling_weights(len(own))),
        {"untrained": np.array(twins), "shuffled episodes": shuffled},
        layers=[layer_of(name) for name in kept],
        side="below",
        picks=("first", "last"),
        unit="bits",
        where={"stream": "residual", "positions": "readouts"},
    )
