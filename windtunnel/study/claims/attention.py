"""What keys and attention are said to look like, and when they settle."""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import BIJECTION, HMM, PAPER, RECALL, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond_nulls, reading, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import Verdict, held, jointly, otherwise, qualified

CENTRED = {"random vectors": "for raw keys: centred, as attention sees them, random ones are as orthogonal"}
FALL = "attention entropy, fall from first to last layer"
SETTLED = "frame–precision dissociation"


def orthogonal_keys(evidence: Evidence, cell: str) -> Verdict:
    """Mean |cosine| of first-layer keys below that of random vectors; centred, as attention sees them, too."""
    require_learned(evidence, cell)
    parts = {}
    for group in ("keys", "values"):
        where = {"hypotheses": group, "path": "formed"}
        beyond = evidence.over_null(cell, "key cosine, raw", "random vectors", **where)
        own = evidence.record(cell, "key cosine, raw", **where)
        told = f"{cell}, raw |cosine| of the {group}' keys {own}; less that of random vectors"
        centred = beyond_nulls(evidence, cell, "key cosine, centred", "below", CENTRED, **where)
        parts[f"for the {group}"] = qualified(held(beyond, "below", 0.0, told), centred)
    return jointly(parts)


def sharpening(evidence: Evidence, cell: str) -> Verdict:
    """Attention entropy falls by 85% or more from first to last layer; else: it falls, more than untrained."""
    primary = reading(evidence, cell, FALL, "above", 0.85, f"{cell}, fall of attention entropy, first to last layer")
    some = held(evidence.over_null(cell, FALL, "untrained"), "above", 0.0, "that fall less that of untrained networks")
    return otherwise(primary, {"as a fall beyond untrained networks, smaller than published": some})


def onto_the_feasible(evidence: Evidence, cell: str) -> Verdict:
    """Layer by layer more attention goes to the value that belongs to the key asked for, the one hypothesis left."""
    name = "attention on matching value, slope with depth"
    return reading(evidence, cell, name, "above", 0.0, f"{cell}, attention on the matching value, gained per layer")


def attention_posterior(evidence: Evidence) -> Verdict:
    """Cannot be tested: the published number has no definition that could be measured."""
    raise NotMeasured(
        "attention is a distribution over positions shown so far; the hypotheses left in a bijection are the values "
        "not shown, which have no position, and no map from one to the other is published"
    )


def settles_later(evidence: Evidence, cell: str) -> Verdict:
    """Values settle after attention, in log10 steps of training."""
    require_learned(evidence, cell)
    told = f"{cell}, log10 steps by which values settle after attention"
    return held(evidence.record(cell, SETTLED), "above", 0.0, told)


def dissociation(evidence: Evidence) -> Verdict:
    """In both worlds of the paper."""
    return jointly(
        {
            "in bijection": settles_later(evidence, BIJECTION),
            "in the HMM": settles_later(evidence, HMM),
        }
    )


CLAIMS = [
    Claim(
        "orthogonal-keys",
        "First-layer keys of the hypotheses are nearer to orthogonal than random keys.",
        PAPER,
        "mean |cosine| 0.052 against 0.082 for random keys; elsewhere 0.09–0.12 against 0.40–0.45",
        "mean |cosine| less that of random vectors of equal dimension; controls: centred keys, which no shared offset "
        "can move, against random vectors and untrained networks",
        (BIJECTION, "bijection-references"),
        of(orthogonal_keys, BIJECTION),
        elsewhere=of_each(orthogonal_keys, REPLACED),
    ),
    Claim(
        "sharpening",
        "Attention sharpens with depth.",
        PAPER,
        "attention entropy falls 85–90% from first to last layer",
        "that fall; the line is 0.85, and that of untrained networks; weaker reading: more than in untrained networks",
        (BIJECTION, "bijection-references"),
        of(sharpening, BIJECTION),
        elsewhere=of_each(sharpening, REPLACED, HMM, RECALL),
    ),
    Claim(
        "sharpening-target",
        "What attention sharpens onto is the hypotheses still possible.",
        PAPER,
        "no number; said of bijection, where the values left have no position",
        "with replacement, where a key seen before leaves one value and that has a position: attention on it gained "
        "per layer; the line is 0; controls: untrained networks, other episodes' positions",
        (REPLACED, "bijection-replacement-references"),
        of(onto_the_feasible, REPLACED),
        elsewhere=of_each(onto_the_feasible, RECALL),
    ),
    Claim(
        "attention-posterior",
        "Attention, read as a posterior, is about 0.05 bits from the exact one.",
        PAPER,
        "KL about 0.05 bits",
        "nothing, at any scale: attention over positions is no distribution over hypotheses without a map between the "
        "two, and none is published",
        (),
        attention_posterior,
    ),
    Claim(
        "frame-precision",
        "Attention settles early in training while values go on unfolding.",
        PAPER,
        "figures of steps 100k and 150k",
        "difference in log10 settling step of values and attention, one number per seed; the line is 0",
        (BIJECTION, HMM, "bijection-references", "hmm-references"),
        dissociation,
        elsewhere=of_each(settles_later, REPLACED, RECALL),
    ),
]
