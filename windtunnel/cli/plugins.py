"""Your own tunnels and architectures on the command line: `windtunnel --plugin MODULE COMMAND …`.

A plugin is any Python module, in the working folder or installed, that calls `windtunnel.tunnels.register` or
`windtunnel.models.register` when it is imported.  WINDTUNNEL_PLUGINS=MODULE,MODULE in the environment does the same.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from windtunnel.errors import InputError

FLAG, VARIABLE = "--plugin", "WINDTUNNEL_PLUGINS"


def taken_out(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The modules that `--plugin` names, wherever it stands, and the words without it."""
    modules, rest = [], []
    remaining = iter(words)
    for word in remaining:
        if word == FLAG:
            modules.append(next(remaining, ""))
        elif word.startswith(f"{FLAG}="):
            modules.append(word.removeprefix(f"{FLAG}="))
        else:
            rest.append(word)
    for module in modules:
        if not module or module.startswith("-"):
            raise InputError(f"{FLAG} has no value: must be the name of a Python module, as in {FLAG} my_models")
    return modules, rest


_named: list[str] = []  # by the command line that is being run


def named() -> list[str]:
    """The modules that `--plugin` named, for a command that tells what to type next; the environment's stay there."""
    return list(_named)


@contextmanager
def of_ones_own(kind: str) -> Iterator[None]:
    """A name that is none of the registered ones may be somebody's own, whose plugin was not named."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}; or a {kind} of your own, with {FLAG} MODULE") from None


def load(modules: Iterable[str]) -> None:
    """Import the modules, and those of the environment first.  One that cannot be imported is told in one line."""
    _named[:] = modules
    listed = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    named = [(name, f"{VARIABLE}={name}") for name in listed] + [(name, f"{FLAG} {name}") for name in _named]
    for name, typed in named:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # last: a file of the user's must not hide an installed package
        try:
            importlib.import_module(name)
        except InputError as error:  # as when a name is taken
            raise InputError(f"{typed}: {error}") from None
        except Exception as error:  # whatever a foreign module raises, the user is told in one line
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"{typed}: must be a Python module that can be imported ({why}){_hint(name)}") from error
        except SystemExit as error:  # a script that reads the command line as its own, or ends by itself
            why = "it ended the process" + f", with {error.code}" * (error.code is not None)
            raise InputError(f"{typed}: must be a Python module that can be imported ({why})") from None


def _hint(name: str) -> str:
    """For a module that was given as a file."""
    module = name.removesuffix(".py").removeprefix("./").replace("/", ".")
    usual = module != name and all(part.isidentifier() for part in module.split("."))
    return f"; name the module as it is imported: {module}" if usual else ""
