"""What happens when a part is taken away."""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.claims.nulls import reading, require_learned, words
from windtunnel.study.evidence import Evidence, NotMeasured, Record, null_mean, over_seeds
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.verdict import Verdict, held, jointly, qualified

BIJECTION, HMM = "bijection-transformer", "hmm-transformer"
TIMES = 10.0
NEEDED_BITS = 0.05


def least_needed(evidence: Evidence, cell: str, method: str) -> list[Record]:
    """For each surveyed seed, the reading of the layer that costs least."""
    least: dict[int, Record] = {}
    for found in evidence.readings(cell, "bits lost to ablation", part="whole layer", method=method):
        seed = found["where"]["seed"]
        if seed not in least or number(found["value"]) < number(least[seed]["value"]):
            least[seed] = found
    return list(least.values())


def worst_layer(evidence: Evidence, cell: str, method: str) -> Quantity:
    """Error without the layer that costs least, over the error with all layers; one value per surveyed seed."""
    clean = evidence.score(cell, "kl_bits")
    by_seed = dict(zip(evidence.cell(cell)["seeds"], clean.values or (clean.mean,), strict=False))
    lost = {r["where"]["seed"]: number(r["value"]) for r in least_needed(evidence, cell, method)}
    times = [max(1.0 + bits / by_seed[seed], 1e-9) for seed, bits in lost.items()]
    return Quantity.of_seeds(times, "log") if len(times) > 1 else Quantity.exact(times[0])


def every_layer(evidence: Evidence) -> Verdict:
    """Zeroing any one layer multiplies the error by more than ten; so does putting in another episode's."""
    require_learned(evidence, BIJECTION)

    def by(method: str) -> Verdict:
        told = f"error of {BIJECTION} without its least needed layer ({method}-ablated), times the full error"
        return held(worst_layer(evidence, BIJECTION, method), "above", TIMES, told)

    controls = {"for zero-ablation, not with another episode's activations": by("resample")}
    readings = least_needed(evidence, BIJECTION, "zero")
    for null in dict.fromkeys(null for r in readings for null in r["nulls"]):
        excess = over_seeds([{**r, "value": number(r["value"]) - null_mean(r, null)} for r in readings])
        told = f"bits lost without the least needed layer, less that of its null “{null}”"
        controls[words(null)] = held(excess, "above", 0.0, told)
    return qualified(by("zero"), controls)


def frame_head(evidence: Evidence) -> Verdict:
    """One head, in the first layer, carries more than half of what all single heads cost."""
    where, name = {"method": "zero"}, "share of the largest head"
    primary = reading(evidence, BIJECTION, name, "above", 0.5, name, **where)
    layers = [found["where"]["layer"] for found in evidence.readings(BIJECTION, name, **where)]
    first = held(Quantity.exact(float(max(layers))), "below", 0.5, f"layers of the largest heads, by seed: {layers}")
    number_of = evidence.record(BIJECTION, "effective number of heads", **where)
    verdict = qualified(primary, {"for a head that is not in the first layer": first})
    return verdict.because(f"effective number of heads: {number_of}")


def roles(evidence: Evidence) -> Verdict:
    """Each role, taken away at (carry: before) one step in one layer, costs more than its strongest null."""
    require_learned(evidence, HMM)
    parts = {}
    for role, site in (("routing", "at it"), ("update", "at it"), ("carry", "before it")):
        found = evidence.readings(HMM, "bits lost without a role", role=role, site=site)
        single = [r for r in found if isinstance(r["where"].get("layer"), int)]  # "all" layers at once break anything
        if not single:
            raise NotMeasured(f"{HMM}: no reading of the role {role} in a single layer")
        excess = [_most_beyond_nulls([r for r in single if r["where"]["seed"] == seed]) for seed in _seeds(single)]
        quantity = Quantity.of_seeds(excess) if len(excess) > 1 else Quantity.exact(excess[0])
        told = f"bits lost without {role} {site}, in the layer where it costs most, less the strongest null's most"
        parts[f"for {role}"] = held(quantity, "above", NEEDED_BITS, told)
    return jointly(parts)


def _most_beyond_nulls(readings: list[Record]) -> float:
    """The largest loss over layers less the largest null over layers: both sides may choose their layer."""
    nulls = [null_mean(r, null) for r in readings for null in r["nulls"]]
    if not nulls:
        raise NotMeasured(f"{HMM}: {readings[0]['name']!r} has no null to stand out from")
    return max(number(r["value"]) for r in readings) - max(max(nulls), 0.0)


def _seeds(readings: list[Record]) -> list[int]:
    return list(dict.fromkeys(r["where"]["seed"] for r in readings))


CLAIMS = [
    Claim(
        "every-layer",
        "Removing any one layer multiplies the error by more than ten.",
        PAPER,
        "more than 10× for each layer",
        "KL without the least needed layer over the full KL; controls: resample-ablation, and the nulls of the loss",
        (BIJECTION, "bijection-references"),
        every_layer,
    ),
    Claim(
        "one-frame-head",
        "One first-layer head dominates; no other head does comparable damage.",
        PAPER,
        "one hypothesis-frame head",
        "share of the largest head in what all single heads cost; the line is 0.5; controls: its nulls, its layer",
        (BIJECTION, "bijection-references"),
        frame_head,
    ),
    Claim(
        "roles",
        "Attention routes, feed-forward layers update, the residual stream carries the belief.",
        PAPER,
        "no number",
        f"bits lost at one step without each in one layer, less the strongest null; the line is {NEEDED_BITS} bits",
        (HMM, "hmm-references"),
        roles,
    ),
]
