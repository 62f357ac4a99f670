"""A demonstration on two CPU cores: one small world per primitive, small networks, minutes.

It shows the instruments at work; it is no evidence about the paper, whose claims are judged by the full-size study.
"""

from __future__ import annotations

from windtunnel.mechanism.survey import NAMES
from windtunnel.models.registry import is_built_in
from windtunnel.study.plan import HOME, Cell, Condition, Plan, World
from windtunnel.training import Recipe, recipe_for
from windtunnel.tunnels import HMM, Bijection, Tunnel, Urn

MINUTES = 3.5
ARCHITECTURES = ("transformer", "lstm", "mlp", "mamba")
"""The paper's four, in the order in which they are trained, the quick ones first: as many as fit."""

WORLDS = (
    World("small-urn", Urn(symbols=5, length=12)),
    World(
        "small-hmm-rotating",
        HMM(states=3, symbols=3, dynamics="rotating", mixing=(0.90, 0.97), length=10),
        (HOME, Condition("length-15", {"length": 15}), Condition("length-20", {"length": 20})),
    ),
    World("small-bijection-replacement", Bijection(symbols=4, length=8, replacement=True)),
)
"""Accumulation, transport, binding."""
SURVEYED = ("small-hmm-rotating-transformer", "small-bijection-replacement-transformer")
"""Looked at with every instrument, on one seed and few episodes, once all networks are scored."""


def quick() -> Plan:
    """The plan."""
    cells = [_cell(world, model) for model in ARCHITECTURES for world in WORLDS]
    return Plan(
        "quick", WORLDS, tuple(cells), episodes=2048, survey_episodes=32, untrained=2, gpu=False, minutes=MINUTES
    )


def _cell(world: World, model: str) -> Cell:
    name = f"{world.name}-{model}"
    recipe = small(world.tunnel, model).with_options(name=name)
    if name not in SURVEYED:
        return Cell(name, world.name, recipe)
    return Cell(name, world.name, recipe.with_options(ladder=8), beside=dict.fromkeys(NAMES, 1))


def small(tunnel: Tunnel, model: str) -> Recipe:
    """40k parameters and 600 steps of Muon on the exact belief.

    Attention gets two heads and three blocks: with one head, or in one block, so small a Transformer did not learn to
    look up by content in this time.  Mamba gets 8 states a channel instead of 16, on which its time depends.  Sampled
    labels would need several times the steps.  An architecture of your own has the size that it chooses.
    """
    shape: dict[str, object] = {"params": 40_000, "depth": 2} if is_built_in(model) else {}
    if model == "transformer":
        shape = {"depth": 3, "width": 32, "heads": 2}
    elif model == "mamba":
        shape |= {"state": 8}
    return recipe_for(tunnel, model, "quick").with_options(
        model_options=shape,
        average=0.0,
        supervision="posterior",
        batch=64,
        steps=600,
        validate_every=50,
        validation_episodes=256,
        checkpoint_every=200,
        ladder=0,
    )
