"""What the values and the last layer are said to look like: one direction, ordered by entropy, or collapsed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import (
    BIJECTION,
    BINDING,
    HMM,
    LSTM,
    MAMBA,
    PAPER,
    RECURRENT,
    REPLACED,
    Question,
    of,
    of_each,
)
from windtunnel.study.claims.nulls import beside_nulls, beyond_nulls, reading, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import INCONCLUSIVE, NOT, REPRODUCED, Verdict, held, otherwise, qualified

STACKED = {"for the stacked LSTM without skips, with the paper's optimiser": "hmm-lstm-stacked"}
ALONE, AFTER = "entropy, position ignored, PC1", "entropy after position, PC1"
DECODED = "entropy decoded, R²"
WHOLE_LAYER = "what a linear map reads from the whole layer"
UNDEFINED = "the paper does not define its R², published beside PC1's share"
ORDERED = 0.5  # a direction is ordered by what explains half of it


def one_direction(evidence: Evidence, cell: str) -> Verdict:
    """One component carries 84% of the values' variance."""
    told = f"{cell}, PC1 share of the last layer's values"
    return reading(evidence, cell, "PC1 share", "above", 0.84, told, stream="values")


def ordered(evidence: Evidence, cell: str) -> Verdict:
    """Entropy explains half of the first component; and half of what position leaves of it, beyond the nulls.

    Where position fixes the entropy the instrument says that this is not identifiable, and so does the verdict.
    """
    require_learned(evidence, cell)
    stream = "values" if evidence.cell(cell)["model"] == "transformer" else "residual"
    told = f"{cell}, share of PC1 of the {stream} that entropy explains"
    left = held(
        evidence.record(cell, AFTER, stream=stream), "above", ORDERED, f"{told}, once position is regressed out"
    )
    controls = {"without the position control": left} | beyond_nulls(evidence, cell, AFTER, stream=stream)
    return qualified(held(evidence.record(cell, ALONE, stream=stream), "above", ORDERED, told), controls)


def of_lstm(read: Question) -> Callable[[Evidence], Verdict]:
    """A reading of the LSTM's last layer: the residual LSTM's, else that of the stack that is published.

    The stack has not learned its task, neither the paper's nor ours, so nothing of the kind is asked of it: whether the
    reading has anything to do with training its nulls must tell.
    """

    def test(evidence: Evidence) -> Verdict:
        others, untold = {}, []
        for words, cell in STACKED.items():
            try:
                others[words] = read(evidence, cell)
            except NotMeasured as missing:
                untold.append(str(missing))
        return otherwise(read(evidence, LSTM), others).because(*untold)

    return test


def collapsed(evidence: Evidence, cell: str) -> Verdict:
    """One direction carries 90% of the last layer's variance."""
    told = f"PC1 share of {cell}'s last layer"
    return _asked(cell)(evidence, cell, "PC1 share", "above", 0.90, told, stream="residual")


def without_entropy(evidence: Evidence, cell: str) -> Verdict:
    """The first component does not follow entropy; nor, where that was measured, can a map of all components read it.

    No null: that an untrained network lacks it too proves nothing.
    """
    if cell not in STACKED.values():
        require_learned(evidence, cell)
    primary = held(evidence.record(cell, ALONE, stream="residual"), "below", 0.05, _first(cell))
    try:
        whole = held(evidence.record(cell, DECODED, stream="residual"), "below", 0.05, _decoded(cell))
    except NotMeasured:
        return _open(primary, REPRODUCED, cell)
    return qualified(primary, {f"for its first component, not for {WHOLE_LAYER}": whole})


def spread(evidence: Evidence, cell: str) -> Verdict:
    """The last layer spreads over several directions."""
    return reading(evidence, cell, "PC1 share", "below", 0.25, f"PC1 share of {cell}'s last layer", stream="residual")


def with_entropy(evidence: Evidence, cell: str) -> Verdict:
    """The first component follows entropy as well as published; else, where that was measured, all of them together."""
    primary = reading(evidence, cell, ALONE, "above", 0.40, _first(cell), stream="residual")
    try:
        whole = reading(evidence, cell, DECODED, "above", 0.40, _decoded(cell), stream="residual")
    except NotMeasured:
        return _open(primary, NOT, cell)
    return otherwise(primary, {f"for {WHOLE_LAYER}, not for its first component": whole})


def _first(cell: str) -> str:
    return f"R² of the first component of {cell}'s last layer with entropy"


def _decoded(cell: str) -> str:
    return f"R² of entropy read by a linear map from {cell}'s last layer, held-out sequences"


def _open(primary: Verdict, outcome: str, cell: str) -> Verdict:
    """The first component alone, where the other reading, which could change this outcome, was not taken."""
    told = f"{WHOLE_LAYER} of {cell} was not measured: its survey has no reading “{DECODED}”"
    return (replace(primary, outcome=INCONCLUSIVE) if primary.outcome == outcome else primary).because(told)


def _asked(cell: str) -> Callable[..., Verdict]:
    """How a network is read: one that is published as a failure need not have learned."""
    return beside_nulls if cell in STACKED.values() else reading


CLAIMS = [
    Claim(
        "value-manifold",
        "Values lie along one direction.",
        PAPER,
        "PC1 carries 84–90% of the variance",
        "PC1 share of the last layer's values; the line is 0.84, and its nulls: untrained networks, the embedding",
        (BIJECTION, "bijection-references"),
        of(one_direction, BIJECTION),
        elsewhere=of_each(one_direction, REPLACED, HMM),
    ),
    Claim(
        "value-order",
        "That direction is ordered by posterior entropy.",
        PAPER,
        "a manifold ordered by entropy; stated for bijection without replacement, where position alone fixes the"
        " entropy",
        f"with replacement: share of PC1 that entropy explains, the line is {ORDERED}; controls: the same once position"
        " is regressed out, and its nulls",
        (REPLACED, "bijection-replacement-references"),
        of(ordered, REPLACED),
        elsewhere=of_each(ordered, BIJECTION, HMM, MAMBA, LSTM, *BINDING),
    ),
    Claim(
        "mamba-entropy",
        "Mamba's last layer follows the posterior entropy.",
        PAPER,
        "R² 0.40",
        f"R² of the score on the last layer's first component with entropy (itself and its bins; at least the squared "
        f"correlation): {UNDEFINED}; the line is 0.40, and its nulls; else, if measured, {WHOLE_LAYER}",
        (MAMBA, "hmm-references"),
        of(with_entropy, MAMBA),
        elsewhere=of_each(with_entropy, HMM, LSTM, *BINDING),
    ),
    Claim(
        "mamba-spread",
        "Mamba's last layer spreads over several directions.",
        PAPER,
        "PC1 21.9%",
        "PC1 share of the last layer; the line is below 0.25, and below its nulls",
        (MAMBA, "hmm-references"),
        of(spread, MAMBA),
        elsewhere=of_each(spread, HMM, LSTM, *RECURRENT),
    ),
    Claim(
        "lstm-collapse",
        "The LSTM's last layer collapses onto one direction.",
        PAPER,
        "PC1 92.3%",
        "PC1 share of the last layer; the line is 0.90, and its nulls",
        (LSTM, "hmm-lstm-stacked", "hmm-references"),
        of_lstm(collapsed),
    ),
    Claim(
        "lstm-entropy",
        "The LSTM's last layer does not follow the posterior entropy.",
        PAPER,
        "R² 0.004",
        f"R² of the score on the last layer's first component with entropy (itself and its bins; at least the squared "
        f"correlation): {UNDEFINED}; the line is below 0.05; control, if measured: {WHOLE_LAYER}",
        (LSTM, "hmm-lstm-stacked", "hmm-references"),
        of_lstm(without_entropy),
    ),
]
