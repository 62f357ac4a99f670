"""What older instruments read otherwise, said only beside a reading that it concerns.

Before revision 3 the whole state of a network with a convolution was read without the window of that convolution, which
is carried on as well.  A survey knows its revision, and so does each reading of a study; those of the first studies do
not tell theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

WINDOWED = ("mamba", "linear-attention")
"""Models whose state has the window of a convolution in it."""
SINCE = 3
STATES = ("state of all layers", "memory")
"""Places that are the whole state: of a patch, and of a role."""


def without_window(model: str, records: Iterable[Mapping[str, Any]]) -> str:
    """A sentence where readings of the whole state may lack the window; empty where there is none."""
    states = [r for r in records if model in WINDOWED and {*map(str, r.get("where", {}).values())} & {*STATES}]
    older = [r.get("revision") for r in states if (r.get("revision") or 0) < SINCE]
    if not older:
        return ""
    which = "This study does not tell its revision" if None in older else "This survey is older"
    return (
        f"Instruments before revision {SINCE} read the state without the window of the convolution, which is carried "
        f"on as well. {which}."
    )
