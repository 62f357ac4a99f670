"""Options from a dataclass, by tyro; and any mistake in them as one line.

tyro reads the fields of a dataclass as flags and their docstrings as help.  When it refuses an option it draws a box
of several lines and exits with code 2.  Here that box is caught and read for one thing only: which option was wrong.
The line the user sees is written from what we know ourselves (the words typed, the type of the field), so it does not
depend on tyro's wording; nothing private of tyro is used.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro

from windtunnel.cli.pages import HelpShown, paragraphs
from windtunnel.errors import InputError, did_you_mean, unknown

Form = TypeVar("Form")

_STYLE = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)  # nested fields stay flat; --json has no --no-json
LISTED = 120  # letters of all options together that one line can hold
MOST = 10**12  # the largest whole number that any option takes
_ABOUT = "(about)"  # where the description will stand


class _Page(io.StringIO):
    """Text on its way to standard output, which tyro may dress accordingly."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.__stdout__, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def parse(
    form: type[Form],
    words: Sequence[str],
    prog: str,
    others: Collection[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Form:
    """An instance of the dataclass `form`, filled from the command line.  --help prints, and raises `HelpShown`.

    others     names that are no flags, but that its flag --option takes: whoever types one as a flag is told
    elsewhere  names that are flags of something else -> of what
    """
    if flag := _without_value(words):
        raise InputError(f"{flag} has no value: must be {allowed(_flags(form).get(flag, str))}")
    box, page = io.StringIO(), _Page()
    settings: Any = {"prog": prog, "description": _ABOUT, "config": _STYLE, "return_unknown_args": True}
    try:
        with contextlib.redirect_stderr(box), contextlib.redirect_stdout(page):
            filled, strangers = tyro.cli(form, args=words, **settings)
    except SystemExit as stop:
        if stop.code in (None, 0):
            # tyro writes usage and description on one line each, however long that gets.
            rest = page.getvalue().split("\n", 1)[1].replace(_ABOUT, paragraphs(form.__doc__ or ""))
            print(f"usage: {prog} [options]\n{rest}", end="")
            raise HelpShown from None
        wrong, strange = _at_fault(form, box.getvalue()), _strange(words, form)
        if wrong and not given(words, wrong.lstrip("-")) and strange:  # perhaps a slip for the option that is missing
            raise InputError(_why_strange(form, strange, words, prog, others, elsewhere)) from None
        raise InputError(_what_is_wrong(form, words, box.getvalue())) from None
    if box.getvalue():  # a warning; not even nothing can be written where a disk is full
        sys.stderr.write(box.getvalue())
    for flag, hint in _flags(form).items():
        if get_origin(hint) is tuple and given(words, flag.lstrip("-")) and not _typed(words, flag).strip(", "):
            raise InputError(f"{flag} has no value: must be {allowed(hint)}")  # to tyro none at all is some
    if strangers:
        raise InputError(_why_strange(form, strangers, words, prog, others, elsewhere))
    _require_sizes(filled)
    return filled


_FOLDERS = {
    "RUN": "the folder of a run, such as runs/first",
    "RUN|NETWORK": "the folder of a run, such as runs/first, or the name of a shipped network, such as hmm-transformer",
    "STUDY": "the folder of a study, such as results/scratch/quick",
    "DIR": "a folder with runs or results in it, such as runs",
}


def leading(name: str, words: Sequence[str], what: str) -> tuple[str, list[str]]:
    """The word that has to come next in `windtunnel NAME …`, and what follows it; an option or nothing is refused."""
    word, *rest = words or [""]
    if not word.strip() or word.startswith("-"):
        raise InputError(f"{name} must be followed by {what}" + f" (found {word!r})" * bool(word))
    return word, rest


def parse_folder(form: type[Form], name: str, words: Sequence[str], what: str) -> tuple[Path, Form]:
    """The folder and the options of `windtunnel NAME FOLDER …`; `what` names the folder in the help."""
    prog = f"windtunnel {name} {what}"
    if words and words[0] in ("-h", "--help"):
        parse(form, ["--help"], prog)
    folder, rest = leading(name, words, _FOLDERS[what])
    return Path(folder), parse(form, rest, prog)


def given(words: Sequence[str], field: str) -> bool:
    """Was the option of this field typed, rather than left at its default?"""
    return any(_flag(word.split("=")[0].lstrip("-")) == _flag(field) for word in words if word.startswith("--"))


def allowed(hint: Any) -> str:
    """What a value of this type must be, in words.

    >>> allowed(tuple[float, float] | None)
    'two numbers'
    """
    arguments = [argument for argument in get_args(hint) if argument is not types.NoneType]
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(allowed, arguments))
    if get_origin(hint) is tuple and Ellipsis in arguments:
        return f"{allowed(arguments[0])} or several"
    if get_origin(hint) is tuple and len(set(arguments)) == 1:
        count = {2: "two", 3: "three"}.get(len(arguments), str(len(arguments)))
        return f"{count} {_PLURAL.get(arguments[0], 'values')}"
    return _SINGULAR.get(hint, "a value")


_SINGULAR = {int: "a whole number", float: "a number", str: "a word", Path: "a path", bool: "given without a value"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "words", Path: "paths"}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flags(form: type) -> dict[str, Any]:
    """Flag -> type, for every field of a dataclass and of the dataclasses in it.  A field of type None is no flag."""
    hints = get_type_hints(form)
    found: dict[str, Any] = {}
    for option in fields(form):
        hint = hints[option.name]
        if hint is not types.NoneType:
            found |= _flags(hint) if is_dataclass(hint) else {_flag(option.name): hint}  # type: ignore[arg-type]
    return found


def _text(box: str) -> str:
    """What tyro's box says, without the box."""
    return re.sub(r"\x1b\[[0-9;]*m|[─│╭╮╰╯]", " ", box)


def _at_fault(form: type, box: str) -> str:
    """The option that tyro's box names; nothing where it names none of the form's."""
    named = re.search(r"--[\w.-]*\w", _text(box))
    return named.group() if named and named.group() in _flags(form) else ""


def _what_is_wrong(form: type, words: Sequence[str], box: str) -> str:
    """One line for the option that tyro's box names: the option, the value typed, what is allowed."""
    flag = _at_fault(form, box)
    if not flag:
        return " ".join(_text(box).split())  # a box we cannot read: all of it, on one line
    must = allowed(_flags(form)[flag])
    if not given(words, flag.lstrip("-")):
        return f"{flag} is missing: must be {must}"
    typed = _typed(words, flag)
    return f"{flag} = {typed!r}: must be {must}" if typed else f"{flag} has no value: must be {must}"


def _strange(words: Sequence[str], form: type) -> list[str]:
    """The words from the first flag on that is none of the form's; nothing where there is no such flag."""
    known = _flags(form)
    flags = [_flag(word.partition("=")[0][2:]) if word.startswith("--") else "" for word in words]
    first = next((place for place, flag in enumerate(flags) if flag and flag not in known), len(words))
    return list(words[first:])


def _why_strange(
    form: type,
    strangers: Sequence[str],
    words: Sequence[str],
    prog: str,
    others: Collection[str],
    elsewhere: Mapping[str, str] | None,
) -> str:
    """One line for the first of some words that are no option, nor the value of one."""
    known = _is_an_option(strangers, others) or _is_split(strangers, words)
    return known or _what_is_unknown(form, strangers[0], prog) + _owner(strangers[0], elsewhere)


def _without_value(words: Sequence[str]) -> str:
    """The option that was given an empty word, as in `--out ""`; otherwise nothing."""
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            if equals and not value:
                return _flag(flag.lstrip("-"))
        elif not word and flag:
            return _flag(flag.lstrip("-"))
    return ""


def _require_sizes(filled: Any) -> None:
    """Raise at a whole number that no machine has room or time for; what follows might not say so in one line."""
    for option in fields(filled):
        value = getattr(filled, option.name)
        if is_dataclass(value):
            _require_sizes(value)
        elif isinstance(value, int) and abs(value) > MOST:
            raise InputError(f"{_flag(option.name)} = {value}: must be at most {MOST:.0e} in size")


def _typed(words: Sequence[str], flag: str) -> str:
    """The value words that follow the last use of a flag."""
    value: list[str] = []
    inside = False
    for word in words:
        if word.startswith("--"):
            inside = given([word], flag.lstrip("-"))
            if inside:
                value = word.split("=", 1)[1:]
        elif inside:
            value.append(word)
    return " ".join(value)


def _is_an_option(strangers: Sequence[str], others: Collection[str]) -> str:
    """The line for a flag that has to be given by --option, as it would be typed; otherwise nothing."""
    flag, equals, value = strangers[0].partition("=")
    name = flag.removeprefix("--").replace("-", "_")
    if not flag.startswith("--") or name not in others:
        return ""
    if not equals and len(strangers) > 1 and not strangers[1].startswith("--"):
        value = strangers[1]
    return f"unknown option {flag!r}: must be `--option {name}={value or '…'}`, as it is an option of the model"


def _owner(word: str, elsewhere: Mapping[str, str] | None) -> str:
    """What has an option of this name, to be told at the end of a line; otherwise nothing."""
    flag = word.partition("=")[0]
    name = flag.removeprefix("--").replace("-", "_")
    return (
        f"; {flag} is an option of {elsewhere[name]}"
        if elsewhere and flag.startswith("--") and name in elsewhere
        else ""
    )


def _is_split(strangers: Sequence[str], words: Sequence[str]) -> str:
    """The line for a list with a blank in it, `--only keys, heads`; otherwise nothing."""
    place = list(words).index(strangers[0]) if strangers[0] in words else 0
    if place == 0 or not words[place - 1].endswith(",") or strangers[0].startswith("-"):
        return ""
    whole = words[place - 1] + strangers[0]
    return f"unexpected word {strangers[0]!r}: must follow the comma without a space, as in {whole}"


def _what_is_unknown(form: type, word: str, prog: str) -> str:
    """One line for what is no option: all that there are, or where they are too many the command that lists them."""
    flags, word = list(_flags(form)), word.split("=")[0]
    if len(", ".join(flags)) > LISTED:
        page = " ".join(part for part in prog.split() if not part.isupper())  # without RUN, MODEL …
        what = "unknown option" if word.startswith("-") else "unexpected word"
        return f"{what} {word!r}{did_you_mean(word, flags)}: must be an option that `{page} --help` lists"
    if not word.startswith("-"):
        return f"unexpected word {word!r}: must be one of the options {', '.join(flags)}"
    return unknown("option", word, flags)
