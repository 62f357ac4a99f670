"""What went wrong inside somebody's code, in one line: which error, in which file and line, and what it said."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

PACKAGE, STANDARD = Path(__file__).parent, Path(os.__file__).parent
TYPED = ("<stdin>", "<ipython", "<python-input")  # code without a file that somebody wrote, unlike `<frozen …>`


def accident(error: BaseException) -> str:
    """The error where it was caught, e.g. `IndexError in mine.py:12: index out of range in self`."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__} in {_place(error)}: {first_line}".removesuffix(": ")


def _place(error: BaseException) -> str:
    """File and line of the innermost call in this package or in the user's code: a line of PyTorch's tells nobody
    what to mend.  The outermost is the one that caught the error, and is named only if there is no other."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    inner = frames[1:] or frames
    file, line = ([found for found in inner if _ours(found[0])] or inner)[-1]
    return f"{Path(file).name}:{line}"


def _ours(file: str) -> bool:
    """Is it in this package or the user's code, rather than Python's own or an installed library's?"""
    path = Path(file)
    if path.is_relative_to(PACKAGE):  # wherever it is installed
        return True
    if file.startswith("<"):
        return file.startswith(TYPED)
    return not path.is_relative_to(STANDARD) and not {"site-packages", "dist-packages"} & set(path.parts)
