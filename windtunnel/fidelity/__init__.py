"""Fidelity: a predictor against the exact belief, in bits, with an interval that says what it is over."""

from windtunnel.fidelity.baselines import baselines
from windtunnel.fidelity.evaluate import evaluate, evaluate_all, evaluate_parts
from windtunnel.fidelity.intervals import Estimate
from windtunnel.fidelity.predictor import Predictor
from windtunnel.fidelity.score import Score
from windtunnel.fidelity.window import equivalent_window

__all__ = [
    "Estimate",
    "Predictor",
    "Score",
    "baselines",
    "equivalent_window",
    "evaluate",
    "evaluate_all",
    "evaluate_parts",
]
