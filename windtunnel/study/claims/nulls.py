"""What a reading must stand out from before it shows anything about learning: its nulls; and a network that learned.

A number that an untrained network shows as well is no result of training.  Where the published number is reached but a
null reaches it too, the claim holds only in the words of that null, e.g. "only as in untrained networks".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.study.evidence import Evidence, NotMeasured, Record, less_null
from windtunnel.study.verdict import Side, Verdict, held, qualified

LEARNED_SHARE = 0.1  # a network has learned its task when its KL is below this share of the uniform guess's
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
        line = LEARNED_SHARE * evidence.baseline(cell["world"], "uniform", "kl_bits")
        if not kept or not max(kept) < line:
            worst = f"{max(kept):.2g} bits" if kept else "of no network"
            raise NotMeasured(f"{name} has not learned its task: worst KL {worst}, must be below {line:.2g}")


def beyond_nulls(
    evidence: Evidence, cell: str, name: str, side: Side = "above", words: Mapping[str, str] = WORDS, **where: Any
) -> dict[str, Verdict]:
    """One control per null of a reading: does it lie on that side of the null?  Words for a failure -> verdict."""
    return beyond(evidence.readings(cell, name, **where), f"{cell}, {name}", side, words)


def beyond(
    readings: list[Record], what: str, side: Side = "above", words: Mapping[str, str] = WORDS
) -> dict[str, Verdict]:
    """The same for readings at hand, one per seed, each seed against its own draws; they must share a null."""
    return {
        words.get(null) or WORDS.get(null) or f"as in its null “{null}”": held(
            less_null(readings, null), side, 0.0, f"{what}, minus its null “{null}”"
        )
        for null in shared_nulls(readings, what)
    }


def shared_nulls(readings: list[Record], what: str) -> list[str]:
    """The nulls that every one of the readings has draws of; without any there is nothing to claim."""
    common = [null for null in readings[0]["nulls"] if all(r["nulls"].get(null) for r in readings)]
    if not common:
        raise NotMeasured(f"{what}: has no null to stand out from")
    return common


def reading(evidence: Evidence, cell: str, name: str, side: Side, line: float, told: str, **where: Any) -> Verdict:
    """An instrument's reading of a network that has learned, on the claimed side of a line and of each of its nulls."""
    require_learned(evidence, cell)
    return beside_nulls(evidence, cell, name, side, line, told, **where)


def beside_nulls(evidence: Evidence, cell: str, name: str, side: Side, line: float, told: str, **where: Any) -> Verdict:
    """The same of any network: what it has not learned, its nulls have not either."""
    primary = held(evidence.record(cell, name, **where), side, line, told)
    return qualified(primary, beyond_nulls(evidence, cell, name, side, **where))
