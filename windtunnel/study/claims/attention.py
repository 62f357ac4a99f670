"""What keys and attention are said to look like, and when they settle."""

from __future__ import annotations

import math

import numpy as np

from windtunnel.geometry.dynamics import log_steps
from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import BIJECTION, HMM, PAPER, RECALL, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond_nulls, reading, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, otherwise, qualified
from windtunnel.training.schedule import ladder_steps

CENTRED = {"random vectors": "for raw keys: centred, as attention sees them, random ones are as orthogonal"}
FALL = "attention entropy, fall from first to last layer"
MATCHING = "attention on matching value"
FOUND = 0.5
SETTLED = "frame–precision dissociation"


def orthogonal_keys(evidence: Evidence, cell: str) -> Verdict:
    """Mean |cosine| of first-layer keys below that of random vectors; centred, as attention sees them, too."""
    require_learned(evidence, cell)
    parts = {}
    for group in ("keys", "values"):
        where = {"hypotheses": group, "path": "formed"}
        beyond = evidence.over_null(cell, "key cosine, raw", "random vectors", **where)
        own = evidence.record(cell, "key cosine, raw", **where)
        told = (
            f"{cell}, raw |cosine| between the key vectors of {group[:-1]} tokens {own}; minus that of random vectors"
        )
        centred = beyond_nulls(evidence, cell, "key cosine, centred", "below", CENTRED, **where)
        parts[f"for the {group}"] = qualified(held(beyond, "below", 0.0, told), centred)
    return jointly(parts)


def sharpening(evidence: Evidence, cell: str) -> Verdict:
    """Attention entropy falls by 85% or more from first to last layer; else: it falls, more than untrained."""
    primary = reading(evidence, cell, FALL, "above", 0.85, f"{cell}, fall of attention entropy, first to last layer")
    told = f"{cell}, {FALL}, minus its null “untrained”"
    some = held(evidence.over_null(cell, FALL, "untrained"), "above", 0.0, told)
    return otherwise(primary, {"as a fall beyond untrained networks, smaller than published": some})


def onto_the_feasible(evidence: Evidence, cell: str) -> Verdict:
    """A head attends to the value that belongs to the key asked for, the one hypothesis left; more so with depth.

    The head is the best of all, and so is that of every draw of its nulls.
    """
    best, steeper = f"{MATCHING}, best of all", f"{MATCHING}, slope with depth"
    told = f"{cell}, share of attention on the matching value in the head that has most of it"
    onto = reading(evidence, cell, best, "above", FOUND, told)
    grows = held(evidence.record(cell, steeper), "above", 0.0, f"{cell}, {MATCHING}, mean of heads, gained per layer")
    places = [r["where"] for r in evidence.readings(cell, best)]
    last = max(r["where"]["layer"] for r in evidence.readings(cell, MATCHING))
    early = "early " * all(2 * place["layer"] < last for place in places)
    heads = ", ".join(f"{place['head']} of layer {place['layer']}" for place in places)
    controls = {f"in one {early}head; it does not grow with depth": grows}
    return qualified(onto, controls).because(f"that head, by seed: {heads}; layers are 0 to {last}")


def attention_posterior(evidence: Evidence) -> Verdict:
    """Cannot be tested: the published number has no definition that could be measured."""
    raise NotMeasured(
        "attention is a distribution over positions shown so far; the hypotheses left in a bijection are the values "
        "not shown, which have no position, and no map from one to the other is published"
    )


def settles_later(evidence: Evidence, cell: str) -> Verdict:
    """Values settle after attention, in log10 steps of training; told no finer than the ladder of checkpoints tells."""
    require_learned(evidence, cell)
    found, apart = evidence.record(cell, SETTLED), rungs_apart(evidence, cell)
    if len(found.values) > 1:
        found = Quantity.of_seeds(found.values, noise=apart * math.sqrt(2 / (12 * len(found.values))))
    told = f"{cell}, log10 steps by which values settle after attention, checkpoints being {apart:.2g} apart"
    return held(found, "above", 0.0, told)


def rungs_apart(evidence: Evidence, cell: str) -> float:
    """The widest distance of two checkpoints, log10 steps.  A time is known to a place between two of them, and both
    times of a difference are; layers of a network are read off the same checkpoints and do not average this out."""
    recipe = evidence.cell(cell)["recipe"]
    return float(np.diff(log_steps(np.array(ladder_steps(recipe["steps"], recipe["ladder"])))).max())


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
        "mean |cosine| minus that of random vectors of equal dimension; controls: centred keys, which no shared offset "
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
        "no number; stated for bijection, where the values left have no position",
        "with replacement, where a key seen before leaves one value and that has a position: share of attention on it "
        f"in the head that has most; the line is {FOUND}; controls: the best heads of untrained networks and on other "
        "episodes' positions, growth with depth",
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
        "difference in log10 settling step of values and attention, one number per seed, with the resolution of the "
        "checkpoints as noise; the line is 0",
        (BIJECTION, HMM, "bijection-references", "hmm-references"),
        dissociation,
        elsewhere=of_each(settles_later, REPLACED, RECALL),
    ),
]
