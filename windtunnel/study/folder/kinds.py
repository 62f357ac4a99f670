"""What a JSON file must hold, and the one line for a file that lacks some of it.

A *kind* is written as it looks in the file:

    str, int, bool, dict, …   a value of that type
    NUMBER                    a number as `to_json` keeps it: null for none, "inf" for infinity
    ("a", "b")                one of these words
    [kind]                    a list of such
    {"name": kind, …}         an object with at least these fields; under `...`, the kind of all its other fields
    OrNull(kind)              such, or null
    Maybe(kind)               such, or null, or not there at all
    Told(kind)                such, or an object that says under "missing" why there is none
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.errors import InputError

Kind = Any
NUMBER = object()
_NAMES = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list", object: "given"}
_MOST = 8  # fields of an object that a line names


@dataclass(frozen=True)
class OrNull:
    """A field that may be null."""

    kind: Kind


class Maybe(OrNull):
    """A field that may be null or absent."""


@dataclass(frozen=True)
class Told:
    """Something, or the reason why it is not there."""

    kind: Kind


def require_shape(file: Path, content: Any, kind: Kind, field: str = "") -> None:
    """Raise at the first field that is missing or something else: one line with file, field and what it must be.

    field  where the content stands in the file, if it is not all of it
    """
    if wrong := _wrong(content, kind, field):
        raise InputError(f"{file}: {wrong}")


def _wrong(value: Any, kind: Kind, field: str) -> str:
    """What is wrong first, or nothing; `field` is where we are, as in claims[3].verdict."""
    if isinstance(kind, OrNull):
        return "" if value is None else _wrong(value, kind.kind, field)
    if isinstance(kind, Told):
        told = isinstance(value, Mapping) and isinstance(value.get("missing"), str)
        return "" if told else _wrong(value, kind.kind, field)
    if isinstance(kind, list) and isinstance(value, list):
        found = (_wrong(part, kind[0], f"{field}[{index}]") for index, part in enumerate(value))
        return next(filter(None, found), "")
    if isinstance(kind, Mapping) and isinstance(value, Mapping):
        return _wrong_field(value, kind, f"{field}." if field else "")
    shown = f"{field} = " if field else "holds "
    return "" if _is(value, kind) else f"{shown}{reprlib.repr(value)}: must be {_words(kind)}"


def _wrong_field(value: Mapping[str, Any], kind: Mapping[Any, Kind], before: str) -> str:
    for name, part in kind.items():
        if name is not ... and name not in value and not isinstance(part, Maybe):
            return f"{before}{name} is missing: must be {_words(part)}"
    rest = kind.get(..., object)
    found = (_wrong(part, kind.get(name, rest), f"{before}{name}") for name, part in value.items())
    return next(filter(None, found), "")


def _is(value: Any, kind: Kind) -> bool:
    if kind is NUMBER:
        return value in (None, "inf", "-inf") or (isinstance(value, int | float) and not isinstance(value, bool))
    if isinstance(kind, tuple):
        return value in kind
    if kind is int and isinstance(value, bool):
        return False
    return isinstance(kind, type) and isinstance(value, kind)


def _words(kind: Kind) -> str:
    """What is allowed.

    >>> _words({"mean": NUMBER, "over": str}), _words([str])
    ('an object with mean, over', 'a list')
    """
    if isinstance(kind, OrNull | Told):
        return _words(kind.kind)
    if kind is NUMBER:
        return 'a number, null or "inf"'
    if isinstance(kind, tuple):
        return f"one of {', '.join(kind)}"
    if isinstance(kind, Mapping):
        fields = [name for name, part in kind.items() if name is not ... and not isinstance(part, Maybe)]
        more = ", …" * (len(fields) > _MOST)
        return f"an object with {', '.join(fields[:_MOST])}{more}" if fields else "an object"
    return _NAMES[list if isinstance(kind, list) else kind]
