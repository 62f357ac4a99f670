"""Where the belief is said to be: linearly in the residual stream, or as one cluster per hidden state."""

from __future__ import annotations

import math
from contextlib import suppress

from windtunnel.geometry.gather import layer_of
from windtunnel.json_numbers import from_json
from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM, LSTM, MAMBA, PAPER, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond_nulls, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured, less_null, over_seeds
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, qualified

RAND, SEEN = "adjusted Rand with the likeliest state", "adjusted Rand with the symbol just seen"
OWN = "as a property of the exact belief, which clusters as tightly without any network"
BEYOND = "belief beyond windows 1 and 2, R²"
READABLE, MORE = 0.5, 0.1
SWAPPED, RANDOM = "moved to the donor by a swap", "random subspace, equal rank"
SUBSPACES = {
    "decoded belief": "the subspace that an almost unpenalised linear map reads",
    "hypothesis frame": "the hypothesis frame (what the head looks at)",
}
ROUNDING = 1 / math.sqrt(12)  # standard error of a whole number that stands for a graded one


def one_cluster_per_state(evidence: Evidence, cell: str) -> Verdict:
    """The clusters of the last layer are the states, as many of them, and tighter than those of the exact belief."""
    require_learned(evidence, cell)
    states = evidence.cell(cell)["recipe"]["tunnel"]["states"]
    primary = held(_agreement(evidence, cell), "above", 0.5, f"{cell}, {RAND} (1: the same grouping, 0: chance)")
    count = evidence.record(cell, "clusters by silhouette")
    told = f"{cell}, distance of the number of clusters by silhouette from {states} ({count.mean:.2f} on average)"
    as_many = held(_distance(count, states), "below", 0.5, told)
    tighter = beyond_nulls(evidence, cell, f"silhouette at {states} clusters", words={"exact belief": OWN})
    return qualified(primary, {"where the number of clusters is given": as_many} | tighter).because(
        *_whose(evidence, cell)
    )


def _whose(evidence: Evidence, cell: str) -> list[str]:
    """Whose clusters they are, if not the states': what untrained networks say, and the symbol just seen."""
    nulls = [from_json(value) for r in evidence.readings(cell, RAND) for value in r["nulls"].get("untrained", [])]
    told = [f"{cell}, {RAND}, of untrained networks: {sum(nulls) / len(nulls):.3g}"] if nulls else []
    with suppress(NotMeasured):
        told.append(f"{cell}, {SEEN}: {evidence.record(cell, SEEN)}")
    return told


def _agreement(evidence: Evidence, cell: str) -> Quantity:
    """Of the clusters with the likeliest state.  Seeds that cluster alike share the noise of their episodes."""
    readings = evidence.readings(cell, RAND)
    if len(readings) == 1:
        return evidence.record(cell, RAND)
    widths = [from_json(r["high"]) - from_json(r["low"]) for r in readings]
    return Quantity.of_seeds([from_json(r["value"]) for r in readings], noise=sum(widths) / len(widths) / (2 * 1.96))


def _distance(counts: Quantity, target: float) -> Quantity:
    """Of counts from a target; seeds that agree on a whole number still may differ by its rounding."""
    off = [abs(value - target) for value in counts.values or (counts.mean,)]
    return Quantity.of_seeds(off, noise=ROUNDING / math.sqrt(len(off)))


def readable(evidence: Evidence, cell: str) -> Verdict:
    """A linear map reads half of the exact belief from the last layer, and more than short windows could tell."""
    require_learned(evidence, cell)
    found = evidence.record(cell, "belief decoded, R²", stream="residual")
    more = held(
        evidence.record(cell, BEYOND), "above", MORE, f"{cell}, R² of what the last two observations leave unexplained"
    )
    controls = {"as what the last two observations give away": more} | beyond_nulls(evidence, cell, BEYOND)
    primary = held(found, "above", READABLE, f"{cell}, R² of the belief read off the last layer")
    return qualified(primary, controls).because(*_used(evidence, cell))


def _used(evidence: Evidence, cell: str) -> list[str]:
    """What can be read need not be used: how far swaps in the last layer move the prediction to a donor's belief."""
    told = []
    for subspace, words in SUBSPACES.items():
        try:
            found = evidence.readings(cell, SWAPPED, subspace=subspace)
        except NotMeasured:
            continue
        last = max(int(layer_of(r["where"]["tensor"])) for r in found)
        found = [r for r in found if layer_of(r["where"]["tensor"]) == last]
        moved = (
            f"{words} of {cell}'s last layer, swapped with a donor's, moves the prediction {over_seeds(found)} of the"
        )
        told.append(f"{moved} way to its belief; minus a random subspace's: {less_null(found, RANDOM)}")
    return told


CLAIMS = [
    Claim(
        "belief-readable",
        "The belief can be read from the residual stream by a linear map.",
        PAPER,
        "no number: the residual stream is said to carry the belief",
        f"R² of the exact belief read by a linear map from the last layer, held-out sequences, the line is {READABLE}; "
        f"controls: what the last two observations leave unexplained (line {MORE}), beyond untrained networks and "
        "shuffled episodes; shown beside it: whether what is read is used, by swaps with a donor's",
        (HMM, "hmm-references"),
        of(readable, HMM),
        elsewhere=of_each(readable, MAMBA, LSTM, REPLACED),
    ),
    Claim(
        "mamba-five-clusters",
        "Mamba's last layer has five clusters, one per hidden state.",
        PAPER,
        "5",
        "agreement of the last layer's clusters with the likeliest state (adjusted Rand, line 0.5); controls: as many "
        "by silhouette, and tighter than those of exact beliefs, with no network, and of untrained networks",
        (MAMBA, "hmm-references"),
        of(one_cluster_per_state, MAMBA),
        elsewhere=of_each(one_cluster_per_state, HMM, LSTM),
    ),
]
