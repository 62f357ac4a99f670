"""What happens when a part is taken away."""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import BIJECTION, HMM, LSTM, MAMBA, PAPER, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond, reading, require_learned
from windtunnel.study.evidence import Evidence, NotMeasured, Record, null_mean
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.verdict import Verdict, held, jointly, qualified

LOST, LARGEST = "bits lost to ablation", "share of the largest head"
OTHER_WAYS = {
    "mean": "for zero-ablation, not with the mean over episodes",
    "resample": "for zero-ablation, not with another episode's activations",
}
TIMES = 10.0
DOMINATES = 0.5
NEEDED_BITS = 0.05


def least_needed(evidence: Evidence, cell: str, method: str) -> list[Record]:
    """For each surveyed seed, the reading of the layer that costs least; a layer without feed-forward is its mixer."""
    try:
        found = evidence.readings(cell, LOST, part="whole layer", method=method)
    except NotMeasured:
        found = evidence.readings(cell, LOST, part="mixer", method=method)
    return [min(mine, key=lambda r: number(r["value"])) for mine in _by_seed(found).values()]


def worst_layer(evidence: Evidence, cell: str, method: str) -> Quantity:
    """Error without the layer that costs least, over the error with all layers; one value per surveyed seed."""
    clean = evidence.score(cell, "kl_bits")
    by_seed = dict(zip(evidence.cell(cell)["seeds"], clean.values or (clean.mean,), strict=False))
    lost = {r["where"]["seed"]: number(r["value"]) for r in least_needed(evidence, cell, method)}
    return Quantity.of_seeds([max(1.0 + bits / by_seed[seed], 1e-9) for seed, bits in lost.items()], "log")


def every_layer(evidence: Evidence, cell: str) -> Verdict:
    """Zeroing any one layer multiplies the error by more than ten; so does putting in a mean or another episode's."""
    require_learned(evidence, cell)

    def by(method: str) -> Verdict:
        told = f"error of {cell} without its least needed layer ({method}-ablated), times the full error"
        return held(worst_layer(evidence, cell, method), "above", TIMES, told)

    controls = {words: by(method) for method, words in OTHER_WAYS.items()}
    least = least_needed(evidence, cell, "zero")
    return qualified(by("zero"), controls | beyond(least, f"{cell}, bits lost without the least needed layer"))


def frame_head(evidence: Evidence, cell: str) -> Verdict:
    """One head, in the first layer, carries more than half of what all single heads cost."""
    primary = reading(evidence, cell, LARGEST, "above", DOMINATES, f"{cell}, {LARGEST}", method="zero")
    layers = [found["where"]["layer"] for found in evidence.readings(cell, LARGEST, method="zero")]
    first = held(Quantity.exact(float(max(layers))), "below", 0.5, f"layers of the largest heads, by seed: {layers}")
    controls = {"for a head that is not in the first layer": first}
    for method, words in OTHER_WAYS.items():
        found = evidence.record(cell, LARGEST, method=method)
        controls[words] = held(found, "above", DOMINATES, f"{cell}, {LARGEST}, {method}-ablated")
    number_of = evidence.record(cell, "effective number of heads", method="zero")
    return qualified(primary, controls).because(f"effective number of heads: {number_of}")


def roles(evidence: Evidence, cell: str) -> Verdict:
    """Each role, taken away at (carry: before) one step in one layer, costs more than its strongest null."""
    require_learned(evidence, cell)
    parts = {}
    for role, site in (("routing", "at it"), ("update", "at it"), ("carry", "before it")):
        found = evidence.readings(cell, "bits lost without a role", role=role, site=site)
        single = [r for r in found if isinstance(r["where"].get("layer"), int)]  # "all" layers at once break anything
        if not single:
            raise NotMeasured(f"{cell}: no reading of the role {role} in a single layer")
        excess = [_most_beyond_nulls(cell, mine) for mine in _by_seed(single).values()]
        told = f"{cell}, bits lost without {role} {site}, in the layer where it costs most, less the strongest null's"
        parts[f"for {role}"] = held(Quantity.of_seeds(excess), "above", NEEDED_BITS, told)
    return jointly(parts)


def _most_beyond_nulls(cell: str, readings: list[Record]) -> float:
    """The largest loss over layers less the largest null over layers: both sides may choose their layer."""
    nulls = [null_mean(r, null) for r in readings for null in r["nulls"]]
    if not nulls:
        raise NotMeasured(f"{cell}: {readings[0]['name']!r} has no null to stand out from")
    return max(number(r["value"]) for r in readings) - max(max(nulls), 0.0)


def _by_seed(readings: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for r in readings:
        found.setdefault(r["where"]["seed"], []).append(r)
    return found


CLAIMS = [
    Claim(
        "every-layer",
        "Removing any one layer multiplies the error by more than ten.",
        PAPER,
        "more than 10× for each layer",
        f"KL without the least needed layer, zeroed, over the full KL; the line is {TIMES:g}; controls: mean- and "
        "resample-ablation, and the nulls of the loss",
        (BIJECTION, "bijection-references"),
        of(every_layer, BIJECTION),
        elsewhere=of_each(every_layer, REPLACED, HMM, MAMBA, LSTM),
    ),
    Claim(
        "one-frame-head",
        "One first-layer head dominates; no other head does comparable damage.",
        PAPER,
        "one hypothesis-frame head",
        f"share of the largest head, zeroed, in what all single heads cost; the line is {DOMINATES}; controls: its "
        "nulls, its layer, mean- and resample-ablation",
        (BIJECTION, "bijection-references"),
        of(frame_head, BIJECTION),
        elsewhere=of_each(frame_head, REPLACED, HMM),
    ),
    Claim(
        "roles",
        "Attention routes, feed-forward layers update, the residual stream carries the belief.",
        PAPER,
        "no number",
        f"bits lost at one step without each in one layer, less the strongest null; the line is {NEEDED_BITS} bits",
        (HMM, "hmm-references"),
        of(roles, HMM),
        elsewhere=of_each(roles, BIJECTION, REPLACED, LSTM),
    ),
]
