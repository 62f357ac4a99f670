"""Standard output and standard error where they cannot be written to: closed, or on a disk that is full.

Results need standard output.  Standard error has messages only: where it is closed a command goes on without them, and
an error is told on standard output, so that it is told at all.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

from windtunnel.errors import InputError

NAMES = {"stderr": "standard error", "stdout": "standard output"}


def require_output() -> None:
    """Raise if standard output is closed.  Closed streams lead nowhere from here on."""
    no_output = sys.stdout is None
    if None in (sys.stdin, sys.stdout, sys.stderr):
        # The next files to be opened would get the free numbers 0 to 2, and what a library in C prints be in them.
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
        for name in NAMES:
            if getattr(sys, name) is None:
                setattr(sys, name, _nowhere())
    if no_output:
        raise InputError("standard output is closed: must be open; `> /dev/null` discards results")


def tell(line: str) -> None:
    """One line on standard error, or on standard output where that is closed or full, or nowhere if both are."""
    for name in NAMES:
        stream = getattr(sys, name)
        if getattr(stream, "name", "") == os.devnull:  # put there by this file: a stream of the shell has another name
            continue
        try:
            print(line, file=stream, flush=True)
            return
        except OSError:
            _silence(name)


def is_full(error: OSError) -> bool:
    """Is it about a stream or file, whichever it is, that takes no more?"""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def given_up() -> str:
    """The standard streams that take no more, in words; nothing where both do, or where that cannot be seen.  From here
    on they lead nowhere."""
    failing = []
    for name in NAMES:
        stream = getattr(sys, name)
        try:
            stream.flush()
            os.write(stream.fileno(), b"")  # what could not be written may be lost already, and nothing left to flush
        except OSError:
            failing.append(NAMES[name])
            _silence(name)
    return " and ".join(failing)


def _nowhere() -> TextIO:
    """It stays open for as long as the command runs."""
    return open(os.devnull, "w")


def _silence(name: str) -> None:
    nowhere = _nowhere()
    os.dup2(nowhere.fileno(), getattr(sys, name).fileno())  # Python flushes once more while it shuts down
    setattr(sys, name, nowhere)
