"""Every instrument of this room under one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from windtunnel.geometry.alignment_survey import alignment
from windtunnel.geometry.belief_survey import beliefs
from windtunnel.geometry.cluster_survey import clusters
from windtunnel.geometry.key_survey import keys
from windtunnel.geometry.lens import lens
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.value_survey import values
from windtunnel.tunnels import Episodes, Tunnel

Instrument = Callable[[nn.Module, Tunnel, Episodes, Sequence[nn.Module]], Sequence[Measurement | Missing]]

INSTRUMENTS: dict[str, Instrument] = {
    "keys": keys,
    "alignment": alignment,
    "values": values,
    "beliefs": beliefs,
    "lens": lens,
    "clusters": clusters,
}
"""Name to `instrument(model, tunnel, episodes, untrained) -> measurements`; `untrained`: twins with fresh weights."""

LADDER = "dynamics"
"""The one instrument that needs a run with its checkpoints."""
