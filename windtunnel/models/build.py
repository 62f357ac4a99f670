"""`build`: a name (or a function) and a tunnel in, a model out.

    build("transformer", tunnel, params=2_670_000)              size within 1%, shape by the architecture's dial
    build("transformer", tunnel, depth=6, width=192, heads=6)   a shape; what is left out follows from the dial
    build("transformer", tunnel, preset="paper-hmm")            a named shape
    build("lstm", tunnel, style="stacked")                      options; 857,000 parameters unless a size is given
    build(factory, tunnel)                                      any function from a tunnel to a module, see `adapt`

Initial weights depend on `seed` alone, even when several threads build: they are drawn on the CPU, and the caller's
random state is left unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from threading import RLock
from typing import Any, TypeGuard

import torch
from torch import nn

from windtunnel.accidents import accident, misfit
from windtunnel.errors import InputError, plain_number, require, require_choice, require_int
from windtunnel.models.adapt import Adapted, adapt, require_fair
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.describe import describe
from windtunnel.models.matching import match
from windtunnel.models.registry import BUILDS, Factory, find, is_built_in, require_factory
from windtunnel.models.shape import Config
from windtunnel.tunnels.base import Tunnel, require_tunnel
from windtunnel.tunnels.random import whole_seed

DEFAULT_PARAMS = 857_000  # what a model gets when neither size nor shape is given, so that all are of one size

_DRAWING = RLock()  # of the thread that may draw; it may take it again, as a factory may call `build`


def build(
    model: str | Factory,
    tunnel: Tunnel,
    *,
    params: int | None = None,
    depth: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    max_length: int | None = None,
    preset: str | None = None,
    seed: int = 0,
    **options: Any,
) -> SequenceModel | Adapted:
    """A freshly initialised model for a tunnel, on the CPU in float32.

    params      number of parameters, matched within 1%; `describe` tells what became of it
    depth, width, heads and further options are fields of the architecture's config, and are kept as given
    max_length  longest input the model must take (default: the tunnel's own)
    """
    seed = whole_seed(seed)
    require_tunnel(tunnel)
    given = {"depth": depth, "width": width, "heads": heads}
    given = {name: value for name, value in given.items() if value is not None} | options
    given = {name: plain_number(value) for name, value in given.items()}
    params, max_length = plain_number(params), plain_number(max_length)
    if not isinstance(model, str):
        require_factory("model", model, named="the name of an architecture, or ", example="net")
    found = find(model) if isinstance(model, str) else model
    if not has_config(found):
        sized = {"params": params, "max_length": max_length, "preset": preset}
        given |= {name: value for name, value in sized.items() if value is not None}
        name = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
        with seeded(seed):
            return adapt(_call(found, tunnel, given, name), tunnel, name)
    sizes = Sizes.of(tunnel, max_length)
    config = resolve(found, sizes, params=params, preset=preset, given=given)
    with seeded(seed):
        built = found(config, sizes)
    if not (isinstance(model, str) and is_built_in(model)):  # ours are tested
        with seeded(seed):
            require_fair(built, tunnel, model if isinstance(model, str) else model.__name__)
    return built


def count_built_in(name: str, tunnel: Tunnel, **options: Any) -> int:
    """The number of parameters that `build` would give an architecture of ours, without making its weights."""
    with torch.device("meta"):
        return describe(build(name, tunnel, **options)).params


def has_config(found: object) -> TypeGuard[type[SequenceModel]]:
    """Whether it is an architecture whose shape we know how to choose, rather than a function that builds a module."""
    return isinstance(found, type) and issubclass(found, SequenceModel) and hasattr(found, "config_class")


def option_names(model: str | Factory) -> list[str] | None:
    """The options that `build` takes for a model, by name; None where anything may be given."""
    found = find(model) if isinstance(model, str) else model
    if has_config(found):
        return ["params", "preset", "max_length", *(field.name for field in fields(found.config_class))]
    parameters = list(inspect.signature(found).parameters.values())[1:]  # the first is the tunnel
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters]


def truth_names(model: str | Factory) -> list[str]:
    """Those of its options that are on or off, as far as their defaults tell."""
    found = find(model) if isinstance(model, str) else model
    if has_config(found):
        found = found.config_class
    parameters = inspect.signature(found).parameters.values()
    return [parameter.name for parameter in parameters if isinstance(parameter.default, bool)]


def resolve(
    cls: type[SequenceModel], sizes: Sizes, *, params: int | None, preset: str | None, given: dict[str, Any]
) -> Config:
    """The full config that follows from what was given."""
    allowed = [field.name for field in fields(cls.config_class)]
    for name in given:
        require_choice(f"{cls.name} option", name, allowed)
    if preset is not None:
        require_choice(f"{cls.name} preset", preset, cls.presets)
        require(params is None, "params", params, f"left out with preset = {preset!r}")
        given = cls.presets[preset] | given
    for name, most in (("depth", 10_000), ("width", 1_000_000)):
        if name in given:
            require_int(name, given[name], 1)
            require(given[name] <= most, name, given[name], f"at most {most}")  # a larger one takes minutes to refuse
    if params is None and "depth" not in given and "width" not in given:
        params = DEFAULT_PARAMS
    if params is not None:
        require_int("params", params, 1, 10**10)
        return match(cls, params, sizes, given)
    dial = cls.dial(given)
    width = given["width"] if "width" in given else dial.width_for(given["depth"])
    shape = given | {"width": width, "depth": given.get("depth", max(1, round(dial.depth_for(width))))}
    return cls.config_class(**cls.complete(shape, sizes))


def from_spec(spec: dict[str, Any], *, seed: int = 0) -> SequenceModel:
    """The built-in model that `model.spec` described, freshly initialised."""
    seed = whole_seed(seed)
    try:
        name, config, sizes = spec["name"], dict(spec["config"]), dict(spec["sizes"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"model spec = {spec!r}: must have a name, a config and sizes") from None
    cls = find(name)
    if not has_config(cls):
        raise InputError(f"model = {name!r}: must be a built-in architecture to be rebuilt from its spec")
    try:
        shape, measures = cls.config_class(**config), Sizes(**sizes)
    except TypeError as error:
        raise InputError(
            f"model spec = {spec!r}: must have the config and sizes of the architecture {name} ({error})"
        ) from None
    with seeded(seed):
        return cls(shape, measures)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Meanwhile torch draws on the CPU from `seed`; its state is put back afterwards.

    torch has one generator for all threads: one that comes while another draws waits for it.
    """
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that would reseed the GPUs too
        yield


def _call(factory: Factory, tunnel: Tunnel, given: dict[str, Any], name: str) -> nn.Module:
    """The module that a factory builds.  Whatever it raises is told in one line, and the traceback is kept."""
    try:
        return factory(tunnel, **given)
    except (InputError, MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        reason = misfit(factory, tunnel, **given)
        if reason and given:
            raise InputError(f"model options = {given}: must be keywords the factory takes ({reason})") from error
        if reason:
            told = f"must be {BUILDS}Net(…); with a tunnel alone it cannot be called ({reason})"
        else:
            told = f"its factory failed, called with this tunnel{f' and {given}' if given else ''} ({accident(error)})"
        raise InputError(f"model {name}: {told}") from error
