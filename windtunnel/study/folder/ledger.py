"""claims.json and table.csv: what follows from the cells of a study, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.study.claim import Claim, judge
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.files import FORMAT, rounded
from windtunnel.study.folder.tidy import tidy
from windtunnel.study.verdict import ONLY_AS, OUTCOMES, Verdict


def summaries(claims: list[Claim], evidence: Evidence, verdicts: Mapping[str, Verdict] | None = None) -> dict[str, str]:
    """The files that follow from the cells alone: name -> text."""
    verdicts = judge(claims, evidence) if verdicts is None else verdicts
    entries = [ledger_entry(claim, verdicts[claim.id], claim.judge_elsewhere(evidence)) for claim in claims]
    ledger = json.dumps({"format": FORMAT, "claims": entries}, indent=1) + "\n"
    return {"table.csv": tidy(evidence.cells), "claims.json": ledger}


def tally(entries: Sequence[Mapping[str, Any]]) -> str:
    """How many claims came out how: "10 reproduced, 4 reproduced only in part, …"."""
    words = {ONLY_AS: "reproduced only in part"}
    counts = {outcome: sum(entry["outcome"] == outcome for entry in entries) for outcome in OUTCOMES}
    return ", ".join(f"{count} {words.get(outcome, outcome)}" for outcome, count in counts.items() if count) or "none"


def published(entries: Sequence[Mapping[str, Any]]) -> int:
    """How many of the claims are the paper's; the others are our own, which take one of those further."""
    return sum(not entry["published"].startswith("none") for entry in entries)


def ledger_entry(claim: Claim, verdict: Verdict, elsewhere: Mapping[str, Verdict]) -> dict[str, Any]:
    """A claim and its verdict as plain data; rounded, so that the last bit of a machine makes no other file.

    The value has more digits than anybody shows: what is rounded twice may come out otherwise.
    """
    told = {"id": claim.id, "claim": claim.words, "verdict": verdict.words}
    told |= {name: getattr(claim, name) for name in ("source", "published", "measured")}
    others = {cell: {"verdict": other.words} | other.to_dict() for cell, other in elsewhere.items()}
    kept = verdict.to_dict()
    entry = rounded(told | {"cells": list(claim.cells)} | kept | {"elsewhere": others})
    return entry | {"value": rounded(kept["value"], digits=8)}
