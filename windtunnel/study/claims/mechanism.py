"""What happens when a part is taken away."""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.verdict import Verdict, held, jointly, qualified

BIJECTION, HMM = "bijection-transformer", "hmm-transformer"
TIMES = 10.0
NEEDED_BITS = 0.05


def worst_layer(evidence: Evidence, cell: str, method: str) -> Quantity:
    """Error without the layer that costs least, over the error with all layers; one value per surveyed seed."""
    readings = evidence.readings(cell, "bits lost to ablation", part="whole layer", method=method)
    clean = evidence.score(cell, "kl_bits")
    by_seed = dict(zip(evidence.cell(cell)["seeds"], clean.values or (clean.mean,), strict=False))
    least: dict[int, float] = {}
    for reading in readings:
        seed = reading["where"]["seed"]
        least[seed] = min(least.get(seed, float("inf")), number(reading["value"]))
    times = [max(1.0 + lost / by_seed[seed], 1e-9) for seed, lost in least.items()]
    return Quantity.of_seeds(times, "log") if len(times) > 1 else Quantity.exact(times[0])


def every_layer(evidence: Evidence) -> Verdict:
    """Zeroing any one layer multiplies the error by more than ten; so does putting in another episode's."""

    def reading(method: str) -> Verdict:
        told = f"error of {BIJECTION} without its least needed layer ({method}-ablated), times the full error"
        return held(worst_layer(evidence, BIJECTION, method), "above", TIMES, told)

    return qualified(
        reading("zero"), {"for zero-ablation, not with another episode's activations": reading("resample")}
    )


def frame_head(evidence: Evidence) -> Verdict:
    """One head, in the first layer, carries more than half of what all single heads cost."""
    where = {"method": "zero"}
    readings = evidence.readings(BIJECTION, "share of the largest head", **where)
    primary = held(
        evidence.record(BIJECTION, "share of the largest head", **where), "above", 0.5, "share of the largest head"
    )
    layers = [reading["where"]["layer"] for reading in readings]
    first = held(Quantity.exact(float(max(layers))), "below", 0.5, f"layers of the largest heads, by seed: {layers}")
    number_of = evidence.record(BIJECTION, "effective number of heads", **where)
    verdict = qualified(primary, {"for a head that is not in the first layer": first})
    return verdict.because(f"effective number of heads: {number_of}")


def roles(evidence: Evidence) -> Verdict:
    """Each role, taken away at (carry: before) one step, costs more than a trace."""
    name = "bits lost without a role"
    parts = {}
    for role, site in (("routing", "at it"), ("update", "at it"), ("carry", "before it")):
        readings = evidence.readings(HMM, name, role=role, site=site)
        most: dict[int, float] = {}
        for reading in readings:
            seed = reading["where"]["seed"]
            most[seed] = max(most.get(seed, -float("inf")), number(reading["value"]))
        if not most:
            raise NotMeasured(f"{HMM}: no reading of the role {role}")
        values = list(most.values())
        quantity = Quantity.of_seeds(values) if len(values) > 1 else Quantity.exact(values[0])
        told = f"bits lost without {role} {site}, in the layer where it costs most"
        parts[f"for {role}"] = held(quantity, "above", NEEDED_BITS, told)
    return jointly(parts)


CLAIMS = [
    Claim(
        "every-layer",
        "Removing any one layer multiplies the error by more than ten.",
        PAPER,
        "more than 10× for each layer",
        "KL without the least needed layer over the full KL; control: resample-ablation",
        (BIJECTION,),
        every_layer,
    ),
    Claim(
        "one-frame-head",
        "One first-layer head dominates; no other head does comparable damage.",
        PAPER,
        "one hypothesis-frame head",
        "share of the largest head in what all single heads cost; the line is 0.5; control: its layer",
        (BIJECTION,),
        frame_head,
    ),
    Claim(
        "roles",
        "Attention routes, feed-forward layers update, the residual stream carries the belief.",
        PAPER,
        "no number",
        f"bits lost at one step without each; the line is {NEEDED_BITS} bits",
        (HMM,),
        roles,
    ),
]
