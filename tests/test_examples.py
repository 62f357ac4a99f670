"""Every script in examples/ and the Python blocks of the pages run to the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(*arguments: str | Path, cwd: Path) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    assert run(script, cwd=tmp_path).strip(), "an example prints what it found"


def test_there_is_a_quickstart():
    assert "quickstart" in {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("page", ["README.md", "docs/instruments.md"])
def test_python_of_a_page_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    assert run("-c", "\n".join(blocks), cwd=tmp_path).strip()  # one after the other, as a reader would
