"""The results page says what the committed result files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_results_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "benchmarks/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
