"""The full-size study: one H200, at most two hours.

Every architecture has 2.67M parameters (±1%) and, in each world, the same number of training sequences: those of the
Transformer's committed recipe.  Each has its own learning-rate sweep.  Five seeds for the cells that carry the paper's
headline, three elsewhere, one for the control.  Beside them run the paper's own settings.
"""

from __future__ import annotations

from typing import Any

from windtunnel.study.plan import Cell, Plan
from windtunnel.study.worlds import WORLDS
from windtunnel.training import Recipe, recipe_for
from windtunnel.training.standard import PAPER_SIZE
from windtunnel.tunnels import HMM, Bijection, Tunnel

ARCHITECTURES = ("transformer", "mamba", "lstm", "mlp", "linear-attention")
HEADS = (1, 2, 12)
"""Heads of the head-count sweep, at 6 layers of width 192; the paper's shape has 6."""
HEADLINE = {
    "bijection-transformer": 5,
    "hmm-transformer": 5,
    "hmm-mamba": 5,
    "hmm-lstm": 5,
    "hmm-lstm-stacked": 5,
    "hmm-transformer-9x256": 5,
}
ELSEWHERE, CONTROL = 3, 1
"""Numbers of seeds."""
MOST_ELSEWHERE = 3_100_000
"""Training sequences in worlds that carry no headline."""
LONGEST = 2 * HMM.states + 50
"""Positions that learned position embeddings must cover for the paper's length test."""

GEOMETRY = {
    "bijection-transformer": ("keys", "alignment", "values", "dynamics"),
    "bijection-replacement-transformer": ("keys", "alignment", "values"),
    "hmm-transformer": ("alignment", "values", "dynamics"),
    "hmm-mamba": ("values", "clusters"),
    "hmm-lstm": ("values", "clusters"),
    "hmm-lstm-stacked": ("values", "clusters"),
}
MECHANISM = {
    "bijection-transformer": ("ablate", "heads"),
    "hmm-transformer": ("ablate", "heads", "late", "roles"),
    "hmm-transformer-paper": ("late",),
}
PUBLISHED = {
    "optimiser": "adamw",
    "betas": (0.9, 0.999),
    "weight_decay": 0.01,
    "clip": 1.0,
    "decay": "cosine",
    "decay_share": 1.0,
}
"""What the paper states for all its training."""


def paper() -> Plan:
    """The plan."""
    cells = [_main(world.name, world.tunnel, model) for world in WORLDS for model in ARCHITECTURES]
    return Plan("paper", WORLDS, tuple(_finished(cell) for cell in [*cells, *_beside()]))


def budget(tunnel: Tunnel) -> int:
    """Training sequences of every architecture in a world."""
    recipe = recipe_for(tunnel, "transformer", "standard")
    sequences = recipe.steps * recipe.batch
    return sequences if tunnel in (Bijection(), HMM()) else min(sequences, MOST_ELSEWHERE)


def at_budget(recipe: Recipe, tunnel: Tunnel) -> Recipe:
    """The recipe with as many steps as the world's budget pays for."""
    steps = budget(tunnel) // recipe.batch
    return recipe.with_options(steps=steps, validate_every=max(1, steps // 6), ladder=0)


def _main(world: str, tunnel: Tunnel, model: str) -> Cell:
    recipe = at_budget(recipe_for(tunnel, model, "standard"), tunnel)
    # The control shows what the same recipe does without the primitive, so it takes over the chosen rate.
    sweep = f"hmm-rotating-{model}" if world == "hmm-sticky" else f"{world}-{model}"
    return Cell(f"{world}-{model}", world, recipe, sweep=sweep, overlap=model == "transformer")


def _beside() -> list[Cell]:
    """The paper's settings, the 7.1M shape, the position-wise MLP, and the head-count sweep."""
    hmm, bijection = HMM(), Bijection()
    slow = PUBLISHED | {"lr": 3e-4, "warmup": 1000}
    fast = PUBLISHED | {"lr": 1e-3, "warmup": 100}
    learned = {"preset": "paper-hmm", "positions": "learned", "max_length": LONGEST}
    found = [
        _variant("hmm-transformer-9x256", hmm, "transformer", {"preset": "paper-hmm", "positions": "none"}),
        _variant("hmm-transformer-paper", hmm, "transformer", learned, **slow),
        _variant("hmm-mamba-paper", hmm, "mamba", {"preset": "paper-hmm"}, **slow),
        _variant("hmm-lstm-stacked", hmm, "lstm", {"params": PAPER_SIZE, "style": "stacked"}, **slow),
        _variant("hmm-mlp-position", hmm, "mlp", {"params": PAPER_SIZE, "context": "position"}, **slow),
        _variant("bijection-transformer-paper", bijection, "transformer", {"preset": "paper-bijection"}, **fast),
        _variant("bijection-lstm-stacked", bijection, "lstm", {"preset": "paper-bijection"}, **fast),
        _variant("bijection-mlp-position", bijection, "mlp", {"preset": "paper-bijection"}, **fast),
    ]
    for heads in HEADS:
        shape = {"depth": 6, "width": 192, "ff_width": 768, "heads": heads, "positions": "none"}
        found.append(_variant(f"hmm-transformer-heads-{heads}", hmm, "transformer", shape))
    return found


def _variant(name: str, tunnel: Tunnel, model: str, shape: dict[str, Any], **options: Any) -> Cell:
    """The standard recipe of the pair with another shape or other settings; no sweep, the settings are the point."""
    world = name.partition("-")[0]
    recipe = at_budget(recipe_for(tunnel, model, "standard"), tunnel)
    return Cell(name, world, recipe.with_options(model_options=shape, **options))


def _finished(cell: Cell) -> Cell:
    """With its name, seeds and instruments; checkpoints along the way only where their dynamics are studied."""
    geometry, mechanism = GEOMETRY.get(cell.name, ()), MECHANISM.get(cell.name, ())
    ladder = 12 if "dynamics" in geometry else 0
    seeds = CONTROL if cell.world == "hmm-sticky" else HEADLINE.get(cell.name, ELSEWHERE)
    recipe = cell.recipe.with_options(name=cell.name, ladder=ladder, seeds=tuple(range(seeds)))
    return Cell(cell.name, cell.world, recipe, geometry, mechanism, sweep=cell.sweep, overlap=cell.overlap)
