"""docs/geometry.md, last part but one: readings that no statement of the paper asks for, and that bear on all of them.

Nothing is judged here.  They answer what the authors wrote later, and what a reader will ask next: does a key do
anything, does a random subspace tell as much, is what can be read also used?
"""

from __future__ import annotations

from collections.abc import Iterator

from tables import table

from windtunnel.study.evidence import Evidence, NotMeasured, null_mean, over_seeds
from windtunnel.study.quantity import Quantity

NETWORKS = (
    *("bijection-transformer", "bijection-replacement-transformer"),
    *("hmm-transformer", "hmm-mamba", "hmm-lstm"),
)
SUBSPACES = ("decoded belief", "written belief", "hypothesis frame", "entropy axis")
LOST, MOVED = "bits lost to ablation of a subspace", "moved to the donor by a swap"
RANDOM = "random subspace, equal rank"
MATCHED = "hypotheses matched at random"
DECODED = {"belief": "belief decoded, R²", "entropy": "entropy decoded, R²"}
NULLS = {"belief": "random subspaces", "entropy": "shuffled episodes"}

Found = tuple[Quantity, float]
"""A reading over seeds, and the mean of one of its nulls."""


def beside(evidence: Evidence) -> list[str]:
    """The section; nothing of a reading that was not made."""
    return [
        "## Beside the statements",
        "",
        "Not judged. In brackets, after “null”, the mean of the same instrument on what carries no signal.",
        "",
        "**What is read, and what is used.** A linear map reads belief and entropy off the last layer. Three"
        " subspaces of it have to do with the belief: the directions that the map reads (*decoded*), those along which"
        " the layer moves with the belief (*written*), and those that the head looks at (*hypothesis frame*);"
        " the *entropy axis* is the direction that tells the entropy. Each is removed (bits of KL lost), and exchanged"
        " for that of another episode (share of the way that the prediction moves to the belief there); beside"
        " it random subspaces of equal rank. Decoding has random subspaces as its null, of entropy shuffled episodes.",
        "",
        *table(["network", "subspace", "R² decoded", "bits lost without it", "moved by a swap"], list(_used(evidence))),
        "",
        "**Keys that do something.** A cosine between keys can be changed without changing attention; the margin of the"
        " row-centred query–key scores (own hypothesis against the rest, first layer, mean of heads) cannot. Its null"
        " matches hypotheses at random.",
        "",
        *table(["network", "hypotheses", "margin"], list(_margins(evidence))),
        "",
    ]


def _used(evidence: Evidence) -> Iterator[list[str]]:
    for name in NETWORKS:
        for subspace in SUBSPACES:
            target = subspace.removeprefix("decoded ").removesuffix(" axis")
            read = _reading(evidence, name, DECODED[target], NULLS[target]) if target in DECODED else None
            lost, moved = (_last(evidence, name, what, subspace) for what in (LOST, MOVED))
            if lost or moved:
                yield [name, subspace, *map(_told, (read, lost, moved))]


def _margins(evidence: Evidence) -> Iterator[list[str]]:
    for name in NETWORKS:
        for hypotheses in ("keys", "values", "symbols", "transition rows", "emission rows"):
            where = {"hypotheses": hypotheses, "path": "formed", "layer": 0, "head": "mean"}
            if found := _reading(evidence, name, "query–key margin", MATCHED, **where):
                yield [name, hypotheses, _told(found)]


def _last(evidence: Evidence, name: str, what: str, subspace: str) -> Found | None:
    """A reading at the last block whose subspaces were looked at."""
    try:
        tensors = {r["where"]["tensor"] for r in evidence.readings(name, what, subspace=subspace)}
    except NotMeasured:
        return None
    last = max(tensors, key=lambda tensor: int(tensor.split(".")[1]))
    return _reading(evidence, name, what, RANDOM, subspace=subspace, tensor=last)


def _reading(evidence: Evidence, name: str, what: str, null: str, **where: object) -> Found | None:
    try:
        found = evidence.readings(name, what, **where)
    except NotMeasured:
        return None
    return over_seeds(found), sum(null_mean(r, null) for r in found) / len(found)


def _told(found: Found | None) -> str:
    """Number and null; a hundred-thousandth of a bit is none."""
    if found is None:
        return "–"
    quantity, null = found
    told = f"{quantity.mean:.3g}" if abs(quantity.mean) >= 1e-5 else "0"
    if quantity.low > -1e9 and told != "0":
        told = quantity.brief()
    return f"{told} (null {null:.2g})"
