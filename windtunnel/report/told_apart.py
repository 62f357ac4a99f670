"""Tunnels of one kind told apart by what differs, in few words: a chain's own matrices are not written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 40  # letters of a value that is told as it is
SPOKEN = {
    "replacement": ("without replacement", "with replacement"),
    "mixed": ("a fixed number of pairs", "mixed numbers of pairs"),
}
"""What is so or not so, as one says it: when it is not, when it is."""


def spoken(part: str, value: Any) -> str:
    """A field of a tunnel in words.

    >>> spoken("length", 6), spoken("replacement", False), spoken("sorted", True)
    ('length 6', 'without replacement', 'sorted: yes')
    """
    if isinstance(value, bool):
        return SPOKEN.get(part, (f"{part}: no", f"{part}: yes"))[value]
    return f"{part} {value}"


def told_apart(tunnel: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> str:
    """In what a tunnel differs from others of its name, itself among them; empty where it only lacks what others have.

    A table of numbers, or whatever else takes long to tell, is "its own"; different ones are counted.

    >>> a, b = ({"name": "hmm", "length": 6, "emission": [[p, 1 - p]]} for p in (0.25, 0.5))
    >>> plain, longer = {"name": "hmm", "length": 6, "emission": None}, {"name": "hmm", "length": 9, "emission": None}
    >>> told_apart(plain, [plain, longer]), told_apart(a, [plain, a]), told_apart(plain, [plain, a])
    ('length 6', 'its own emission', '')
    >>> [told_apart(one, [a, plain, b]) for one in (a, b)]
    ['its own emission, number 1', 'its own emission, number 2']
    """
    differs = [part for part, value in tunnel.items() if any(rival.get(part) != value for rival in rivals)]
    told = [spoken(part, tunnel[part]) for part in differs if tunnel[part] is not None and not _long(tunnel[part])]
    own = [part for part in differs if _long(tunnel[part])]
    if own:
        told.append(f"its own {' and '.join(own)}{_which(tunnel, rivals, own)}")
    return ", ".join(told)


def _long(value: Any) -> bool:
    table = isinstance(value, list | tuple) and any(isinstance(row, list | tuple) for row in value)
    return table or len(str(value)) > LONGEST


def _which(tunnel: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> str:
    """Which of several different ones, in the order of the rivals; nothing where there is one."""
    different: list[list[Any]] = []
    for rival in rivals:
        values = [rival.get(part) for part in parts]
        if any(map(_long, values)) and values not in different:
            different.append(values)
    mine = [tunnel[part] for part in parts]
    return f", number {different.index(mine) + 1}" if len(different) > 1 else ""
