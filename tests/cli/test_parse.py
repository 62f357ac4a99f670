"""Options from dataclasses, and every mistake in one line."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from windtunnel import cli
from windtunnel.cli.pages import HelpShown
from windtunnel.cli.parse import allowed, given, parse
from windtunnel.errors import InputError


@dataclass(frozen=True)
class Inner:
    """Part of a form."""

    size_of_it: int = 3
    """A size."""


@dataclass(frozen=True)
class Form:
    """A form with a field of every kind."""

    rate: float
    """How fast."""
    count: int = 1
    """How many."""
    kind: Literal["plain", "paper"] = "plain"
    """Which sort."""
    band: tuple[float, float] | None = None
    """From, to."""
    json: bool = False
    """As JSON."""
    file: Path | None = None
    """Where."""
    inner: Inner = field(default_factory=Inner)


def test_a_filled_form():
    words = "--rate -0.5 --count=4 --kind paper --band 0.9 0.97 --json --file a.json --size-of-it 7"
    assert parse(Form, words.split(), "prog") == Form(-0.5, 4, "paper", (0.9, 0.97), True, Path("a.json"), Inner(7))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rate 1 --count x", "--count = 'x': must be a whole number"),
        ("--rate 1 --count=2.5", "--count = '2.5': must be a whole number"),
        ("--rate 1 --count", "--count has no value: must be a whole number"),
        ("--rate fast", "--rate = 'fast': must be a number"),
        ("--count 2", "--rate is missing: must be a number"),
        ("--rate 1 --kind nice", "--kind = 'nice': must be one of plain, paper"),
        ("--rate 1 --band 0.9", "--band = '0.9': must be two numbers"),
        ("--rate 1 --band 1 2 3", "--band = '1 2 3': must be two numbers"),
        ("--rate 1 --band a b --count 2", "--band = 'a b': must be two numbers"),
        ("--rate 1 --size_of_it big", "--size-of-it = 'big': must be a whole number"),
    ],
)
def test_a_wrong_value_names_option_value_and_what_is_allowed(words, message, capsys):
    with pytest.raises(InputError) as caught:
        parse(Form, words.split(), "prog")
    assert str(caught.value) == message
    assert capsys.readouterr() == ("", "")  # nothing of tyro's box


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(InputError) as caught:
        parse(Form, ["--rate", "1", "--cuont", "3"], "prog")
    known = "--rate, --count, --kind, --band, --json, --file, --size-of-it"
    assert str(caught.value) == f"unknown option '--cuont' (did you mean --count?): must be one of {known}"


@pytest.mark.parametrize("word", ["stray", "--json=3"])
def test_a_word_without_an_option(word):
    with pytest.raises(InputError, match=r"unexpected word '(stray|3)': must be one of the options --rate, --count"):
        parse(Form, ["--rate", "1", word], "prog")


def test_an_option_that_there_is_not_is_told_before_one_that_is_missing():
    with pytest.raises(InputError, match=r"^unknown option '--rat' \(did you mean --rate\?\): must be one of --rate, "):
        parse(Form, ["--rat", "1", "--count", "3"], "prog")
    with pytest.raises(InputError, match=r"^--rate has no value: must be a number$"):
        parse(Form, ["--rate", "--weird"], "prog")
    with pytest.raises(InputError, match=r"^--rate is missing: must be a number$"):
        parse(Form, ["--count", "3"], "prog")


def test_help_is_printed_and_leaves(capsys):
    with pytest.raises(HelpShown):
        parse(Form, ["--help"], "prog")
    shown = capsys.readouterr().out
    assert "A form with a field of every kind." in shown and "How many." in shown and "--size-of-it" in shown


def test_given():
    assert given(["--size_of_it=4"], "size_of_it") and given(["--size-of-it", "4"], "size_of_it")
    assert not given(["--size", "size_of_it"], "size_of_it")


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "a whole number"),
        (float | None, "a number"),
        (int | Literal["all"], "a whole number or one of all"),
        (tuple[float, float] | None, "two numbers"),
        (tuple[int, int, int], "three whole numbers"),
        (Path | None, "a path"),
        (dict, "a value"),
    ],
)
def test_allowed_in_words(hint, words):
    assert allowed(hint) == words


def test_what_a_help_page_says_of_an_option_is_one_line_of_source():
    """tyro keeps the line breaks of a field's docstring, wherever they fall on the page."""
    broken = []
    for file in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            for option, told in pairwise(node.body) if isinstance(node, ast.ClassDef) else ():
                if isinstance(option, ast.AnnAssign) and isinstance(told, ast.Expr) and told.lineno != told.end_lineno:
                    broken.append(f"{file.name}:{told.lineno}")
    assert broken == []
