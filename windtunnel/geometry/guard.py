"""An instrument that fails, or does not apply, says so and stops nothing.

Its accident is one line, with the place where it happened; the whole traceback goes to the logger `windtunnel`, which
is silent until somebody listens:

    logging.basicConfig()
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from windtunnel.errors import InputError
from windtunnel.geometry.measurement import Measurement, Missing

LOG = logging.getLogger("windtunnel")
LOG.addHandler(logging.NullHandler())  # without one, Python prints warnings that nobody asked for
PACKAGE, STANDARD = Path(__file__).parents[1], Path(os.__file__).parent
TYPED = ("<stdin>", "<ipython", "<python-input")  # code without a file that somebody wrote, unlike `<frozen …>`


def guarded(name: str, instrument: Callable, *arguments) -> list[Measurement | Missing]:
    """What an instrument says; whatever goes wrong inside it becomes one line."""
    try:
        return list(instrument(*arguments))
    except InputError as error:  # a refusal, in words meant for the user
        return [Missing(name, str(error))]
    except torch.cuda.OutOfMemoryError:
        reason = "ran out of GPU memory: ask for fewer episodes"
        LOG.warning("%s %s", name, reason, exc_info=True)
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        reason = f"failed: {type(error).__name__} in {_place(error)}: {first_line}"
        LOG.warning("%s %s", name, reason, exc_info=True)
    return [Missing(name, reason, broken=True)]


def _place(error: Exception) -> str:
    """File and line of the innermost call in this package or in the user's code: a line of PyTorch's tells nobody
    what to mend."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    ours = [found for found in frames if _ours(found[0]) and found[0] != __file__]
    file, line = (ours or frames)[-1]
    return f"{Path(file).name}:{line}"


def _ours(file: str) -> bool:
    """Is it in this package or the user's code, rather than Python's own or an installed library's?"""
    path = Path(file)
    if path.is_relative_to(PACKAGE):  # wherever it is installed
        return True
    if file.startswith("<"):
        return file.startswith(TYPED)
    return not path.is_relative_to(STANDARD) and not {"site-packages", "dist-packages"} & set(path.parts)
