"""What the representation looks like, each number beside its nulls.

    INSTRUMENTS["keys"](model, tunnel, episodes, untrained) -> [Measurement | Missing, …]

`wt.mechanism.inspect` asks all of them, and those of the other room, of a run or a network.
"""

from windtunnel.geometry.instruments import INSTRUMENTS
from windtunnel.geometry.measurement import Measurement, Missing

__all__ = ["INSTRUMENTS", "Measurement", "Missing"]
