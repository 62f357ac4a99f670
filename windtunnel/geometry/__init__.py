"""What the representation looks like, each number next to its nulls.

    INSTRUMENTS["keys"](model, tunnel, episodes, untrained) -> [Measurement | Missing, …]

`wt.mechanism.inspect` applies all of them, and those of the mechanism room, to a run or a network.
"""

from windtunnel.geometry.instruments import INSTRUMENTS
from windtunnel.geometry.measurement import Measurement, Missing

__all__ = ["INSTRUMENTS", "Measurement", "Missing"]
