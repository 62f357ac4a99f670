"""One error for every user's mistake: it names the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, cast

NEAR = 0.65  # how alike two words must be for one to be a slip for the other: hmn and hmm are, twice and times are not
LONGEST = 300  # letters of a value that are repeated to the user


class InputError(ValueError):
    """A user's mistake, told in one line.  The command line prints it and exits with code 2."""


class CodeChanged(InputError):
    """What is saved was made by other code than there is now; nothing is wrong with it."""


class Unregistered(InputError):
    """A tunnel or an architecture of somebody's own is not known here: the plugin that registers it must be named."""


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise an `InputError` that names the field, its value and what is allowed.

    >>> require(3 > 1, "states", 3, "at least 2")
    """
    if not condition:
        raise InputError(f"{field} = {shown(value)}: must be {allowed}")


def shown(value: object) -> str:
    """The value as Python writes it; one that takes several lines (a network, a tensor) by its kind alone, and of a
    very long one the beginning."""
    text = repr(value)
    if len(text.splitlines()) != 1:
        return one_of_kind(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def require_name(field: str, value: object) -> None:
    """Raise unless `value` can be typed on a command line and be part of a file's name.

    >>> require_name("name", "running-mean_2.1")
    """
    allowed = "1 to 100 letters, digits and signs, without blanks and slashes, not beginning with - or ."
    fits = isinstance(value, str) and re.fullmatch(r"[^\s/\\.-][^\s/\\]{0,99}", value) is not None
    require(fits, field, value, allowed)


def one_of_kind(value: object) -> str:
    """The value by its kind alone.

    >>> one_of_kind(3)
    'a value of type int'
    """
    return f"a value of type {type(value).__name__}"


def require_choice(field: str, value: object, choices: Iterable[object]) -> None:
    """Raise unless `value` is one of `choices`, which the message lists: all, or of very many the nearest."""
    choices = list(choices)
    if _is_single(value) and value in choices:
        return
    require(len(choices) > 0, field, value, "left out: there is none to choose")
    words = list(map(str, choices))
    listed = _listed(str(value), words)
    hint = did_you_mean(value, words) if listed == ", ".join(words) else ""  # else the nearest is listed first
    raise InputError(f"{field} = {shown(value)}{hint}: must be one of {listed}")


def _is_single(value: object) -> bool:
    """Is it one thing?  An array or a tensor of several has no one answer to `==`."""
    return getattr(value, "shape", ()) == ()


def _listed(word: str, choices: list[str], most: int = 300) -> str:
    """All choices, or where that takes more than so many letters the five nearest to the word and their number.

    >>> _listed("b", ["a", "b"]), _listed("c1", [f"c{k}" for k in range(5)] + ["d"] * 9, most=9)
    ('a, b', 'c1, c0, c2, c3, c4, … (14 in all)')
    """
    every = ", ".join(choices)
    if len(every) <= most:
        return every
    return f"{', '.join(nearest(word, choices, cutoff=0.0))}, … ({len(choices)} in all)"


def nearest(word: str, known: Sequence[str], n: int = 5, cutoff: float = 0.6) -> list[str]:
    """`difflib.get_close_matches`, but names that are equally near stay in their own order, which difflib turns round.

    >>> nearest("block.1", ["block.0", "block.1", "block.2", "head"], n=3)
    ['block.1', 'block.0', 'block.2']
    """
    ratios = {name: difflib.SequenceMatcher(None, name, word).ratio() for name in known}
    return sorted((name for name in ratios if ratios[name] >= cutoff), key=lambda name: -ratios[name])[:n]


def whole_number(field: str, value: object, low: int, high: int | None = None) -> int:
    """The value as a plain int, NumPy's whole numbers too; raise unless it is in [low, high] (no upper bound if None).

    >>> whole_number("states", 3, 2)
    3
    """
    allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    found = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    require(found is not None and found >= low and (high is None or found <= high), field, value, allowed)
    return cast(int, found)


def plain_number(value: Any) -> Any:
    """A number of another library as Python's own, which JSON can hold; anything else as it is."""
    if type(value) in (bool, int, float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def keep_whole_number(owner: object, field: str, low: int, high: int | None = None) -> None:
    """Make a field of a frozen dataclass a plain int, which JSON can hold; raise as `whole_number` does."""
    object.__setattr__(owner, field, whole_number(field, getattr(owner, field), low, high))


def keep_number(owner: object, field: str, low: float, high: float = math.inf, **ends: bool) -> None:
    """Make a field of a frozen dataclass a number of Python's, which JSON can hold; raise as `require_number` does."""
    object.__setattr__(owner, field, plain_number(getattr(owner, field)))
    require_number(field, getattr(owner, field), low, high, **ends)


def keep_truth(owner: object, field: str) -> None:
    """Make a field of a frozen dataclass Python's True or False, be it given as NumPy's; raise for anything else."""
    value = getattr(owner, field)
    require(is_truth(value) and _is_single(value), field, value, "True or False")
    object.__setattr__(owner, field, bool(value))


def require_int(field: str, value: object, low: int, high: int | None = None) -> None:
    """Raise unless `value` is a plain int in [low, high].  For what is kept or passed on as it was given: other whole
    numbers would fail later, in JSON for one."""
    found = whole_number(field, value, low, high)
    require(isinstance(value, int), field, value, f"a plain int, {found}")


def is_truth(value: object) -> bool:
    """Whether it is True or False, be it NumPy's or torch's, or an array of them: no number, though it can pass for 0
    or 1."""
    return str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.") == "bool"


def is_number(value: object) -> bool:
    """Whether it is a finite number that a float can hold; True and False are none, though Python counts with them."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def require_number(
    field: str, value: Any, low: float, high: float = math.inf, *, above: bool = False, below: bool = False
) -> None:
    """Raise unless `value` is a finite number in [low, high]; `above` leaves out low itself, `below` high.

    >>> require_number("noise", 0, 0, 1, below=True)
    """
    if high == math.inf:
        allowed = f"a finite number {'above' if above else 'of at least'} {low}"
    else:
        allowed = f"a number in {'(' if above else '['}{low}, {high}{')' if below else ']'}"
    inside = (
        is_number(value) and (low < value if above else low <= value) and (value < high if below else value <= high)
    )
    require(inside, field, value, allowed)


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """The line for a name that is none of the known ones, with the one that was probably meant.

    >>> unknown("option", "step", ["steps", "batch"])
    "unknown option 'step' (did you mean steps?): must be one of steps, batch"
    """
    known = list(known)
    return f"unknown {what} {word!r}{did_you_mean(word, known)}: must be one of {', '.join(known)}"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The known name that was probably meant, to be told after a mistyped one; nothing where none is near.

    The dashes of an option make no two of them alike.

    >>> did_you_mean("--step", ["--steps", "--batch"]), did_you_mean("--what", ["--batch"])
    (' (did you mean --steps?)', '')
    """
    bare = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(word.lstrip("-"), bare, n=1, cutoff=NEAR) if isinstance(word, str) else []
    return f" (did you mean {bare[near[0]]}?)" if near else ""
