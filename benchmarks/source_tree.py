"""Benchmarks run from the tree where windtunnel is not installed, as on the bare image of a rented GPU."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

found = find_spec("windtunnel")
if found is None or found.origin is None:  # the latter: a folder of that name without the package in it
    sys.path.append(str(Path(__file__).resolve().parent.parent))
