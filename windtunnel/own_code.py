"""Which code a model or a world of one's own is: a digest that changes when what it computes may have.

Results are kept under a name, and a name stays while the code behind it is worked on.  Names alone would show the
numbers of last week's network as those of today's.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def code_digest(made_by: Callable[..., Any]) -> str | None:
    """SHA-256 of the code of a function or class, as its files are now; None where none can be read, as at a prompt.

    Into it go the arguments of a partial, the whole file, and every file beside it or in its package that it imports,
    directly or through others; not what is imported from elsewhere.  Comments, docstrings and layout do not count.  All
    else in these files does: to train once too often is better than to show an old number under new code.

    >>> code_digest(len) is None, code_digest(code_digest) is None
    (True, False)
    """
    try:
        return hashlib.sha256("\n\n".join(_parts(made_by)).encode()).hexdigest()
    except Exception:  # whatever kind of thing it is and wherever it comes from: it can be registered all the same
        return None


def _parts(made_by: Any) -> Iterator[str]:
    while isinstance(made_by, functools.partial):
        yield re.sub(" at 0x[0-9a-f]+", "", repr((made_by.args, sorted(made_by.keywords.items()))))
        made_by = made_by.func
    module = sys.modules[made_by.__module__]
    found, left = dict[Path, str](), [Path(module.__file__ or "")]
    package = module.__package__ or ""
    folder = left[0].parents[package.count(".") + 1 if package else 0]
    while left:
        if (file := left.pop()) not in found:
            tree = ast.parse(file.read_bytes())
            if not {"site-packages", "dist-packages"} & set(file.parts):
                left += filter(Path.is_file, _imported(tree, file, folder))
            found[file] = ast.unparse(_Bare().visit(tree))
    yield from (text for _, text in sorted(found.items()))


class _Bare(ast.NodeTransformer):
    """Without docstrings and other statements that are a constant: they do nothing."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node


def _imported(tree: ast.Module, file: Path, folder: Path) -> Iterator[Path]:
    """Where the imports of a file would lie in the folder: those of `a.b` at a.py or a/b.py, or in an __init__.py."""
    for node in ast.walk(tree):
        place, names = folder, []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            place = file.parents[node.level - 1] if node.level else folder
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
        for words in (name.split(".") for name in names if name.partition(".")[0] != "windtunnel"):
            for i, word in enumerate(words):
                inside = place.joinpath(*words[:i])
                yield from (inside / "__init__.py", inside / f"{word}.py", inside / word / "__init__.py")
