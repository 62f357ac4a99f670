"""Turns on a card that several processes share: whoever holds the turn steps, the others build, score or wait.

Two trainings at once would not be faster (seeds of one already run side by side), and neither could tell what it took.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait for a turn, and hold it.  It ends with the process, however that ends."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
