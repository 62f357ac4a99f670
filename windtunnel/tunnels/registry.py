"""Tunnels by name, for the command line, for recipes and for your own tunnels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields
from typing import Any

from windtunnel.errors import InputError, require, require_choice, require_name
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.bijection import Bijection
from windtunnel.tunnels.hmm import HMM
from windtunnel.tunnels.recall import Recall
from windtunnel.tunnels.urn import Urn

_TUNNELS: dict[str, type[Tunnel]] = {"bijection": Bijection, "hmm": HMM, "recall": Recall, "urn": Urn}


def register(name: str, cls: type[Tunnel]) -> type[Tunnel]:
    """Add your own tunnel (a frozen dataclass that subclasses `Tunnel`) under a new name."""
    require_name("name", name)
    require(name not in _TUNNELS, "name", name, "a name that is not taken: " + ", ".join(_TUNNELS))
    ok = isinstance(cls, type) and issubclass(cls, Tunnel) and hasattr(cls, "__dataclass_fields__")
    require(ok, "cls", cls, "a dataclass that subclasses windtunnel.tunnels.Tunnel")
    if lacking := sorted(cls.__abstractmethods__):
        raise InputError(f"cls = {cls.__name__}: must define {', '.join(lacking)}, as windtunnel.tunnels.Tunnel says")
    _TUNNELS[name] = cls
    return cls


def get(name: str) -> type[Tunnel]:
    """The tunnel class of that name."""
    require_choice("tunnel", name, _TUNNELS)
    return _TUNNELS[name]


def names() -> list[str]:
    """Every registered name."""
    return list(_TUNNELS)


def name_of(tunnel: Tunnel) -> str:
    """The name under which the tunnel's class is registered."""
    for name, cls in _TUNNELS.items():
        if type(tunnel) is cls:
            return name
    raise InputError(f"tunnel = {type(tunnel).__name__}: must be registered with windtunnel.tunnels.register first")


def to_dict(tunnel: Tunnel) -> dict[str, Any]:
    """A description fit for JSON; `from_dict` gives the same tunnel back."""
    return {"name": name_of(tunnel), **asdict(tunnel)}  # type: ignore[call-overload]


def from_dict(description: dict[str, Any]) -> Tunnel:
    """The tunnel that `to_dict` described (JSON turns tuples into lists; they are turned back)."""
    options = dict(description)
    cls = get(options.pop("name", None))
    allowed = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for key in options:
        require_choice("tunnel option", key, allowed)
    return cls(**{key: _as_tuple(value) for key, value in options.items()})


def in_words(tunnel: Tunnel, *, fixed: Collection[str] = ()) -> str:
    """The tunnel's name and what differs from its defaults; of the fields in `fixed` only that they were given.

    >>> in_words(HMM(length=8))
    'hmm length=8'
    """
    told = [
        f"{option.name}={'fixed' if option.name in fixed else value}"
        for option in fields(tunnel)  # type: ignore[arg-type]
        if (value := getattr(tunnel, option.name)) != option.default
    ]
    return " ".join([name_of(tunnel), *told])


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value
