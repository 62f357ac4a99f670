"""Every published claim we test, one file per family."""

from windtunnel.errors import require_choice
from windtunnel.study.claim import Claim
from windtunnel.study.claims import (
    architecture,
    definitions,
    fidelity,
    geometry,
    length,
    mechanism,
    primitives,
    recall,
    robustness,
)

_FAMILIES = (fidelity, definitions, length, recall, robustness, geometry, mechanism, architecture, primitives)

CLAIMS: list[Claim] = [claim for family in _FAMILIES for claim in family.CLAIMS]


def claim(name: str) -> Claim:
    """The claim of that id."""
    require_choice("claim", name, [known.id for known in CLAIMS])
    return next(known for known in CLAIMS if known.id == name)
