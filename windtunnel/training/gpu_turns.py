"""Turns on a card that several processes share: whoever holds a turn steps, the others build, score or wait.

One turn at a time is for measurements: of two trainings at once neither could tell what it takes.  Where only the end
counts, a few at once finish a little sooner, because what one leaves of the card another can use.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

LOOK_S = 0.05  # between two looks whether one of several turns has become free


@contextmanager
def turn(path: Path, at_once: int = 1) -> Iterator[None]:
    """Wait for a turn, and hold it.  It ends with the process, however that ends.

    at_once  how many may hold one; all who share a path must say the same
    """
    with ExitStack() as held:
        if at_once == 1:
            fcntl.flock(held.enter_context(open(path, "a")), fcntl.LOCK_EX)
        else:
            places = [held.enter_context(open(f"{path}-{place}", "a")) for place in range(at_once)]
            while not any(map(_taken, places)):
                time.sleep(LOOK_S)
        yield


def _taken(place: TextIO) -> bool:
    """Take it if it is free."""
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
