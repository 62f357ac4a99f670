"""Every published claim we test, one file per family."""

from windtunnel.errors import require_choice
from windtunnel.study.claim import Claim
from windtunnel.study.claims import (
    architecture,
    attention,
    beliefs,
    definitions,
    fidelity,
    length,
    manifold,
    mechanism,
    primitives,
    recall,
    robustness,
)

GEOMETRIC: list[Claim] = [
    claim for family in (attention, manifold, beliefs, mechanism) for claim in family.CLAIMS
] + length.LATE_ATTENTION
"""About geometry and mechanism rather than fidelity."""
_OTHERS = (fidelity, definitions, length, recall, robustness, architecture, primitives)

CLAIMS: list[Claim] = [claim for family in _OTHERS for claim in family.CLAIMS] + GEOMETRIC


def claim(name: str) -> Claim:
    """The claim of that id."""
    require_choice("claim", name, [known.id for known in CLAIMS])
    return next(known for known in CLAIMS if known.id == name)
