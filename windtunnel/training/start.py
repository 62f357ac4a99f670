"""`train`: from the caller's arguments to a sitting that trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Any

import torch

from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError, plain_number, require, require_number, unknown, whole_number
from windtunnel.models.base import Sizes
from windtunnel.models.build import has_config, option_names, resolve
from windtunnel.models.registry import Factory, find, is_built_in, require_factory
from windtunnel.models.registry import names as model_names
from windtunnel.training.files import require_path
from windtunnel.training.folder import RunFolder
from windtunnel.training.lock import locked
from windtunnel.training.preflight import Shape, rehearse
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipes import default_preset, recipe_for
from windtunnel.training.run import Run
from windtunnel.training.schedule import never_peaks, shortened
from windtunnel.training.sitting import Say, Sitting
from windtunnel.training.trackers import Tracker, open_tracker
from windtunnel.training.trackers import say as print_line
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.base import require_tunnel
from windtunnel.tunnels.checking import check, is_foreign

_KEYWORDS = ("preset", "out", "device", "tracker", "max_minutes", "earlier", "turn")
"""Of `train` itself: what a mistyped option may have meant, beside the recipe's fields and the model's."""


def train(
    tunnel: Tunnel | None = None,
    model: str | Factory | None = None,
    *,
    recipe: Recipe | None = None,
    preset: str | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    tracker: str | Tracker = "none",
    max_minutes: float | None = None,
    earlier: bool = False,
    say: Say | None = None,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    **options: Any,
) -> Run:
    """Train a model on a tunnel and return the run.

    tunnel, model   the world, and an architecture by name (default: transformer) or any `Callable[[Tunnel], nn.Module]`
    recipe          start from this recipe; it has its own tunnel and model (a factory must be given again)
    preset          `standard`, the committed recipe for the pair (default on a GPU), or `quick` (default on a CPU)
    seeds           how many networks (seeds 0, 1, …), or which seeds; on a GPU they train together, on a CPU as many
                    at a time as torch may use threads (modules and tunnels of your own one by one)
    options         fields of `Recipe` (steps=, batch=, …), of its `Optimiser` and `Schedule` (lr=, warmup=, …; the
                    kind of optimiser is optimiser="adamw" or "muon"), or of the model (params=, depth=, width=, …)
    out             folder to keep the run in; make the same call again to continue it.  None: only in memory
    device          cpu or cuda; by default a GPU if there is one
    tracker         where to report every validation: "print" for a line each on the error stream, "tensorboard",
                    "trackio", "wandb" (extras of those names), or an object with start, log and finish
    max_minutes     stop after this many minutes with everything saved; make the same call again to resume
    earlier         if the last saved state is damaged, resume from the intact one before it; if the list of what is
                    saved is lost, rebuild it from the files that are there, unchecked
    say             called with a line on each notable event (continuing, already finished, stopped, a warm-up that was
                    shortened to fit the steps); by default nothing is said, unless tracker="print"
    turn            makes a context to step in, entered once everything is built: lets several processes share a card

    On a CPU a run that was stopped and continued ends in the same weights, bit for bit.  That is not promised on
    a GPU, where what a module of your own draws while it trains (dropout) is neither seeded nor resumed.
    """
    if say is None:
        say = print_line if tracker == "print" else lambda line: None
    tracker, out = open_tracker(tracker), None if out is None else require_path("out", out)
    if max_minutes is not None:
        max_minutes = plain_number(max_minutes)
        require_number("max_minutes", max_minutes, 0, above=True)
        require(out is not None, "max_minutes", max_minutes, "left out unless out=… gives a folder to resume from")
    factory = None if model is None or isinstance(model, str) else model
    if factory is not None:
        require_factory("model", factory, named="the name of an architecture, or ")
    device = require_device(default_device() if device is None else device)
    unasked = recipe is None and preset is None and default_preset(device) == "quick"
    recipe = _chosen(recipe, tunnel, model, preset, device)
    recipe = apply_options(recipe, seeds, options, factory, say)
    if is_foreign(recipe.tunnel):
        check(recipe.tunnel)
    if out is not None:
        recipe.to_dict()  # a tunnel that has no name cannot be written down: told before there is a folder
    shape = Shape()
    if out is None or not RunFolder(out).exists():
        if out is not None:
            RunFolder(out).require_free()
        if unasked:
            say("on a CPU this is the small `quick` recipe; preset='standard' for the committed one")
        if never_peaks(recipe):  # a recipe that was given whole is trained as it is
            say(f"the warm-up of {recipe.schedule.warmup} steps is longer than the training, which has {recipe.steps}")
        shape = rehearse(recipe, factory)
    sitting = Sitting(recipe, factory, device, tracker, say, max_minutes, earlier, turn, shape)
    if out is None:
        return sitting.run(None)
    with locked(out):
        return sitting.run(RunFolder(out))


def _chosen(
    recipe: Recipe | None, tunnel: Tunnel | None, model: str | Factory | None, preset: str | None, device: str
) -> Recipe:
    """The recipe to start from: the one given, if nothing that it has itself is given too; or the pair's own."""
    factory = None if model is None or isinstance(model, str) else model
    if recipe is None:
        if tunnel is None:
            raise InputError("tunnel = None: must be given when no recipe is")
        require_tunnel(tunnel)
        name = _own_name(factory) if factory else str(model or "transformer")
        return recipe_for(tunnel, name, preset or default_preset(device))
    require(isinstance(recipe, Recipe), "recipe", recipe, "a windtunnel.training.Recipe")
    given = [name for name, value in (("tunnel", tunnel), ("preset", preset)) if value is not None]
    if isinstance(model, str):
        given.append("model")
    if given:
        raise InputError(f"{' and '.join(given)}: must be left out when recipe= is given, which has its own")
    if factory is not None:
        own = f"a name that no built-in model has when a function builds it, e.g. {_own_name(factory)!r}"
        require(not is_built_in(recipe.model), "recipe.model", recipe.model, own)
    return recipe


def apply_options(
    recipe: Recipe,
    seeds: int | Sequence[int] | None,
    options: dict[str, Any],
    factory: Factory | None = None,
    say: Say = lambda line: None,
) -> Recipe:
    """Put each option where it belongs: into the recipe's parts, or (what they do not know) into the model's.

    A warm-up longer than the whole training would leave it at a fraction of its learning rate.  Asked for, it is
    refused; one that the recipe brought along for more steps than were asked for is shortened, and `say` is told.

    factory  the function that builds the model, where it is not known by the recipe's name for it
    """
    names = [f.name for part in (recipe, recipe.optimiser, recipe.schedule) for f in fields(part)]
    own = [name for name in names if name not in ("tunnel", "model", "model_options", "schedule")]
    mine = {name: value for name, value in options.items() if name in own}
    theirs = {name: value for name, value in options.items() if name not in own}
    for name in theirs.keys() & {"tunnel", "model", "seed"}:  # words that `models.build` keeps for its caller
        hint = "seeds" if name == "seed" else "an option of the recipe or the model"
        raise InputError(f"option = {name!r}: must be {hint}")
    known = option_names(factory or recipe.model) if factory or recipe.model in model_names() else None
    for name in theirs:
        if known is not None and name not in known:
            raise InputError(unknown("option", name, dict.fromkeys([*own, *_KEYWORDS, *known])))
    if seeds is not None:
        if isinstance(seeds, Integral):
            seeds = tuple(range(whole_number("seeds", seeds, 1, 10_000)))
        mine["seeds"] = seeds
    if theirs:
        mine["model_options"] = _sized(recipe, theirs, say)
    changed = recipe.with_options(**mine)
    if never_peaks(changed) and {"warmup", "steps"} & mine.keys():
        given = changed.schedule.warmup
        require("warmup" not in mine, "warmup", given, f"at most steps = {changed.steps}")
        changed = changed.with_options(warmup=shortened(given, changed.steps))
        say(f"warm-up shortened from {given} steps to {changed.schedule.warmup}: there are only {changed.steps} in all")
    return changed


_SIZE = {"params", "width", "preset"}  # of a model; each of them given replaces all that the recipe says of its shape
_SHAPE = {"depth", "heads", "ff_width"}  # with which a number of parameters can be kept


def _sized(recipe: Recipe, given: dict[str, Any], say: Say) -> dict[str, Any]:
    """The model's options with those given.  Another depth or number of heads keeps the recipe's number of parameters;
    where there is no such network, and for a recipe that gives a depth and a width, the size follows from the shape."""
    before = recipe.model_options
    if not (_SIZE | _SHAPE) & given.keys():
        return before | given
    bare = {name: value for name, value in before.items() if name not in _SIZE | _SHAPE}
    if _SIZE & given.keys():
        return bare | given
    if "depth" in given:
        kept = bare | {name: value for name, value in before.items() if name == "params"} | given
    else:
        kept = before | given
    if "params" not in kept or _can_be_built(recipe, kept):
        return kept
    told = ", ".join(f"{name} = {given[name]}" for name in sorted(_SHAPE & given.keys()))
    size = f"{recipe.model} of {kept['params']:,} parameters"
    say(f"no {size} has {told}, so its size follows from that; width or params set it")
    return bare | given


def _can_be_built(recipe: Recipe, options: dict[str, Any]) -> bool:
    """Is there a network of that size and shape?  Only counted, so it costs nothing where it is very large."""
    found = find(recipe.model)
    if not has_config(found):
        return True
    shape = {name: value for name, value in options.items() if name not in ("params", "preset", "max_length")}
    sizes = Sizes.of(recipe.tunnel, options.get("max_length"))
    try:
        resolve(found, sizes, params=options["params"], preset=options.get("preset"), given=shape)
    except InputError:
        return False
    return True


def _own_name(factory: Factory) -> str:
    """What a function is called in a recipe: never by the name of something else, which `load` would build instead."""
    name = getattr(factory, "__name__", type(factory).__name__).strip("<>")  # a lambda is called so
    return f"own-{name}" if name in model_names() and find(name) is not factory else name
