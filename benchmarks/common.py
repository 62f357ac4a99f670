"""What every benchmark shares: options that are refused in one line, and results written whole or not at all.

    parser = Parser(description="…")
    parser.add_argument("--seeds", type=whole(1), default=5)
    parser.add_argument("--json", type=place, default=None)
    …
    run(main)

A mistake is told as the command line of windtunnel tells it: what was typed, what is allowed, exit code 2.  So is that
something did not compile, and was not measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import source_tree  # noqa: F401  first: windtunnel may have to be found

from windtunnel.errors import InputError
from windtunnel.models.compiled import CompilationFailed
from windtunnel.training.files import require_writable, write_json


def run(main: Callable[[], None]) -> None:
    """Run a benchmark as a command: a user's mistake, or what does not compile, is one line and exit code 2."""
    try:
        main()
    except (InputError, CompilationFailed) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


class Parser(argparse.ArgumentParser):
    """An argument parser whose refusals are `InputError`s; the parsers of its subcommands are of the same kind."""

    def error(self, message: str) -> NoReturn:
        line = message.removeprefix("argument ").replace(": = ", " = ", 1)  # `argument --seeds: = 'x': must be …`
        told = any(part in line for part in ("must be", "choose from", "cannot be written"))
        raise InputError(line if told else f"{line}: must be as `{self.prog} --help` tells")


def whole(low: int) -> Callable[[str], int]:
    """For `type=`: a whole number of at least `low`."""

    def read(text: str) -> int:
        with suppress(ValueError):
            if (value := int(text)) >= low:
                return value
        raise _refused(text, f"a whole number of at least {low}")

    return read


def wholes(low: int) -> Callable[[str], tuple[int, ...]]:
    """For `type=`: such numbers, separated by commas."""

    def read(text: str) -> tuple[int, ...]:
        return tuple(map(whole(low), text.split(",")))

    return read


def positive(text: str) -> float:
    """For `type=`: a number above 0."""
    with suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise _refused(text, "a number above 0")


def place(text: str) -> Path:
    """For `type=`: a file that can be written, which is tried at once and not after an hour of measuring."""
    try:
        require_writable(Path(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def _refused(text: str, allowed: str) -> argparse.ArgumentTypeError:
    """What argparse expects from a `type=`; it puts the name of the option before it."""
    return argparse.ArgumentTypeError(f"= {text!r}: must be {allowed}")


def save(path: Path | None, result: dict) -> None:
    """Write a JSON result atomically; nothing if no path was asked for."""
    if path is not None:
        write_json(path, result)
