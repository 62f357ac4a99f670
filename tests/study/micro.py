"""A study of seconds: every part of the machinery, nothing learned."""

from __future__ import annotations

from typing import Any

from tests.training.cases import tiny
from windtunnel.study.plan import HOME, Cell, Condition, Plan, World
from windtunnel.training import Recipe
from windtunnel.tunnels import HMM, Bijection, Urn

URN = World("small-urn", Urn(symbols=3, length=4))
HMM_WORLD = World(
    "small-hmm",
    HMM(states=2, symbols=2, length=4),
    (HOME, Condition("length-6", {"length": 6}), Condition("length-6-beyond", {"length": 6}, beyond=4)),
)
BIJECTION = World(
    "small-bijection", Bijection(symbols=3, length=5, replacement=True), (HOME, Condition("seen", where="seen"))
)


def recipe(world: World, variant: str, **options: Any) -> Recipe:
    shape = {"steps": 12, "checkpoint_every": 6, "validate_every": 6, "ladder": 0, "supervision": "posterior"}
    return tiny(world.tunnel, variant, **shape | options)


def micro(*, surveys: bool = False) -> Plan:
    """Two seeds with a sweep, a network with instruments (if asked for), and one more."""
    read, beside = ({"values": 1, "dynamics": 1, "late": 1}, {"lens": 1}) if surveys else ({}, {})
    learned = {"positions": "learned", "depth": 1, "width": 8}
    cells = (
        Cell(
            "small-urn-lstm",
            "small-urn",
            recipe(URN, "lstm-residual", seeds=(0, 1)),
            sweep="small-urn-lstm",
            overlap=True,
        ),
        Cell(
            "small-hmm-transformer",
            "small-hmm",
            recipe(HMM_WORLD, "transformer", model_options=learned, ladder=3),
            read,
            beside,
        ),
        Cell("small-bijection-mlp", "small-bijection", recipe(BIJECTION, "mlp-full")),
    )
    worlds = (URN, HMM_WORLD, BIJECTION)
    return Plan("micro", worlds, cells, episodes=64, survey_episodes=8, untrained=2, gpu=False)
