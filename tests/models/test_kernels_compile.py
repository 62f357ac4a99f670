"""A GPU's compiler takes the Triton kernels, down to machine code: no GPU is needed to ask it.

The interpreter, in which they are tested elsewhere without a GPU, runs much that no compiler takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = 227 * 1024  # bytes that a block may have on a Hopper GPU; with more, a kernel compiles and cannot be launched


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_every_kernel_compiles_for_a_gpu(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)  # what an earlier compilation left must not answer for this one
    command = [sys.executable, "-m", "tests.models.hopper"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made and all(made.values()), made  # each was launched, and compiled
    assert max(map(max, made.values())) <= SHARED, made
