"""What the representation is said to look like, each number held against its nulls."""

from __future__ import annotations

import math
from collections.abc import Callable

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER, less
from windtunnel.study.claims.nulls import beyond_nulls, reading, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, otherwise, qualified

BIJECTION, REPLACED, HMM, MAMBA = (
    "bijection-transformer",
    "bijection-replacement-transformer",
    "hmm-transformer",
    "hmm-mamba",
)
LSTMS = {"for the stacked LSTM without skips, with the paper's optimiser": "hmm-lstm-stacked"}
ROUNDING = 1 / math.sqrt(12)  # standard error of a whole number that stands for a graded one
ENTROPY = "entropy, position ignored, all"


def orthogonal_keys(evidence: Evidence) -> Verdict:
    """Mean |cosine| of first-layer keys below that of random vectors; centred, as attention sees them, too."""
    require_learned(evidence, BIJECTION)

    def of_kind(kind: str) -> Verdict:
        name = f"key cosine, {kind}"
        parts = {}
        for group in ("keys", "values"):
            where = {"hypotheses": group, "path": "formed"}
            own = evidence.record(BIJECTION, name, **where)
            chance = evidence.null(BIJECTION, name, "random vectors", **where)
            told = f"{kind} |cosine| of the {group}' keys {own}, random vectors {chance:.3f}; the difference"
            parts[f"for the {group}"] = held(less(own, chance), "below", 0.0, told)
        return jointly(parts)

    raw, centred = of_kind("raw"), of_kind("centred")
    return qualified(raw, {"for raw keys: centred, as attention sees them, random ones are as orthogonal": centred})


def sharpening(evidence: Evidence) -> Verdict:
    """Attention entropy falls by 85% or more from first to last layer; else: it falls, more than untrained."""
    require_learned(evidence, BIJECTION)
    name = "attention entropy, fall from first to last layer"
    primary = held(
        evidence.record(BIJECTION, name), "above", 0.85, "fall of attention entropy from first to last layer"
    )
    beyond = evidence.over_null(BIJECTION, name, "untrained")
    some = held(beyond, "above", 0.0, "fall of attention entropy less that of untrained networks")
    return otherwise(
        qualified(primary, {"as in untrained networks": some}),
        {"as a fall beyond untrained networks, smaller than published": some},
    )


def attention_posterior(evidence: Evidence) -> Verdict:
    """Cannot be tested: the published number has no definition that could be measured."""
    raise NotMeasured(
        "attention is a distribution over positions shown so far; the hypotheses left in a bijection are the values "
        "not shown, which have no position, and no map from one to the other is published"
    )


def value_manifold(evidence: Evidence) -> Verdict:
    """One component carries 84% of the values' variance; and entropy orders it once position is accounted for."""
    name, told = "PC1 share", "PC1 share of the last layer's values"
    primary = reading(evidence, BIJECTION, name, "above", 0.84, told, stream="values")
    told = "with replacement, share of PC1 that entropy explains once position is regressed out"
    left = reading(evidence, REPLACED, "entropy after position, PC1", "above", 0.10, told, stream="values")
    return qualified(primary, {"without the position control": left})


def dissociation(evidence: Evidence) -> Verdict:
    """Values settle after attention, in log10 steps of training."""
    name = "frame–precision dissociation"
    require_learned(evidence, BIJECTION, HMM)
    return jointly(
        {
            words: held(evidence.record(cell, name), "above", 0.0, f"log10 steps by which values settle later, {words}")
            for words, cell in (("in bijection", BIJECTION), ("in the HMM", HMM))
        }
    )


def five_clusters(evidence: Evidence) -> Verdict:
    """Five clusters in Mamba's last layer, which agree with the likeliest state; but do exact beliefs form five too?"""
    require_learned(evidence, MAMBA)
    name, states = "clusters by silhouette", "adjusted Rand with the likeliest state"
    off = _distance(evidence.record(MAMBA, name), 5.0)
    primary = held(off, "below", 0.5, "distance of the number of clusters in Mamba's last layer from five")
    chance = evidence.null(MAMBA, name, "exact belief")
    told = f"exact beliefs without a network form {chance:.2f} clusters; distance from five"
    belief = held(Quantity.exact(abs(chance - 5.0)), "above", 0.5, told)
    agree = held(evidence.record(MAMBA, states), "above", 0.5, f"{states} (1: the same grouping, 0: chance)")
    controls = {
        "as a count: the clusters are not the hidden states": agree,
        "as a property of the exact belief, which clusters so without any network": belief,
    }
    return qualified(primary, controls)


def _distance(quantity: Quantity, target: float) -> Quantity:
    """Of counts from a target; seeds that agree on a whole number still may differ by its rounding."""
    if len(quantity.values) < 2:
        return Quantity.exact(abs(quantity.mean - target))
    off = [abs(value - target) for value in quantity.values]
    return Quantity.of_seeds(off, noise=ROUNDING / math.sqrt(len(off)))


def of_lstm(read: Callable[[Evidence, str], Verdict]) -> Callable[[Evidence], Verdict]:
    """A reading of the LSTM's last layer: the residual LSTM's, else the published stacked one's, if that learned."""

    def test(evidence: Evidence) -> Verdict:

        others, untold = {}, []
        for words, cell in LSTMS.items():
            try:
                others[words] = read(evidence, cell)
            except NotMeasured as missing:
                untold.append(str(missing))
        return otherwise(read(evidence, "hmm-lstm"), others).because(*untold)

    return test


def collapsed(evidence: Evidence, cell: str) -> Verdict:
    """One direction carries 90% of the last layer's variance."""
    return reading(evidence, cell, "PC1 share", "above", 0.90, f"PC1 share of {cell}'s last layer", stream="residual")


def without_entropy(evidence: Evidence, cell: str) -> Verdict:
    """Entropy cannot be read off the last layer.  No null: that an untrained network lacks it too proves nothing."""
    require_learned(evidence, cell)
    found = evidence.record(cell, ENTROPY, stream="residual")
    return held(found, "below", 0.05, f"R² of entropy with {cell}'s last layer")


def mamba_spread(evidence: Evidence) -> Verdict:
    """Mamba's last layer spreads over several directions."""
    require_learned(evidence, MAMBA)
    primary = held(evidence.record(MAMBA, "PC1 share", stream="residual"), "below", 0.25, "PC1 share of its last layer")
    return qualified(primary, beyond_nulls(evidence, MAMBA, "PC1 share", "below", stream="residual"))


def mamba_entropy(evidence: Evidence) -> Verdict:
    """Entropy can be read off Mamba's last layer, at least as well as published."""
    return reading(evidence, MAMBA, ENTROPY, "above", 0.40, "R² of entropy with Mamba's last layer", stream="residual")


CLAIMS = [
    Claim(
        "orthogonal-keys",
        "First-layer keys of the hypotheses are nearer to orthogonal than random keys.",
        PAPER,
        "mean |cosine| 0.052 against 0.082 for random keys; elsewhere 0.09–0.12 against 0.40–0.45",
        "mean |cosine| less that of random vectors of equal dimension; control: centred keys",
        (BIJECTION, "bijection-references"),
        orthogonal_keys,
    ),
    Claim(
        "sharpening",
        "Attention sharpens with depth (onto what, is not tested).",
        PAPER,
        "attention entropy falls 85–90% from first to last layer",
        "that fall; the line is 0.85, and that of untrained networks; weaker reading: more than in untrained networks",
        (BIJECTION, "bijection-references"),
        sharpening,
    ),
    Claim(
        "attention-posterior",
        "Attention, read as a posterior, is about 0.05 bits from the exact one.",
        PAPER,
        "KL about 0.05 bits",
        "nothing: attention over positions is no distribution over hypotheses without a map that is not published",
        (BIJECTION,),
        attention_posterior,
    ),
    Claim(
        "value-manifold",
        "Values lie along one direction, and posterior entropy explains some of it.",
        PAPER,
        "PC1 carries 84–90% of the variance; the manifold is said to be ordered by entropy",
        "PC1 share (line 0.84) beyond its nulls; control: what entropy explains of PC1 once position is regressed out "
        "(line 0.10)",
        (BIJECTION, REPLACED, "bijection-references", "bijection-replacement-references"),
        value_manifold,
    ),
    Claim(
        "frame-precision",
        "Attention settles early in training while values go on unfolding.",
        PAPER,
        "figures of steps 100k and 150k",
        "difference in log10 settling step of values and attention, one number per seed; the line is 0",
        (BIJECTION, HMM, "bijection-references", "hmm-references"),
        dissociation,
    ),
    Claim(
        "mamba-five-clusters",
        "Mamba's last layer has five clusters, one per hidden state.",
        PAPER,
        "5",
        "clusters by silhouette; controls: agreement with the likeliest state (adjusted Rand, line 0.5), and the same "
        "count on exact beliefs, with no network",
        (MAMBA, "hmm-references"),
        five_clusters,
    ),
    Claim(
        "mamba-entropy",
        "Mamba's last layer carries the posterior entropy.",
        PAPER,
        "R² 0.40",
        "R² of entropy with the last layer, held-out sequences; the line is 0.40, and its nulls",
        (MAMBA, "hmm-references"),
        mamba_entropy,
    ),
    Claim(
        "mamba-spread",
        "Mamba's last layer spreads over several directions.",
        PAPER,
        "PC1 21.9%",
        "PC1 share of the last layer; the line is below 0.25, and below its nulls",
        (MAMBA, "hmm-references"),
        mamba_spread,
    ),
    Claim(
        "lstm-collapse",
        "The LSTM's last layer collapses onto one direction.",
        PAPER,
        "PC1 92.3%",
        "PC1 share of the last layer; the line is 0.90, and its nulls",
        ("hmm-lstm", "hmm-lstm-stacked", "hmm-references"),
        of_lstm(collapsed),
    ),
    Claim(
        "lstm-entropy",
        "The LSTM's last layer does not carry the posterior entropy.",
        PAPER,
        "R² 0.004",
        "R² of entropy with the last layer; the line is below 0.05",
        ("hmm-lstm", "hmm-lstm-stacked", "hmm-references"),
        of_lstm(without_entropy),
    ),
]
