"""Every instrument of this room under one signature.

    INSTRUMENTS[name](model, tunnel, episodes, untrained) -> [Measurement | Missing, …]

`untrained` are networks of the same shape with fresh weights, the null of every instrument; give two or more, as one
value has no spread.  An instrument that does not apply says so as a `Missing`; the others still run.
"""

from __future__ import annotations

from windtunnel.geometry.instruments import Instrument
from windtunnel.mechanism.ablate import ablate
from windtunnel.mechanism.dose import dose
from windtunnel.mechanism.exchange import exchangeability
from windtunnel.mechanism.flip import evidence_flip
from windtunnel.mechanism.heads import heads
from windtunnel.mechanism.late import late
from windtunnel.mechanism.patch import patch
from windtunnel.mechanism.ranges import position_ranges
from windtunnel.mechanism.roles import roles
from windtunnel.mechanism.shift import shifted_prior
from windtunnel.mechanism.swap import swap

INSTRUMENTS: dict[str, Instrument] = {
    "ablate": ablate,
    "heads": heads,
    "ranges": position_ranges,
    "late": late,
    "patch": patch,
    "dose": dose,
    "swap": swap,
    "roles": roles,
    "flip": evidence_flip,
    "exchange": exchangeability,
    "shift": shifted_prior,
}

ELSEWHERE = ("late", "shift")
"""These draw episodes of other worlds as well, from the stream of a `seed` of their own."""
