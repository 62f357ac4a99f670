"""What the representation is said to look like, each number held against its nulls."""

from __future__ import annotations

from typing import Any

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER, less
from windtunnel.study.evidence import Evidence
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, otherwise, qualified

BIJECTION, REPLACED, HMM = "bijection-transformer", "bijection-replacement-transformer", "hmm-transformer"


def over_null(evidence: Evidence, cell: str, name: str, null: str, **where: Any) -> Quantity:
    """A reading less the mean of one of its nulls."""
    return less(evidence.record(cell, name, **where), evidence.null(cell, name, null, **where))


def orthogonal_keys(evidence: Evidence) -> Verdict:
    """Mean |cosine| of first-layer keys below that of random vectors; centred, as attention sees them, too."""

    def reading(kind: str) -> Verdict:
        name = f"key cosine, {kind}"
        parts = {}
        for group in ("keys", "values"):
            where = {"hypotheses": group, "path": "formed"}
            own = evidence.record(BIJECTION, name, **where)
            chance = evidence.null(BIJECTION, name, "random vectors", **where)
            told = f"{kind} |cosine| of the {group}' keys {own}, random vectors {chance:.3f}; the difference"
            parts[f"for the {group}"] = held(less(own, chance), "below", 0.0, told)
        return jointly(parts)

    raw, centred = reading("raw"), reading("centred")
    return qualified(raw, {"for raw keys: centred, as attention sees them, random ones are as orthogonal": centred})


def sharpening(evidence: Evidence) -> Verdict:
    """Attention entropy falls by 85% or more from first to last layer; else: it falls, more than untrained."""
    name = "attention entropy, fall from first to last layer"
    primary = held(
        evidence.record(BIJECTION, name), "above", 0.85, "fall of attention entropy from first to last layer"
    )
    beyond = over_null(evidence, BIJECTION, name, "untrained")
    some = held(beyond, "above", 0.0, "fall of attention entropy less that of untrained networks")
    return otherwise(primary, {"as a fall beyond untrained networks, smaller than published": some})


def value_manifold(evidence: Evidence) -> Verdict:
    """One component carries 84% of the values' variance; and entropy orders it once position is accounted for."""
    primary = held(evidence.record(BIJECTION, "PC1 share", stream="values"), "above", 0.84, "PC1 share of the values")
    left = evidence.record(REPLACED, "entropy after position, PC1", stream="values")
    told = "with replacement, share of PC1 that entropy explains once position is regressed out"
    return qualified(primary, {"without the position control": held(left, "above", 0.10, told)})


def dissociation(evidence: Evidence) -> Verdict:
    """Values settle after attention, in log10 steps of training."""
    name = "frame–precision dissociation"
    return jointly(
        {
            words: held(evidence.record(cell, name), "above", 0.0, f"log10 steps by which values settle later, {words}")
            for words, cell in (("in bijection", BIJECTION), ("in the HMM", HMM))
        }
    )


def five_clusters(evidence: Evidence) -> Verdict:
    """Five clusters in Mamba's last layer; but do exact beliefs, with no network at all, form five as well?"""
    name = "clusters by silhouette"
    off = _distance(evidence.record("hmm-mamba", name), 5.0)
    primary = held(off, "below", 0.5, "distance of the number of clusters in Mamba's last layer from five")
    chance = evidence.null("hmm-mamba", name, "exact belief")
    told = f"exact beliefs without a network form {chance:.2f} clusters; distance from five"
    control = held(Quantity.exact(abs(chance - 5.0)), "above", 0.5, told)
    return qualified(primary, {"as a property of the exact belief, which clusters so without any network": control})


def _distance(quantity: Quantity, target: float) -> Quantity:
    if len(quantity.values) > 1:
        return Quantity.of_seeds([abs(value - target) for value in quantity.values])
    return Quantity.exact(abs(quantity.mean - target))


def collapse(evidence: Evidence) -> Verdict:
    """The LSTM's last layer is one line: PC1 carries over 90% of its variance."""

    def reading(cell: str) -> Verdict:
        return held(
            evidence.record(cell, "PC1 share", stream="residual"), "above", 0.90, f"PC1 share of {cell}'s last layer"
        )

    other = (
        {"for the stacked LSTM without skips": reading("hmm-lstm-stacked")} if evidence.has("hmm-lstm-stacked") else {}
    )
    return otherwise(reading("hmm-lstm"), other)


CLAIMS = [
    Claim(
        "orthogonal-keys",
        "First-layer keys of the hypotheses are nearer to orthogonal than random keys.",
        PAPER,
        "mean |cosine| 0.052 against 0.082 for random keys; elsewhere 0.09–0.12 against 0.40–0.45",
        "mean |cosine| less that of random vectors of equal dimension; control: centred keys",
        (BIJECTION,),
        orthogonal_keys,
    ),
    Claim(
        "sharpening",
        "Attention sharpens with depth onto the feasible hypotheses.",
        PAPER,
        "attention entropy falls 85–90% from first to last layer",
        "that fall; the line is 0.85; weaker reading: more than in untrained networks",
        (BIJECTION,),
        sharpening,
    ),
    Claim(
        "value-manifold",
        "Values lie on a curve ordered by posterior entropy.",
        PAPER,
        "PC1 carries 84–90% of the variance",
        "PC1 share (line 0.84); control: what entropy explains once position is regressed out (line 0.10)",
        (BIJECTION, REPLACED),
        value_manifold,
    ),
    Claim(
        "frame-precision",
        "Attention settles early in training while values go on unfolding.",
        PAPER,
        "figures of steps 100k and 150k",
        "difference in log10 settling step of values and attention; the line is 0",
        (BIJECTION, HMM),
        dissociation,
    ),
    Claim(
        "mamba-five-clusters",
        "Mamba's last layer has five clusters, one per hidden state.",
        PAPER,
        "5",
        "clusters by silhouette; control: the same count on exact beliefs, with no network",
        ("hmm-mamba",),
        five_clusters,
    ),
    Claim(
        "lstm-collapse",
        "The LSTM's last layer collapses onto one direction.",
        PAPER,
        "PC1 92.3%, R² with entropy 0.004",
        "PC1 share of the last layer; the line is 0.90",
        ("hmm-lstm", "hmm-lstm-stacked"),
        collapse,
    ),
]
