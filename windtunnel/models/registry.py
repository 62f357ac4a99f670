"""Architectures by name: the built-in ones and your own."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from windtunnel.errors import require, require_choice, require_name
from windtunnel.models.base import SequenceModel
from windtunnel.models.linear_attention import LinearAttention
from windtunnel.models.lstm import LSTM
from windtunnel.models.mamba import Mamba
from windtunnel.models.mlp import MLP
from windtunnel.models.transformer import Transformer

Factory = Callable[..., nn.Module]
"""`factory(tunnel, **options) -> module`; see `windtunnel.models.adapt` for what the module must do."""
BUILDS = "a function that takes a tunnel and returns a module, e.g. lambda tunnel: "

_BUILT_IN: dict[str, type[SequenceModel]] = {cls.name: cls for cls in (Transformer, Mamba, LSTM, MLP, LinearAttention)}
_REGISTERED: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> Factory:
    """Add your own architecture under a new name: a function from a tunnel to a module."""
    require_name("name", name)
    require(name not in names(), "name", name, "a name that is not taken: " + ", ".join(names()))
    require_factory("factory", factory)
    _REGISTERED[name] = factory
    return factory


def require_factory(field: str, value: object, named: str = "", example: str = "Net(…)") -> None:
    """Raise unless `value` can build a module.  A module cannot: it is callable, but its call is its forward pass.

    named    what else is allowed
    example  what a function might return; by default a new module, for every seed trains one of its own
    """
    require(callable(value) and not isinstance(value, nn.Module), field, value, f"{named}{BUILDS}{example}")


def unregister(name: str) -> None:
    """Forget an architecture that `register` added."""
    require_choice("name", name, _REGISTERED)
    del _REGISTERED[name]


def find(name: str) -> type[SequenceModel] | Factory:
    """The built-in class or the registered factory of that name."""
    require_choice("model", name, names())
    return _BUILT_IN.get(name) or _REGISTERED[name]


def is_built_in(name: str) -> bool:
    """Whether the name is one of ours, rather than registered or unknown."""
    return name in _BUILT_IN


def is_ours(name: str, factory: object) -> bool:
    """Whether a recipe's model is built in: by that name, and by no function of the user's."""
    return factory is None and is_built_in(name)


def names() -> list[str]:
    """Every name that `build` accepts."""
    return [*_BUILT_IN, *_REGISTERED]


def summaries() -> dict[str, str]:
    """Name to one line of description, for `windtunnel list`; nothing is built."""
    own = {name: _first_line(factory) for name, factory in _REGISTERED.items()}
    return {name: cls.summary for name, cls in _BUILT_IN.items()} | own


def _first_line(factory: Factory) -> str:
    lines = (factory.__doc__ or "").strip().splitlines()
    return lines[0] if lines else "yours (it has no docstring)"
