"""What the families share: sources, the two HMM priors, and sentences about baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, jointly

PAPER = "arXiv 2512.22471"
PRIORS = {
    "on the prior of the text, Dirichlet(1)": "home",
    "on the prior of the released code, not trained on": "released",
}
"""The paper's text says Dirichlet(1) rows; the released code floors and rounds them.  Our networks are trained on the
first and meet the second at the test.  Words -> condition."""
ONE_PRIOR = {"at K = 20": "home"}

HMM_CELLS = ("hmm-transformer", "hmm-mamba", "hmm-lstm", "hmm-mlp")
"""The architectures at equal size and budget on the plain HMM."""

Reading = Callable[[str, str], Verdict]
"""(condition, words about it) -> verdict."""


def on(conditions: Mapping[str, str], reading: Reading) -> Verdict:
    """A reading that must hold under every condition."""
    return jointly({words: reading(condition, words) for words, condition in conditions.items()})


def beside(evidence: Evidence, world: str, metric: str, *names: str, condition: str = "home") -> str:
    """What baselines score on the same episodes, in a sentence; empty where they were not measured."""
    told = []
    for name in names:
        try:
            told.append(f"{name} {evidence.baseline(world, name, metric, condition):.3g}")
        except NotMeasured:
            continue
    return f"for scale ({metric}, {condition}): " + ", ".join(told) if told else ""


def less(quantity: Quantity, amount: float) -> Quantity:
    """The quantity less a known number."""
    values = tuple(value - amount for value in quantity.values)
    return replace(
        quantity, mean=quantity.mean - amount, low=quantity.low - amount, high=quantity.high - amount, values=values
    )


def per_seed(evidence: Evidence, cell: str, metric: str) -> np.ndarray:
    """A metric at home, one value per seed."""
    found = evidence.score(cell, metric)
    return np.array(found.values or (found.mean,))
