"""`wt.evaluate`: the one of the fidelity room, which may not import this one, extended to bare modules."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import nn

from windtunnel import fidelity
from windtunnel.fidelity.predictor import Predictor
from windtunnel.fidelity.score import Score
from windtunnel.models.adapt import adapt
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.base import require_tunnel


@wraps(fidelity.evaluate)
def evaluate(subject: Any, tunnel: Tunnel | None = None, **options: Any) -> Score:
    return fidelity.evaluate(wrapped(subject, tunnel), tunnel, **options)


def wrapped(subject: Any, tunnel: Tunnel | None) -> Any:
    """Bare modules, alone or in a list, as predictors for the tunnel, refused if they do not fit or read ahead;
    anything else unchanged."""
    if isinstance(subject, list | tuple):
        return [wrapped(one, tunnel) for one in subject]
    if not isinstance(subject, nn.Module) or isinstance(subject, Predictor) or hasattr(subject, "models"):
        return subject
    tunnel = getattr(subject, "tunnel", None) if tunnel is None else tunnel
    tunnel = require_tunnel(tunnel, "; only a run and a network from the zoo bring their own")
    return adapt(subject, tunnel, type(subject).__name__)
