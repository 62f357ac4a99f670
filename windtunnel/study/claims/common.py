"""What the families share: sources, the two HMM priors, the networks that are asked, and sentences about baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import Verdict, jointly

PAPER = "arXiv 2512.22471"
PRIORS = {
    "on the prior of the text, Dirichlet(1)": "home",
    "on the prior of the released code, not trained on": "released",
}
"""The paper's text says Dirichlet(1) rows; the released code floors and rounds them.  Our networks are trained on the
first and meet the second at the test.  Words -> condition."""
ONE_PRIOR = {"at K = 20": "home"}

BIJECTION, REPLACED, HMM, MAMBA, LSTM, RECALL = (
    "bijection-transformer",
    "bijection-replacement-transformer",
    "hmm-transformer",
    "hmm-mamba",
    "hmm-lstm",
    "recall-transformer",
)
"""Cells whose representations the paper speaks of, and those beside them."""
BINDING = ("bijection-replacement-mamba", "bijection-replacement-lstm")
RECURRENT = ("bijection-mamba", "bijection-lstm", *BINDING)
"""Those it does not speak of: recurrent networks off the HMM."""
HMM_CELLS = (HMM, MAMBA, LSTM, "hmm-mlp")
"""The architectures that the paper compares, at equal size and budget on the plain HMM."""

Reading = Callable[[str, str], Verdict]
"""(condition, words about it) -> verdict."""
Question = Callable[[Evidence, str], Verdict]
"""(evidence, cell) -> verdict: a test that can be put to any network."""


def on(conditions: Mapping[str, str], reading: Reading) -> Verdict:
    """A reading that must hold under every condition."""
    return jointly({words: reading(condition, words) for words, condition in conditions.items()})


def of(question: Question, cell: str) -> Callable[[Evidence], Verdict]:
    """The question put to one network."""
    return lambda evidence: question(evidence, cell)


def of_each(question: Question, *cells: str) -> dict[str, Callable[[Evidence], Verdict]]:
    """The same question to several networks: the `elsewhere` of a claim."""
    return {cell: of(question, cell) for cell in cells}


def for_scale(
    evidence: Evidence, world: str, metric: str, names: Iterable[str], conditions: Iterable[str]
) -> list[str]:
    """What baselines score on the same episodes, a sentence per condition; none where they were not measured."""
    sentences = []
    for condition in conditions:
        told = []
        for name in names:
            with suppress(NotMeasured):
                told.append(f"{name} {evidence.baseline(world, name, metric, condition):.3g}")
        sentences += [f"for scale ({metric}, {condition}): {', '.join(told)}"] if told else []
    return sentences
