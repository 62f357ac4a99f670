"""An accident in an instrument: one line with its place, a traceback for those who listen, silence for the others."""

from __future__ import annotations

import logging
import re

import torch

from windtunnel.errors import InputError
from windtunnel.geometry import Missing
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.stats import linear_cka


def deep(*_: object) -> list:
    return [torch.nn.functional.linear(torch.ones(2), torch.ones(3, 3))]  # raised inside PyTorch


def ours(*_: object) -> list:
    return [linear_cka(None, None)]  # type: ignore[arg-type]  # raised inside the package


def memory(*_: object) -> list:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory")


def refused(*_: object) -> list:
    raise InputError("episodes = 1: must be at least 2")


def reason_of(instrument) -> str:
    (found,) = guarded("keys", instrument, 1)
    assert isinstance(found, Missing) and found.broken and "\n" not in found.reason
    return found.reason


def test_the_place_is_the_innermost_that_somebody_here_can_mend():
    line = deep.__code__.co_firstlineno + 1
    assert reason_of(deep).startswith(f"failed: RuntimeError in test_guard.py:{line}: ")
    assert re.match(r"failed: \w+ in stats\.py:\d+: ", reason_of(ours))
    assert re.match(r"failed: TypeError in guard\.py:\d+: ", reason_of(None))  # nothing of the user's was reached


def test_code_without_a_file_is_named_and_not_the_guard():
    """As `python -c` has it."""
    scope: dict = {}
    exec(compile("def typed(*_):\n    return [1 / 0]", "<string>", "exec"), scope)
    assert reason_of(scope["typed"]).startswith("failed: ZeroDivisionError in <string>:2: ")


def test_a_refusal_is_no_accident():
    assert guarded("keys", refused) == [Missing("keys", "episodes = 1: must be at least 2")]


def test_the_whole_traceback_is_logged_for_those_who_listen(caplog):
    reason_of(deep)
    assert "Traceback (most recent call last)" in caplog.text and "in deep" in caplog.text
    caplog.clear()
    assert reason_of(memory).startswith("ran out of GPU memory") and "in memory" in caplog.text
    caplog.clear()
    guarded("keys", refused)
    assert not caplog.records


def test_nobody_else_hears_of_it(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest listens too
    reason_of(deep)
    assert capsys.readouterr() == ("", "")
