"""Every instrument of this room under one signature.  One that fails, or does not apply, says so and stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from windtunnel.errors import InputError
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


def guarded(name: str, instrument: Callable, *arguments) -> list[Measurement | Missing]:
    """What an instrument says; whatever goes wrong inside it becomes one line."""
    try:
        return list(instrument(*arguments))
    except torch.cuda.OutOfMemoryError:
        return [Missing(name, "ran out of GPU memory: ask for fewer episodes", broken=True)]
    except InputError as error:  # a refusal, in words meant for the user
        return [Missing(name, str(error))]
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        return [Missing(name, f"failed: {type(error).__name__}: {first_line}", broken=True)]
