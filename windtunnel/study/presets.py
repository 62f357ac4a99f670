"""The two studies that have a name."""

from __future__ import annotations

from collections.abc import Callable

from windtunnel.errors import require_choice
from windtunnel.study.paper_plan import paper
from windtunnel.study.plan import Plan
from windtunnel.study.quick_plan import quick

PRESETS: dict[str, Callable[[], Plan]] = {"quick": quick, "paper": paper}


def plan_for(preset: str) -> Plan:
    """The plan of a preset."""
    require_choice("preset", preset, PRESETS)
    return PRESETS[preset]()
