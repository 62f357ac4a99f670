"""Every instrument of this room under one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windtunnel.geometry.alignment_survey import alignment
from windtunnel.geometry.belief_survey import beliefs
from windtunnel.geometry.cluster_survey import clusters
from windtunnel.geometry.key_survey import keys
from windtunnel.geometry.lens import lens
from windtunnel.geometry.measurement import Result
from windtunnel.geometry.value_survey import values
from windtunnel.tunnels import Episodes, Tunnel

Instrument = Callable[[Any, Tunnel, Episodes, Sequence[Any]], Result]
"""Network, its world, episodes and untrained twins -> what it found.  Any: some need its tensors, some predictions."""

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
