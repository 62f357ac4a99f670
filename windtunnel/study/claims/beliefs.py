"""Where the belief is said to be: linearly in the residual stream, or as one cluster per hidden state."""

from __future__ import annotations

import math

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM, LSTM, MAMBA, PAPER, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond_nulls, require_learned
from windtunnel.study.evidence import Evidence
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, qualified

RAND = "adjusted Rand with the likeliest state"
OWN = "as a property of the exact belief, which clusters as tightly without any network"
BEYOND = "belief beyond windows 1 and 2, R²"
READABLE, MORE = 0.5, 0.1
ROUNDING = 1 / math.sqrt(12)  # standard error of a whole number that stands for a graded one


def one_cluster_per_state(evidence: Evidence, cell: str) -> Verdict:
    """The clusters of the last layer are the states, as many of them, and tighter than those of the exact belief."""
    require_learned(evidence, cell)
    states = evidence.cell(cell)["recipe"]["tunnel"]["states"]
    primary = held(evidence.record(cell, RAND), "above", 0.5, f"{cell}, {RAND} (1: the same grouping, 0: chance)")
    number = evidence.record(cell, "clusters by silhouette")
    told = f"{cell}, distance of the number of clusters by silhouette from {states} ({number.mean:.2f} on average)"
    as_many = held(_distance(number, states), "below", 0.5, told)
    tighter = beyond_nulls(evidence, cell, f"silhouette at {states} clusters", words={"exact belief": OWN})
    return qualified(primary, {"where the number of clusters is given": as_many} | tighter)


def _distance(counts: Quantity, target: float) -> Quantity:
    """Of counts from a target; seeds that agree on a whole number still may differ by its rounding."""
    off = [abs(value - target) for value in counts.values or (counts.mean,)]
    return Quantity.of_seeds(off, noise=ROUNDING / math.sqrt(len(off)))


def readable(evidence: Evidence, cell: str) -> Verdict:
    """A linear map reads half of the exact belief from the last layer, and more than short windows could tell."""
    require_learned(evidence, cell)
    found = evidence.record(cell, "belief decoded, R²", stream="residual")
    more = held(evidence.record(cell, BEYOND), "above", MORE, f"{cell}, R² of what the last two observations leave")
    controls = {"as what the last two observations tell": more} | beyond_nulls(evidence, cell, BEYOND)
    return qualified(held(found, "above", READABLE, f"{cell}, R² of the belief read off the last layer"), controls)


CLAIMS = [
    Claim(
        "belief-readable",
        "The residual stream carries the belief, where a linear map can read it.",
        PAPER,
        "no number: the residual stream is said to carry the belief",
        f"R² of the exact belief with the last layer, held-out sequences, the line is {READABLE}; controls: what the "
        f"last two observations do not tell (line {MORE}), beyond untrained networks and shuffled episodes",
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
