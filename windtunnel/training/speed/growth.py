"""Time and memory of a training step as one size grows and all others stay."""

from __future__ import annotations

from collections.abc import Iterator

from windtunnel import models
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.tunnels import HMM

AXES = ("width", "depth", "length", "batch", "seeds")


def base_case(device: str, quick: bool = False) -> Recipe:
    """The Transformer on HMMs that everything grows from; depth and width are given, so that each can grow alone."""
    gpu = device != "cpu"
    depth, width, batch = (6, 192, 1024) if gpu else (2, 48, 32 if quick else 64)
    shape = {"depth": depth, "width": width, "heads": width // 16, "positions": "none"}
    return Recipe(HMM(), "transformer", shape, batch=batch, precision="bfloat16" if gpu else "float32", name="growth")


def grown(recipe: Recipe, axis: str, factor: float) -> tuple[int, Recipe, int]:
    """The recipe with one size changed by a factor: (that size, the recipe, number of seeds)."""
    if axis == "seeds":
        seeds = max(1, round(factor))
        return seeds, recipe, seeds
    if axis == "batch":
        size = max(1, round(recipe.batch * factor))
        return size, recipe.with_options(batch=size), 1
    if axis == "length":
        tunnel = recipe.tunnel
        size = max(1, round(getattr(tunnel, "length", 1) * factor))
        return size, recipe.with_options(tunnel=tunnel.with_length(size)), 1
    size = max(1, round(recipe.model_options[axis] * factor))
    options = recipe.model_options | {axis: size}
    if axis == "width":
        options["heads"] = max(1, size // 16)  # heads keep their width
    return size, recipe.with_options(model_options=options), 1


def steps_of_growth(quick: bool) -> Iterator[tuple[str, float]]:
    """What to measure, one axis at a time and the cheap ends first; factor 1 is the base itself."""
    factors = (1.0, 2.0) if quick else (0.5, 1.0, 2.0, 4.0)
    for axis in AXES:
        for factor in (1, 2, 5) if axis == "seeds" else factors:
            yield axis, factor


def parameters_of(recipe: Recipe) -> int:
    """Number of parameters of one network of the recipe."""
    return models.describe(Network(recipe, 0, "cpu").model).params
