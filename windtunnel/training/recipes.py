"""Recipes for each tunnel and architecture, with the reason for each choice.

`docs/log.md` keeps the dated trials behind them, the failures too.  `recipe_for` finds the one for a pair;
`NAMED` (in tuned_recipes.py) lists those that the benchmarks know by name.
"""

from __future__ import annotations

from windtunnel.errors import InputError, require_choice
from windtunnel.models.registry import find, is_built_in
from windtunnel.training.recipe import Optimiser, Recipe, Schedule
from windtunnel.training.tuned_recipes import STANDARD, base
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.checking import is_foreign

PRESETS = ("standard", "quick")


def default_preset(device: str) -> str:
    """`standard` is meant for a GPU; on a CPU its networks would take hours."""
    return "standard" if device.startswith("cuda") else "quick"


def recipe_for(tunnel: Tunnel, model: str, preset: str = "standard") -> Recipe:
    """The committed recipe for a tunnel and an architecture; a sensible default for those we do not know."""
    _require_preset(preset, model)
    recipe = quick(tunnel, model) if preset == "quick" else standard(tunnel, model)
    # A size in built-in terms means nothing to one's own architecture.
    return recipe if is_built_in(model) else recipe.with_options(model_options={})


def _require_preset(preset: str, model: str) -> None:
    """A model has presets too, of its shape, for which `train` has no keyword left: say where they go."""
    if is_built_in(model) and preset in getattr(find(model), "presets", {}):
        option = f"--option preset={preset}, in Python Recipe(…, model_options={{'preset': {preset!r}}})"
        raise InputError(f"preset = {preset!r}: must be one of {', '.join(PRESETS)}; a shape of the model is {option}")
    require_choice("preset", preset, PRESETS)


def quick(tunnel: Tunnel, model: str) -> Recipe:
    """Small and short, for a look on two CPU cores: a minute, not an hour.

    60k parameters and batches of 128 keep a step short; supervision stays with the sampled labels, as in the
    paper.  Muon with a linear fall to zero and an average of the weights ends with less KL after 800 steps than AdamW
    at 4e-3 after 1,500 (`docs/log.md`).
    """
    return Recipe(
        tunnel,
        model,
        {"params": 60_000},
        Optimiser(kind="muon", lr=8e-3, muon_lr=0.02, betas=(0.9, 0.95), weight_decay=0.0, average=0.98),
        Schedule(warmup=50, decay="linear", decay_share=0.8),
        batch=128,
        steps=800,
        validate_every=100,
        checkpoint_every=400,
        validation_episodes=512,
        name="quick",
    )


def standard(tunnel: Tunnel, model: str) -> Recipe:
    """One GPU, minutes: 2.67M parameters (the paper's size), bfloat16, Muon on the matrices.

    Tuned where `tuned_recipes.py` has a function for the pair; for the other built-in architectures what those share.
    """
    world = type(tunnel).__name__.lower()
    build = None if is_foreign(tunnel) else STANDARD.get((world, model))  # one's own may have the name of one of ours
    if build:
        return build(tunnel)
    return base(tunnel, model, f"{world}-{model}") if is_built_in(model) else generic(tunnel, model)


def generic(tunnel: Tunnel, model: str) -> Recipe:
    """For an architecture of your own: AdamW at a rate that rarely fails, warm-up, cosine."""
    return Recipe(
        tunnel,
        model,
        {},
        Optimiser(lr=1e-3),
        Schedule(warmup=200, decay="cosine"),
        batch=256,
        steps=4000,
        name="generic",
    )
