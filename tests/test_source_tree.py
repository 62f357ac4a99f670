"""The scripts of benchmarks/ run from the tree, on a machine where windtunnel is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = (
    "import sys, runpy; sys.path[:] = {path!r}; sys.argv = ['x', '--help'];"
    " runpy.run_path({script!r}, run_name='__main__')"
)


@pytest.mark.parametrize("script", ["reach", "records", "sitting", "gpu_tests", "sampling"])
def test_a_benchmark_finds_the_tree_that_it_belongs_to(script, tmp_path):
    others = [path for path in sys.path if Path(path or ".").resolve() != ROOT and "benchmarks" not in path]
    code = HIDDEN.format(path=[str(ROOT / "benchmarks"), *others], script=str(ROOT / "benchmarks" / f"{script}.py"))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout, done.stderr
