"""What went wrong with somebody's code, in one line: which error, in which file and line, and what it said; and whether
it was the call itself that did not fit."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE, STANDARD = Path(__file__).parent, Path(os.__file__).parent
TYPED = ("<stdin>", "<ipython", "<python-input")  # code without a file that somebody wrote, unlike `<frozen …>`


def accident(error: BaseException) -> str:
    """The error where it was caught, e.g. `IndexError in mine.py:12: index out of range in self`."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__} in {_place(error)}: {first_line}".removesuffix(": ")


def is_in_own_code(error: BaseException) -> bool:
    """Did it happen in code of the user's, rather than in this package or in what this package called?"""
    file = _innermost(error)[0]
    return _ours(file) and not Path(file).is_relative_to(PACKAGE)


def is_of_memory(error: BaseException) -> bool:
    """Was there too little memory?  Python, NumPy and PyTorch each have their own way to say so."""
    said = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or "allocate memory" in said or "out of memory" in said


def misfit(function: Callable, *values: Any, **options: Any) -> str:
    """Why a function cannot be called so, as its signature tells; nothing if it can, or if it has no signature.

    Asked after a call has failed: a call that does not fit and a mistake inside are both a TypeError.

    >>> misfit(lambda x: x, 1), misfit(lambda x: x, 1, y=2)
    ('', "got an unexpected keyword argument 'y'")
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*values, **options)
    except TypeError as error:
        return str(error)
    return ""


def _place(error: BaseException) -> str:
    file, line = _innermost(error)
    return f"{Path(file).name}:{line}"


def _innermost(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost call in this package or in the user's code: a line of PyTorch's tells nobody
    what to mend.  The outermost is the one that caught the error, and is named only if there is no other."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    inner = frames[1:] or frames
    return ([found for found in inner if _ours(found[0])] or inner)[-1]


def _ours(file: str) -> bool:
    """Is it in this package or the user's code, rather than Python's own or an installed library's?"""
    path = Path(file)
    if path.is_relative_to(PACKAGE):  # wherever it is installed
        return True
    if file.startswith("<"):
        return file.startswith(TYPED)
    if any(part.startswith("torchinductor") for part in path.parts):  # what a compiler has written
        return False
    return not path.is_relative_to(STANDARD) and not {"site-packages", "dist-packages"} & set(path.parts)
