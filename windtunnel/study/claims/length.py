"""Longer sequences than trained on, and whether late attention is what carries them."""

from __future__ import annotations

from collections.abc import Callable

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM, PAPER
from windtunnel.study.claims.nulls import beyond_nulls, require_learned
from windtunnel.study.evidence import Evidence
from windtunnel.study.quantity import Quantity, difference
from windtunnel.study.verdict import Side, Verdict, held, otherwise, qualified

METRIC = "entropy_mae_bits"
ALONE = "as an average over all positions: those beyond the trained length alone miss it"
PAPERS_OWN = "without a position embedding, as in the paper's shape and optimiser at our budget"
TIMES = 10.0
OFF, OFF_ERROR = "bits lost with late attention off", "entropy error with late attention off"


def generalises(length: int, line: float) -> Callable[[Evidence], Verdict]:
    """All positions, as published; then those beyond K = 20 alone; then with the paper's learned positions."""

    def test(evidence: Evidence) -> Verdict:
        def reading(cell: str, condition: str) -> Verdict:
            return held(evidence.score(cell, METRIC, condition), "below", line, f"{cell}, {condition}, entropy error")

        controls = {
            ALONE: reading(HMM, f"length-{length}-beyond"),
            PAPERS_OWN: reading("hmm-transformer-paper", f"length-{length}"),
        }
        return qualified(reading(HMM, f"length-{length}"), controls)

    return test


def far(evidence: Evidence) -> Verdict:
    """Ten times the trained length, new positions alone."""
    found = evidence.score(HMM, METRIC, "length-200-beyond")
    return held(found, "below", 0.029, "K = 21 to 200, entropy error")


def late(evidence: Evidence) -> Verdict:
    """Bits lost with the top two layers' attention off: at K = 50 more than ten times those at K = 20."""
    require_learned(evidence, HMM)
    at = {k: evidence.record(HMM, OFF, length=k, positions="all") for k in (20, 50)}
    told = f"bits lost with late attention off, K = 20: {at[20]}; K = 50: {at[50]}"
    excess = difference(at[50], _times(at[20], TIMES))
    verdict = held(excess, "above", 0.0, f"bits lost at K = 50 less {TIMES:g} times those at K = 20").because(told)
    return qualified(verdict, beyond_nulls(evidence, HMM, OFF, length=50, positions="all"))


def late_at(length: int, side: Side, line: float) -> Callable[[Evidence], Verdict]:
    """The published number itself: an entropy error.  Or else as bits of KL lost, which is 0 for an intact network."""

    def test(evidence: Evidence) -> Verdict:
        require_learned(evidence, HMM)
        error, lost = (evidence.record(HMM, name, length=length, positions="all") for name in (OFF_ERROR, OFF))
        primary = held(error, side, line, f"entropy error with late attention off, K = {length}")
        weaker = held(lost, side, line, f"bits of KL lost with late attention off, K = {length}")
        return otherwise(primary, {"as bits of KL lost": weaker})

    return test


def _times(quantity: Quantity, factor: float) -> Quantity:
    parts = (quantity.mean * factor, quantity.low * factor, quantity.high * factor)
    return Quantity(*parts, quantity.over, tuple(v * factor for v in quantity.values), quantity.scale)


def _longer(length: int, line: float) -> Claim:
    return Claim(
        f"length-{length}",
        f"Trained at K = 20, the Transformer filters at K = {length} to {line:g} bits.",
        PAPER,
        f"{line:g} bits (averaged over all positions)",
        f"entropy error per sequence at K = {length}: all positions, new ones alone, and with learned positions",
        (HMM, "hmm-transformer-paper"),
        generalises(length, line),
    )


CLAIMS = [
    _longer(30, 0.012),
    _longer(50, 0.029),
    Claim(
        "length-200",
        "The learned filter runs on well beyond the lengths that were published.",
        f"{PAPER}, read further by us",
        "none; the published number for K = 50 is the line",
        "entropy error per sequence at positions 21 to 200 alone; the line is 0.029 bits",
        (HMM,),
        far,
    ),
]
LATE_ATTENTION = [
    Claim(
        "late-attention",
        "Late attention is not needed at the trained length but for roll-out beyond it.",
        PAPER,
        "with the top two layers' attention off, 1.6e-3 bits at K = 20 and 1.79 at K = 50",
        f"bits of KL lost at K = 50 against {TIMES:g} times those at K = 20",
        (HMM, "hmm-references"),
        late,
    ),
    Claim(
        "late-off-20",
        "Without late attention the Transformer still filters to 1.6e-3 bits at the trained length.",
        PAPER,
        "1.6e-3 bits at K = 20",
        "entropy error per sequence with the top two layers' attention off; the line is below 1.6e-3",
        (HMM, "hmm-references"),
        late_at(20, "below", 1.6e-3),
    ),
    Claim(
        "late-off-50",
        "Without late attention it fails far beyond the trained length.",
        PAPER,
        "1.79 bits at K = 50",
        "entropy error per sequence with the top two layers' attention off; the line is above 1.79",
        (HMM, "hmm-references"),
        late_at(50, "above", 1.79),
    ),
]
