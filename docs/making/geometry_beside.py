"""docs/geometry.md, last part but one: readings that no statement of the paper asks for, and that bear on all of them.

Nothing is judged here.  They answer what the authors wrote later, and what a reader will ask next: does a key do
anything, does a random subspace show as much, is what can be read also used?
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tables import table

from windtunnel.study.evidence import Evidence, NotMeasured, less_null, null_mean, over_seeds
from windtunnel.study.quantity import Quantity

NETWORKS = (
    *("bijection-transformer", "bijection-replacement-transformer"),
    *("hmm-transformer", "hmm-mamba", "hmm-lstm"),
)
SUBSPACES = ("decoded belief", "written belief", "hypothesis frame", "entropy axis")
LOST, MOVED = "bits lost to ablation of a subspace", "moved to the donor by a swap"
RANDOM = "random subspace, equal rank"
MATCHED = "hypotheses matched at random"


def beside(evidence: Evidence) -> list[str]:
    """The section; nothing of a reading that was not made."""
    return [
        "## Further readings",
        "",
        "No verdicts here.",
        "",
        "**What is read, and what is used.** Four subspaces of the last layer: *decoded belief*, the directions that"
        " an almost unpenalised linear map reads (a penalised map reads others: see below); *written belief*, the"
        " directions along which the layer moves with the belief; *hypothesis frame*, the directions that the head"
        " reads (after the last block these move the prediction by construction); and *entropy axis*, the direction"
        " from which an almost unpenalised map reads the entropy. Each is set to its mean (bits of KL lost) and, in a"
        " second test, exchanged for that of another episode (share of the way that the prediction moves to that"
        " episode's belief). In brackets: how much more that is than with random subspaces of equal rank. Random"
        " subspaces were tried on fewer sequences, and the difference is taken on those alone, so it can be larger than"
        " the number before it.",
        "",
        *table(["network", "subspace", "bits lost without it", "moved by a swap"], list(_used(evidence))),
        "",
        "**Do the keys affect attention?** A cosine between keys can be changed without changing attention; the margin"
        " of the row-centred query–key scores (own hypothesis against the rest, first layer, mean of heads) cannot."
        " Its null matches hypotheses at random, and is given as its mean.",
        "",
        *table(["network", "hypotheses", "margin"], list(_margins(evidence))),
        "",
    ]


def _used(evidence: Evidence) -> Iterator[list[str]]:
    for name in NETWORKS:
        for subspace in SUBSPACES:
            lost = _last(evidence, name, LOST, subspace=subspace, method="mean")
            moved = _last(evidence, name, MOVED, subspace=subspace)
            if lost or moved:
                yield [name, subspace, lost or "–", moved or "–"]


def _margins(evidence: Evidence) -> Iterator[list[str]]:
    for name in NETWORKS:
        for hypotheses in ("keys", "values", "symbols", "transition rows", "emission rows"):
            where = {"hypotheses": hypotheses, "path": "formed", "layer": 0, "head": "mean"}
            with suppress(NotMeasured):
                found = evidence.readings(name, "query–key margin", **where)
                null = sum(null_mean(reading, MATCHED) for reading in found) / len(found)
                yield [name, hypotheses, f"{_number(over_seeds(found))} (null {null:.2g})"]


def _last(evidence: Evidence, name: str, what: str, **where: str) -> str | None:
    """A reading at the last block whose subspaces were looked at, and its distance from random subspaces.

    The distance, not the null: nulls of interventions are moved, and mean nothing alone."""
    try:
        found = evidence.readings(name, what, **where)
    except NotMeasured:
        return None
    last = max((r["where"]["tensor"] for r in found), key=lambda tensor: int(tensor.split(".")[1]))
    found = [reading for reading in found if reading["where"]["tensor"] == last]
    return f"{_number(over_seeds(found))} (beyond random {_number(less_null(found, RANDOM))})"


def _number(quantity: Quantity) -> str:
    """With its interval where it has one; a hundred-thousandth is none."""
    return "0" if abs(quantity.mean) < 1e-5 else quantity.brief()
