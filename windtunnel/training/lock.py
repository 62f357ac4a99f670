"""A folder has one writer at a time.  Its lock dies with the process that holds it, however that dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from windtunnel.errors import InputError
from windtunnel.training.files import unwritable


@contextmanager
def locked(folder: Path, only: str | None = None) -> Iterator[None]:
    """Hold a folder for writing; a second writer is refused.

    only  hold no more than this file of it, by a lock of its own: who writes the rest is not in the way
    """
    lock = folder / ("lock" if only is None else Path(only).with_suffix(".lock"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(lock, "a+")  # noqa: SIM115
    except OSError as error:
        if only is not None:
            raise unwritable(folder / only, 0, error) from None
        why = "there is a file of that name" if isinstance(error, FileExistsError) else error.strerror
        raise InputError(f"{folder}: must be a folder that can be written to ({why})") from None
    with file:
        if not _taken(file):
            file.seek(0)
            owner = file.read().strip() or "unknown"
            what = f"{folder}: another process (pid {owner}) is writing this run"
            if only is not None:
                what = f"{folder / only}: another process (pid {owner}) is writing it"
            raise InputError(f"{what}; wait for it to end") from None
        with contextlib.suppress(OSError):  # a full disk is told by the writing that matters
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())
        yield


def _taken(file: IO[str]) -> bool:
    """Take the lock; False if another process keeps it.  Tried for a tenth of a second, because `is_locked` of another
    process holds the lock, too, for the moment in which it looks."""
    for _ in range(5):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def is_locked(folder: Path) -> bool:
    """Is a process writing this folder right now?  False where that cannot be seen."""
    try:
        with open(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
