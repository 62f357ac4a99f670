"""`windtunnel COMMAND TUNNEL …`: the tunnel is the first word, its fields are flags beside the command's own.

The flags come from a twin of the tunnel's dataclass that checks nothing: tyro fills the twin, then the tunnel itself is
made from its values, so that the tunnel's own one-line errors reach the user as they are.  The twin differs in what a
command line cannot say: `None` among choices is the word `none`, and matrices come from a file.
"""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import tyro

from windtunnel import models, tunnels
from windtunnel.cli.flags import shown
from windtunnel.cli.pages import HelpShown, listed, paragraphs
from windtunnel.cli.parse import given, leading, parse
from windtunnel.cli.plugins import of_ones_own
from windtunnel.errors import InputError, require
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.registry import in_words

Command = TypeVar("Command")

_MATRICES = ("transition", "emission")
_MATRICES_HELP = 'JSON file {"transition": [[…]], "emission": [[…]]}: one fixed chain, no header; it sets the sizes.'


def parse_tunnel(
    command: type[Command], name: str, words: Sequence[str], then: str = "", others: Collection[str] = ()
) -> tuple[Tunnel, Command]:
    """The tunnel and the options of `windtunnel NAME TUNNEL …`.  `command` is a dataclass of the command's options;
    `then` names what its users type between the tunnel and the options, for the help; `others` as in `parse`."""
    if words and words[0] in ("-h", "--help"):
        print(_help(command, name, then))
        raise HelpShown
    chosen, rest = leading(name, words, f"a tunnel, one of {', '.join(tunnels.names())}")
    with of_ones_own("tunnel"):
        cls = tunnels.get(chosen)
    twin = _twin(cls)
    names = _names(twin)
    for shared in set(_names(command)) & set(names):
        raise InputError(f"tunnel {chosen}: its field {shared!r} must be renamed, `{name}` has an option of that name")
    form = make_dataclass(command.__name__, [("tunnel", twin)], bases=(command,), kw_only=True, frozen=True)
    form.__doc__ = command.__doc__
    prog = f"windtunnel {name} {chosen} {then}".rstrip()
    options: Any = parse(form, rest, prog, others, elsewhere=_elsewhere())
    values = {option: getattr(options.tunnel, option) for option in names}
    for option, hint in get_type_hints(cls).items():
        if values.get(option) == "none" and types.NoneType in get_args(hint):
            values[option] = None
    if "matrices" in values:
        values |= _fixed_chain(values.pop("matrices"), values, rest)
    return cls(**values), options


def _elsewhere() -> dict[str, str]:
    """Options of tunnels -> the tunnels that have them."""
    owners: dict[str, list[str]] = {}
    for known in tunnels.names():
        for option in _names(tunnels.get(known)):
            owners.setdefault(option, []).append(known)
    return {option: " and ".join(names) for option, names in owners.items()}


def _names(cls: type) -> list[str]:
    return [option.name for option in fields(cast(Any, cls))]


def describe(tunnel: Tunnel) -> str:
    """The tunnel and its options on one line; what is None is left out, a matrix is only named."""
    values = {option: getattr(tunnel, option) for option in _names(type(tunnel))}
    told = [
        f"{name} {'fixed' if name in _MATRICES else value}"
        for name, value in values.items()
        if value is not None and value is not False
    ]
    return f"{tunnels.name_of(tunnel)}: {', '.join(told)}"


def brief(tunnel: Tunnel) -> str:
    """The same for a column of a table: what differs from its defaults."""
    return in_words(tunnel, fixed=_MATRICES)


def _help(command: type, name: str, then: str) -> str:
    """What `windtunnel NAME --help` says before a tunnel is named: which there are."""
    usage = " ".join(["usage: windtunnel", name, "TUNNEL", *then.split(), "[options]"])
    summaries = listed({known: tunnels.get(known).summary for known in tunnels.names()})
    kinds = ["", "Models", listed(models.summaries())] if then == "MODEL" else []
    last = paragraphs(f"windtunnel {name} TUNNEL --help lists the options, including the tunnel's own.")
    return "\n".join([usage, "", paragraphs(command.__doc__ or ""), "", "Tunnels", summaries, *kinds, "", last])


def _twin(cls: type[Tunnel]) -> type:
    """The tunnel's dataclass once more, as a form for tyro: no checks, and only types that flags can carry."""
    body: dict[str, Any] = {"__doc__": cls.summary, "__post_init__": lambda self: None, "__annotations__": {}}
    hints = get_type_hints(cls)
    for option in fields(cast(Any, cls)):
        hint = _as_flag(hints[option.name])
        if hint != hints[option.name]:
            body["__annotations__"][option.name] = hint
            if option.default is not MISSING:
                body[option.name] = option.default
    if {*_MATRICES} <= hints.keys():
        for matrix in _MATRICES:
            body["__annotations__"][matrix] = tyro.conf.Suppress[None]
            body[matrix] = None
        body["__annotations__"]["matrices"] = Annotated[Path | None, shown("FILE.json", help=_MATRICES_HELP)]
        body["matrices"] = None
    return dataclass(frozen=True)(type(cls.__name__, (cls,), body))


def _as_flag(hint: Any) -> Any:
    """`Literal[…] | None` as a choice with the word `none`; `tuple[…] | None` shown by its parts only."""
    inner = [argument for argument in get_args(hint) if argument is not types.NoneType]
    if get_origin(hint) not in (Union, types.UnionType) or len(inner) != 1:
        return hint
    if get_origin(inner[0]) is Literal:
        return Literal[(*get_args(inner[0]), "none")]  # type: ignore[valid-type]
    if get_origin(inner[0]) is tuple and all(part in (int, float) for part in get_args(inner[0])):
        return Annotated[hint, shown(" ".join(part.__name__.upper() for part in get_args(inner[0])))]
    return hint


def _fixed_chain(file: Path | None, values: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """What `--matrices FILE` sets: no header, the matrices, and the sizes they have."""
    if file is None:
        require(values["header"] is not None, "--header", "none", "rows or tokens unless --matrices FILE.json is given")
        return {}
    if given(words, "header"):
        require(values["header"] is None, "--header", values["header"], "none with --matrices")
    matrices = _read_matrices(file)
    sizes = {"states": len(matrices["transition"]), "symbols": len(matrices["emission"][0])}
    for name, size in sizes.items():
        require(not given(words, name) or values[name] == size, f"--{name}", values[name], f"{size}, as in {file}")
    return {"header": None, **matrices, **sizes}


def _read_matrices(file: Path) -> dict[str, list[list[float]]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--matrices {file}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # not JSON, or not text
        raise InputError(f"--matrices {file}: must be a JSON file ({error})") from None
    expected = f"a JSON object with the matrices {' and '.join(_MATRICES)}"
    if not isinstance(content, dict) or set(content) != set(_MATRICES):
        found = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise InputError(f"--matrices {file}: must hold {expected} (found {found})")
    for name, matrix in content.items():
        lists = isinstance(matrix, list) and matrix and all(isinstance(row, list) for row in matrix)
        numbers = lists and all(type(entry) in (int, float) for row in matrix for entry in row)
        if not numbers or len({len(row) for row in matrix}) != 1:
            raise InputError(f"--matrices {file}: {name} must be a list of rows of numbers, all of one length")
    return content
