"""Every instrument of this room under one signature.

    INSTRUMENTS[name](model, tunnel, episodes, untrained) -> [Measurement | Missing, …]

`untrained` are networks of the same shape with fresh weights, the null of every instrument; give two or more, as one
value has no spread.  An instrument that does not apply says so as a `Missing`; the others still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from windtunnel.errors import require_choice
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.survey import guarded
from windtunnel.mechanism.ablate import ablate
from windtunnel.mechanism.behaviour import evidence_flip, exchangeability, shifted_prior
from windtunnel.mechanism.dose import dose
from windtunnel.mechanism.heads import heads
from windtunnel.mechanism.late import late
from windtunnel.mechanism.patch import patch
from windtunnel.mechanism.ranges import position_ranges
from windtunnel.mechanism.roles import roles
from windtunnel.mechanism.swap import swap
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

Instrument = Callable[[Any, Tunnel, Episodes, Sequence[Any]], list[Measurement | Missing]]

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


def survey(
    model: Any, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[Any] = (), only: Sequence[str] | None = None
) -> Iterator[tuple[str, list[Measurement | Missing]]]:
    """(name, results) of every instrument, or of those named, one by one; a refusal is a `Missing`."""
    names = list(INSTRUMENTS) if only is None else list(only)
    for name in names:
        require_choice("instrument", name, INSTRUMENTS)
    return ((name, run(name, model, tunnel, episodes, untrained)) for name in names)


def run(
    name: str, model: Any, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[Any] = ()
) -> list[Measurement | Missing]:
    """One instrument; what goes wrong in it becomes a `Missing` with one line."""
    return guarded(name, INSTRUMENTS[name], model, tunnel, episodes, untrained)
