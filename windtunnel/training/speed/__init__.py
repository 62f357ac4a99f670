"""How fast things are: rates, growth, the parts of a step, start-up, and the time to a given fidelity.

Needs torch only, so that it runs on a bare GPU image; `windtunnel bench` and `benchmarks/training.py` print what it
measures.
"""

from windtunnel.training.speed.bench import bench
from windtunnel.training.speed.plan import SECTIONS, Plan

__all__ = ["SECTIONS", "Plan", "bench"]
