"""What a reading must stand out from before it says anything about learning: its nulls; and a network that learned.

A number that an untrained network shows as well is no result of training.  Where the published number is reached but a
null reaches it too, the claim holds only in the words of that null, e.g. "only as in untrained networks".
"""

from __future__ import annotations

from typing import Any, Literal

from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import Verdict, held, qualified

LEARNED = 0.1  # a network has learned its task when its KL is below this share of the uniform guess's
WORDS = {
    "untrained": "as in untrained networks",
    "before the first block": "as in the embedding, before the first block",
    "random direction, equal size": "as damage: an equally large one in a random direction costs as much",
}


def require_learned(evidence: Evidence, *cells: str) -> None:
    """A network that has not learned its task has no geometry or mechanism of it to show."""
    for name in cells:
        cell = evidence.cell(name)
        found = evidence.score(name, "kl_bits")
        values = found.values or (found.mean,)
        kept = [v for v, seed in zip(values, cell["seeds"], strict=False) if seed not in cell.get("diverged", [])]
        line = LEARNED * evidence.baseline(cell["world"], "uniform", "kl_bits")
        if not kept or not max(kept) < line:
            worst = f"{max(kept):.2g} bits" if kept else "of no network"
            raise NotMeasured(f"{name} has not learned its task: worst KL {worst}, must be below {line:.2g}")


def beyond_nulls(
    evidence: Evidence, cell: str, name: str, side: Literal["below", "above"] = "above", **where: Any
) -> dict[str, Verdict]:
    """One control per null of a reading: does it lie on that side of the null?  Words for a failure -> verdict."""
    found = {}
    for null in evidence.nulls(cell, name, **where):
        told = f"{cell}, {name}, less that of its null “{null}”"
        found[words(null)] = held(evidence.over_null(cell, name, null, **where), side, 0.0, told)
    return found


def words(null: str) -> str:
    """To follow "reproduced only"."""
    return WORDS.get(null, f"as in its null “{null}”")


def reading(
    evidence: Evidence, cell: str, name: str, side: Literal["below", "above"], line: float, told: str, **where: Any
) -> Verdict:
    """An instrument's reading on the claimed side of a line, and of each of its nulls."""
    require_learned(evidence, cell)
    primary = held(evidence.record(cell, name, **where), side, line, told)
    return qualified(primary, beyond_nulls(evidence, cell, name, side, **where))
