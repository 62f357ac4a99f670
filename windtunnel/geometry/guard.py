"""An instrument that fails, or does not apply, says so and stops nothing.

Its accident is one line, with the place where it happened; the whole traceback goes to the logger `windtunnel`, which
is silent until somebody listens:

    logging.basicConfig()
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from windtunnel.accidents import accident
from windtunnel.errors import InputError
from windtunnel.geometry.measurement import Measurement, Missing

LOG = logging.getLogger("windtunnel")
LOG.addHandler(logging.NullHandler())  # without one, Python prints warnings that nobody asked for


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
        reason = f"failed: {accident(error)}"
        LOG.warning("%s %s", name, reason, exc_info=True)
    return [Missing(name, reason, broken=True)]
