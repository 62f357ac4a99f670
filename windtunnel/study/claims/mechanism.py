"""What happens when a part is taken away."""

from __future__ import annotations

from windtunnel.json_numbers import from_json
from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import BIJECTION, HMM, LSTM, MAMBA, PAPER, RECURRENT, REPLACED, of, of_each
from windtunnel.study.claims.nulls import beyond, reading, require_learned, shared_nulls
from windtunnel.study.evidence import Evidence, NotMeasured, Record, less_null, over_seeds
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, qualified

LOST, LARGEST, WITHOUT = "bits lost to ablation", "share of the largest head", "bits lost without a role"
OTHER_WAYS = {
    "mean": "for zero-ablation, not with the mean over episodes",
    "resample": "for zero-ablation, not with another episode's activations",
}
TIMES = 10.0
DOMINATES = 0.5
NEEDED_BITS = 0.05
PARTS = {"routing": "attention", "update": "feed-forward"}
EARLIER = {"evidence before it": "earlier observations", "before it": "all earlier positions"}
ONE_CELL = {
    "lstm": "its state",
    "mamba": "its state (in surveys before revision 3: without the convolution's window)",
}
"""Models in which one recurrent cell does everything, and what their memory readings are of.  Readings of the committed
study do not say by which revision of the instruments they were made; newer ones do."""


def least_needed(evidence: Evidence, cell: str, method: str) -> list[Record]:
    """For each surveyed seed, the reading of the layer that costs least; a layer without feed-forward is its mixer."""
    try:
        found = evidence.readings(cell, LOST, part="whole layer", method=method)
    except NotMeasured:
        found = evidence.readings(cell, LOST, part="mixer", method=method)
    return [min(mine, key=lambda r: from_json(r["value"])) for mine in _by_seed(found).values()]


def worst_layer(evidence: Evidence, cell: str, method: str) -> Quantity:
    """Error without the layer that costs least, over the error with all layers; one value per surveyed seed."""
    clean = evidence.score(cell, "kl_bits")
    by_seed = dict(zip(evidence.cell(cell)["seeds"], clean.values or (clean.mean,), strict=False))
    lost = {r["where"]["seed"]: from_json(r["value"]) for r in least_needed(evidence, cell, method)}
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
    agreed = Quantity.exact(float(layers[0])) if len(set(layers)) == 1 else Quantity.of_seeds(list(map(float, layers)))
    first = held(agreed, "below", 0.5, f"layers of the largest heads, by seed: {layers}")
    controls = {"for a head that is not in the first layer": first}
    for method, words in OTHER_WAYS.items():
        found = evidence.record(cell, LARGEST, method=method)
        controls[words] = held(found, "above", DOMINATES, f"{cell}, {LARGEST}, {method}-ablated")
    number_of = evidence.record(cell, "effective number of heads", method="zero")
    return qualified(primary, controls).because(f"effective number of heads: {number_of}")


def roles(evidence: Evidence, cell: str) -> Verdict:
    """Each role, taken away at (carry: before) one step, costs more than its strongest null.

    Routing and update in all layers together, since layers do each other's work; damage of equal size in all of them is
    among the nulls.  Carry half-way up: whatever a network does, it cannot do without the first stream.
    """
    require_learned(evidence, cell)
    if evidence.cell(cell)["model"] in ONE_CELL:
        raise NotMeasured(_recurrent(evidence, cell))
    parts = {}
    for role in ("routing", "update"):
        found = evidence.readings(cell, WITHOUT, role=role, site="at it", layer="all")
        where = "at the position that is read, in all layers together"
        parts[f"for {role}"] = _needed(found, f"{cell}, bits lost without {role} ({PARTS[role]}) {where}")
    parts["for carry"] = _carried(evidence, cell)
    return jointly(parts)


def _needed(readings: list[Record], what: str) -> Verdict:
    found, null = _excess(readings, what)
    return held(found, "above", NEEDED_BITS, f"{what}, minus its null “{null}”")


def _excess(readings: list[Record], what: str) -> tuple[Quantity, str]:
    """One reading per seed less its strongest null, and which that is; each seed against its own draws, since those of
    older surveys are moved with their value (see `mechanism.estimate`)."""
    found = [(less_null(readings, null), null) for null in shared_nulls(readings, what)]
    return min(found, key=lambda pair: pair[0].mean)


def _carried(evidence: Evidence, cell: str) -> Verdict:
    """What earlier positions hold half-way up; of two layers in the first, as nobody reads what the last one leaves.

    Worlds without a header, and surveys that are older than the site which leaves it out, have only `before it`.
    """
    try:
        site = "evidence before it"
        found = evidence.readings(cell, WITHOUT, role="carry", site=site)
    except NotMeasured:
        site = "before it"
        found = evidence.readings(cell, WITHOUT, role="carry", site=site)
    by_layer = {layer: [r for r in found if r["where"]["layer"] == layer] for layer in _layers(found)}
    if len(by_layer) < 2:
        raise NotMeasured(f"{cell}: carry {site} needs a second layer that could read what the first one holds")
    chosen = min(len(by_layer) // 2, len(by_layer) - 2)
    told = ", ".join(f"{over_seeds(mine).mean:.2g}" for mine in by_layer.values())
    what = f"{cell}, bits lost without carry (the residual stream of {EARLIER[site]})"
    return _needed(by_layer[chosen], f"{what}, after block {chosen}").because(f"{what}, layer by layer: {told}")


def _layers(readings: list[Record]) -> list[int]:
    return sorted({r["where"]["layer"] for r in readings})


def _recurrent(evidence: Evidence, cell: str) -> str:
    """Why the statement says nothing about a recurrent network, and what its state costs."""
    said = f"{cell} has no attention: one recurrent cell routes, updates and carries at once"
    try:
        found = evidence.readings(cell, WITHOUT, role="memory")
        excess, null = _excess(found, said)
    except NotMeasured:
        return said
    costs = f"costs {over_seeds(found)} bits, {excess} minus “{null}”"
    return f"{said}; {ONE_CELL[evidence.cell(cell)['model']]} set to the mean, one step back, {costs}"


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
        elsewhere=of_each(every_layer, REPLACED, HMM, MAMBA, LSTM, *RECURRENT),
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
        "bits lost at one step without attention, or without feed-forward, in all layers at that step; and without the "
        f"stream of earlier positions half-way up; each minus its strongest null; the line is {NEEDED_BITS} bits",
        (HMM, "hmm-references"),
        of(roles, HMM),
        elsewhere=of_each(roles, BIJECTION, REPLACED, LSTM),
    ),
]
