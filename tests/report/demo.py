"""A small results folder made by the study itself: tiny networks, a few steps, real scores and real instruments.

    python -m tests.report.demo DIR [STEPS]

Its numbers mean nothing; its files are those of a full-size study.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from windtunnel.study import reproduce
from windtunnel.study.plan import HOME, Cell, Condition, Plan, World
from windtunnel.training import recipe_for
from windtunnel.tunnels import HMM, Bijection, Urn

LONGER = (Condition("length-9", {"length": 9}), Condition("length-9-beyond", {"length": 9}, beyond=6))
HMM_WORLD = World("hmm", HMM(states=3, symbols=3, length=6), (HOME, *LONGER))
URN_WORLD = World("urn", Urn(symbols=4, length=6))
BIJECTION_WORLD = World("bijection-replacement", Bijection(symbols=4, length=6, replacement=True))
NAUGHTY = "<script>alert(1)</script>"
"""The name of one recipe: it must come out as text."""
SURVEYED = ("alignment", "values", "beliefs", "dynamics", "ablate", "heads", "late", "swap", "roles")


def cell(
    world: World,
    model: str,
    steps: int,
    *,
    seeds: int = 2,
    name: str = "",
    shape: dict[str, Any] | None = None,
    instruments: tuple[str, ...] = (),
) -> Cell:
    """A tiny network of some world."""
    title = f"{world.name}-{model}"
    recipe = recipe_for(world.tunnel, model, "quick").with_options(
        model_options=shape or {"params": 3000},
        supervision="posterior",
        batch=32,
        steps=steps,
        validate_every=max(1, steps // 6),
        validation_episodes=64,
        checkpoint_every=steps,
        ladder=5 if "dynamics" in instruments else 0,
        seeds=tuple(range(seeds)),
        name=name or title,
    )
    return Cell(title, world.name, recipe, dict.fromkeys(instruments, 1))


def plan(steps: int) -> Plan:
    """Three worlds, five cells."""
    attention = {"depth": 2, "width": 16, "heads": 2, "positions": "none"}
    cells = (
        cell(HMM_WORLD, "transformer", steps, shape=attention, instruments=SURVEYED),
        cell(HMM_WORLD, "lstm", steps, name=NAUGHTY),
        cell(URN_WORLD, "transformer", steps, seeds=1, shape=attention),
        cell(BIJECTION_WORLD, "transformer", steps, shape={**attention, "positions": "learned"}, instruments=("keys",)),
        cell(BIJECTION_WORLD, "mlp", steps, seeds=1),
    )
    worlds = (HMM_WORLD, URN_WORLD, BIJECTION_WORLD)
    return Plan("demo", worlds, cells, episodes=256, survey_episodes=16, untrained=2, gpu=False)


def make_demo(folder: Path, steps: int = 60) -> Path:
    """Run the study into a folder."""
    reproduce("demo", folder, plan=plan(steps), device="cpu")
    return folder


if __name__ == "__main__":
    make_demo(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60)
