"""The studies that have a name, and what to type for each: those of the paper, and scorecards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windtunnel.errors import require_choice
from windtunnel.study import scorecard_plan
from windtunnel.study.paper_plan import paper
from windtunnel.study.plan import Plan
from windtunnel.study.quick_plan import quick

PRESETS: dict[str, Callable[[], Plan]] = {"quick": quick, "paper": paper}


def plan_for(preset: str) -> Plan:
    """The plan of a preset."""
    require_choice("preset", preset, PRESETS)
    return PRESETS[preset]()


def commands(preset: str, folder: Path, cells: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """What to type after `windtunnel` to make the study of a folder, with these cells done so far, or to go on with it.

    A scorecard has a command for each budget, with the models that had it.
    """
    out = ["--out", str(folder)]
    if preset != scorecard_plan.PRESET:
        return [["reproduce", "--preset", preset, *out]]
    budgets: dict[tuple[int, int], dict[str, None]] = {}
    longer: dict[str, int] = {}
    for name, cell in cells.items():
        if cell.get("kind") == "networks":
            steps, model = cell["recipe"]["steps"], cell["model"]
            if name.endswith(f"-{model}{scorecard_plan.AGAIN}"):  # a model may itself be called so
                longer[model] = steps
            else:
                budgets.setdefault((steps, len(cell["seeds"])), {})[model] = None
    found = []
    for (steps, seeds), models in budgets.items():
        times = next((longer[model] // steps for model in models if model in longer), scorecard_plan.LONGER)
        given = {"--steps": (steps, scorecard_plan.STEPS), "--longer": (times, scorecard_plan.LONGER)}
        given |= {"--seeds": (seeds, 1)}
        flags = [word for flag, (value, default) in given.items() if value != default for word in (flag, str(value))]
        found.append(["scorecard", *models, *flags, *out])
    return found or [["scorecard", "MODEL", *out]]
