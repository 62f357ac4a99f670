"""The digest of one's own code changes with what it computes, and not with how it is written down."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path

import pytest
from torch import nn

import windtunnel as wt
from windtunnel.models import registry as models
from windtunnel.own_code import code_digest
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.presets import plan_for

FILES = {
    "mine/__init__.py": '"""What I made."""\n',
    "mine/nets.py": '''
"""My networks."""
import functools
from .beside import halved
import windtunnel, torch

class Net:
    """Half of it."""

    def forward(self, x):
        return halved(x)  # and no more

class Other:
    width = 4

made = lambda tunnel: Net()
part = functools.partial(Net, width=32)
''',
    "mine/beside.py": "def halved(x):\n    from lazy.far import TWO\n    return x / TWO\n",
    "lazy/far.py": "try:\n    from nowhere import TWO\nexcept ImportError:\n    from . import TWO\n",
    "lazy/__init__.py": "TWO = 2\n",
    "stranger.py": "THREE = 3\n",
}


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """The digest of a name in mine/nets.py, after `old` in one of the files was written over by `new`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(name: str = "Net", where: str = "stranger.py", old: str = "", new: str = "") -> str | None:
        assert old in FILES[where]
        for file, text in (FILES | {where: FILES[where].replace(old, new, 1)}).items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text)
        forget()
        importlib.invalidate_caches()
        return code_digest(getattr(importlib.import_module("mine.nets"), name))

    def forget() -> None:
        for module in ("mine", "mine.nets", "mine.beside"):
            sys.modules.pop(module, None)

    yield of
    forget()


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("mine/nets.py", '"""My networks."""', "# mine"),
        ("mine/nets.py", '    """Half of it."""\n', ""),
        ("mine/nets.py", "    width = 4", '    """With a docstring now."""\n\n    width = (\n        4)'),
        ("mine/nets.py", "  # and no more", ""),
        ("mine/beside.py", "def", "# nothing\ndef"),
        ("mine/__init__.py", "What I made", "What they made"),
        ("stranger.py", "THREE = 3", "THREE = 4"),  # nobody imports it
    ],
)
def test_what_computes_nothing_leaves_it_as_it_is(digest, where, old, new):
    assert digest() == digest("Net", where, old, new) is not None


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("mine/nets.py", "halved(x)", "-halved(x)"),
        ("mine/nets.py", "width = 4", "width = 5"),  # whatever else its file holds
        ("mine/beside.py", "x / TWO", "TWO / x"),
        ("mine/__init__.py", "", "import stranger\n"),
        ("lazy/far.py", "from . import TWO", "TWO = 2"),  # not imported before it is called
        ("lazy/__init__.py", "TWO = 2", "TWO = 3"),
    ],
)
@pytest.mark.parametrize("name", ["Net", "made", "part"])
def test_what_may_compute_something_else_changes_it(digest, name, where, old, new):
    assert digest(name) != digest(name, where, old, new) is not None


def test_the_arguments_of_a_partial_count_but_no_address_in_memory(digest):
    assert digest("part") != digest("Net") and digest("part") != digest("part", "mine/nets.py", "=32", "=33")
    one, two = (functools.partial(nn.Linear, device=object()) for _ in range(2))
    assert code_digest(one) == code_digest(two) is not None


def test_what_cannot_be_read_can_be_registered(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_bytes(b"\xff no longer Python (")
    for name, file in (("prompt", None), ("gone", "gone.py"), ("broken", str(tmp_path / "broken.py"))):
        module = type(sys)(name)
        module.__file__ = file
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("prompt", "gone", "broken", "nowhere"):
        exec("def factory(tunnel):\n    return 1", typed := {"__name__": name})
        wt.models.register("unread", typed["factory"])
        assert models.code_of("unread") is None
        wt.models.unregister("unread")


def test_ours_is_described_as_it_was_committed():
    """No word of code, and all else as in the records."""
    plan, study = plan_for("paper"), StudyFolder(Path(__file__).resolve().parents[1] / "results" / "paper")
    for cell in plan.cells:
        assert "code" not in plan.describe(cell)
        if study.finished(cell.name):
            assert study.cell(cell.name)["planned"] == plan.describe(cell)


def test_examples_and_installed_code_have_a_digest():
    from examples.new_architecture import RunningMean
    from examples.new_tunnel import Coins

    found = [code_digest(thing) for thing in (RunningMean, Coins, nn.GRU)]
    assert None not in found and len(set(found)) == 3
