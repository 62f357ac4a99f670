"""The examples in docstrings show what really comes out."""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAKING = ROOT / "docs" / "making"
sys.path.insert(0, str(MAKING))


def with_examples(folder: Path, root: Path) -> list[str]:
    """The modules under a folder that have any, by their names from the root."""
    files = [path for path in sorted(folder.rglob("*.py")) if ">>> " in path.read_text()]
    return [".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in files]


@pytest.mark.parametrize("name", [*with_examples(ROOT / "windtunnel", ROOT), *with_examples(MAKING, MAKING)])
def test_the_examples_of_a_module_are_true(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as lacking:  # on a bare image the page and the command line cannot be imported
        if str(lacking.name).startswith("windtunnel"):
            raise
        pytest.skip(f"{lacking.name} is not installed")
    found = doctest.testmod(module)
    assert found.failed == 0  # what went wrong is in the output that pytest shows
    assert found.attempted == Path(module.__file__ or "").read_text().count(">>> ")  # none is where nobody looks for it
