"""What a JSON file must hold, and the one line for what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.errors import InputError
from windtunnel.study.folder.kinds import NUMBER, Maybe, OrNull, Told, require_shape


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ({"a": str}, [], "holds []: must be an object with a"),
        ({"a": str}, {}, "a is missing: must be text"),
        ({"a": str}, {"a": 1}, "a = 1: must be text"),
        ({"a": int}, {"a": True}, "a = True: must be a whole number"),
        ({"a": [str]}, {"a": ["b", 2]}, "a[1] = 2: must be text"),
        ({"a": ("x", "y")}, {"a": "z"}, "a = 'z': must be one of x, y"),
        ({"a": {...: NUMBER}}, {"a": {"b": "many"}}, "a.b = 'many': must be a number, null or \"inf\""),
        ({"a": {"b": str, ...: int}}, {"a": {"b": "", "c": "d"}}, "a.c = 'd': must be a whole number"),
        ({"a": OrNull([str])}, {}, "a is missing: must be a list"),
        ({"a": Told({"b": str})}, {"a": {"missing": 3}}, "a.b is missing: must be text"),
    ],
)
def test_the_line_names_the_field_and_what_it_must_be(kind, content, line):
    with pytest.raises(InputError) as told:
        require_shape(Path("some.json"), content, kind)
    assert str(told.value) == f"some.json: {line}"


def test_what_may_be_absent_or_more_is_fine():
    kind = {"a": Maybe(str), "b": OrNull(int), "c": Told({"d": int}), "e": NUMBER}
    require_shape(Path("x"), {"b": None, "c": {"missing": "why"}, "e": "inf", "more": []}, kind)
    require_shape(Path("x"), {"a": "", "b": 1, "c": {"d": 2}, "e": None}, kind)
