"""Simple predictors on the same inputs, scored by the same code as a model.

A model's error means little without the score of a uniform guess, a short memory or a blind filter.
"""

from __future__ import annotations

from functools import singledispatch

from windtunnel.fidelity.baselines.bijection import bijection_baselines
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.baselines.hmm import hmm_baselines
from windtunnel.fidelity.baselines.recall import recall_baselines
from windtunnel.fidelity.baselines.urn import urn_baselines
from windtunnel.fidelity.predictor import Predictor
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn
from windtunnel.tunnels.base import require_tunnel


@singledispatch
def own_baselines(tunnel: Tunnel) -> dict[str, Predictor]:
    """Baselines of one kind of tunnel beyond `uniform`.  Add yours with `@own_baselines.register(MyTunnel)`."""
    return {}


own_baselines.register(Bijection, bijection_baselines)
own_baselines.register(HMM, hmm_baselines)
own_baselines.register(Recall, recall_baselines)
own_baselines.register(Urn, urn_baselines)


def baselines(tunnel: Tunnel) -> dict[str, Predictor]:
    """Every baseline of a tunnel: name -> predictor."""
    require_tunnel(tunnel)
    return {"uniform": Uniform(tunnel.classes), **own_baselines(tunnel)}


SUMMARIES = {
    "uniform": "every outcome equally likely",
    "set-complement": "bijection: uniform over the values not yet shown, blind to the key",
    "familiarity": "bijection: a seen key gets any shown value, a new key any other; sets, but no binding",
    "last-observation": "bijection, urn: the exact belief given only the last pair, or the last draw",
    "marginal": "hmm: reads the header, ignores every observation",
    "window-L": "hmm: exact filter on the last L observations, uniform restart (L = 1, 2, 3, 4, 8)",
    "window-L-marginal": "hmm: the same, restarted at the header-only marginal",
    "t-blind": "hmm: a filter that never reads the transition matrix; its leak is tuned on validation episodes",
    "stored-values": "recall: uniform over the values in the store, blind to the query",
}
"""One line each, for `windtunnel list`."""
