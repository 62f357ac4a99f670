"""The flags of a recipe.  What is not given is left to the committed recipe for the tunnel and the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated

import tyro

from windtunnel import models
from windtunnel.cli.flags import Float, Int, shown
from windtunnel.errors import InputError, unknown
from windtunnel.training import Recipe, recipe_for
from windtunnel.training.recipes import default_preset
from windtunnel.training.start import apply_options
from windtunnel.tunnels import Tunnel


@dataclass(frozen=True, kw_only=True)
class RecipeFlags:
    """Every part of a recipe; the library checks the values."""

    preset: Annotated[str | None, shown("{standard,quick}")] = None
    """Recipe to start from: `quick` is small and short, the default on a CPU; `standard` is the committed one."""
    steps: Int = None
    """Training steps."""
    seeds: Int = None
    """How many networks: seeds 0, 1, …"""
    batch: Int = None
    """Episodes per step, always fresh."""
    first_batch: Int = None
    """Initial episodes per step, doubled at equal intervals until they reach `batch`; 0: `batch` throughout."""
    supervision: Annotated[str | None, shown("{labels,posterior}")] = None
    """What the loss compares predictions with: sampled labels, or the exact belief itself."""
    precision: Annotated[str | None, shown("{float32,bfloat16}")] = None
    """Arithmetic of the forward and backward pass."""
    optimiser: Annotated[str | None, shown("{adamw,muon}")] = None
    """What updates the weight matrices; AdamW updates the rest."""
    lr: Float = None
    """Peak learning rate of AdamW."""
    muon_lr: Float = None
    """Peak learning rate of Muon."""
    betas: Annotated[tuple[float, float] | None, shown("FLOAT FLOAT")] = None
    """AdamW's decay rates of the gradient's mean and square."""
    momentum: Float = None
    """Muon's momentum."""
    weight_decay: Float = None
    """Decoupled weight decay, on weight matrices only."""
    clip: Float = None
    """Clip the gradient to this norm; 0: no clipping."""
    average: Float = None
    """Per-step decay of a moving average of the weights, which is then kept instead; 0: none."""
    warmup: Int = None
    """Steps of linear warm-up."""
    decay: Annotated[str | None, shown("{cosine,linear,none}")] = None
    """How the learning rate falls."""
    decay_share: Float = None
    """Final share of the steps, over which the learning rate falls."""
    floor: Float = None
    """Learning rate at the end, as a share of the peak."""
    validate_every: Int = None
    """Steps between scores on the validation stream."""
    validation_episodes: Int = None
    """Episodes per validation score."""
    checkpoint_every: Int = None
    """Steps between resumable checkpoints."""
    ladder: Int = None
    """How many log-spaced weight snapshots to keep; 0: only the last one."""
    name: Annotated[str | None, shown("STR")] = None
    """Name of the recipe in tables."""
    params: Int = None
    """Size of the model in parameters. Default: the recipe's, unless a width is given."""
    depth: Int = None
    """Number of blocks."""
    width: Int = None
    """Width of the residual stream."""
    heads: Int = None
    """Attention heads."""
    max_length: Int = None
    """Longest input the model must accept, where positions are learned."""
    option: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], shown("NAME=VALUE")] = ()
    """Any other option of the model; may be repeated: positions=rope, style=stacked, context=position, state=32 …"""


_FLAGS = {f.name for f in fields(RecipeFlags)} - {"preset"}  # a model has presets of its own, as in preset=paper-hmm


def recipe_from(tunnel: Tunnel, model: str, flags: RecipeFlags, device: str, say: Callable[[str], None]) -> Recipe:
    """The committed recipe of the pair, or that of the preset, with the flags that were given; `say` is told what had
    to be fitted to them."""
    apart = ("preset", "seeds", "option")
    typed = {f.name: getattr(flags, f.name) for f in fields(RecipeFlags) if f.name not in apart}
    options = {name: value for name, value in typed.items() if value is not None}
    for word in flags.option:
        name, value = _option(word)
        if name in options:
            raise InputError(f"--option {word}: must be given once, {name} is set already")
        _require_known(model, name, f"--option {word}")
        if isinstance(value, str) and name in models.truth_names(model):
            raise InputError(f"--option {word}: must be {name}=true or {name}=false")
        options[name] = value
    for name in ("params", "depth", "width", "heads", "max_length"):
        if name in options:
            _require_known(model, name, f"--{name.replace('_', '-')}")
    preset = flags.preset or default_preset(device)
    return apply_options(recipe_for(tunnel, model, preset), flags.seeds, options, say=say)


def _require_known(model: str, name: str, typed: str) -> None:
    """Raise unless the model has an option of that name.  Those with a flag of their own are not for --option."""
    known = models.option_names(model)
    if known is not None and name not in known:
        listed = [one for one in known if one not in _FLAGS or not typed.startswith("--option")]
        raise InputError(f"{typed}: {unknown(f'option of {model},', name, listed)}")


def _option(word: str) -> tuple[str, bool | int | float | str]:
    """`state=32` as a name and a number, `gated=false` as a name and False; what is neither stays a word."""
    name, equals, text = word.partition("=")
    name = name.strip().replace("-", "_")
    if not (name and equals and text):
        raise InputError(f"--option = {word!r}: must be NAME=VALUE, e.g. positions=rope")
    if name in _FLAGS:
        raise InputError(f"--option = {word!r}: must be given as --{name.replace('_', '-')} {text}")
    if text.lower() in ("true", "false"):
        return name, text.lower() == "true"
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            continue
    return name, text
