"""The fields that every reader of a study counts on, file by file.  More may stand there; these must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel.study.folder.kinds import NUMBER, Maybe, OrNull, Told, require_shape
from windtunnel.study.primitive_rows import STATES
from windtunnel.study.trials import PRIMITIVES
from windtunnel.study.verdict import OUTCOMES

ESTIMATE = {"mean": NUMBER, "low": NUMBER, "high": NUMBER, "over": str, "scale": str, "per_seed": [NUMBER]}

# --- study.json
HEAD = {
    "windtunnel": str,
    "preset": str,
    "environments": [{"device": str, "versions": {...: str}}],
    "sittings": Maybe([{"began": str, "seconds": NUMBER, "device": str}]),
}
SUMMED = {"finished": [str], "seconds": {"total": NUMBER, "gpu": NUMBER, ...: NUMBER}}
"""What `sum_up` adds; a study that has only begun is without."""

# --- claims.json
VERDICT = {
    "verdict": str,
    "outcome": OUTCOMES,
    "only_as": str,
    "held_back": Maybe(str),
    "reasons": [str],
    "value": OrNull(ESTIMATE),
    "of": Maybe(str),
    "line": NUMBER,
    "p_value": NUMBER,
    "adjusted_p_value": NUMBER,
    "lacks": Maybe(str),
}
CLAIM = dict.fromkeys(("id", "claim", "source", "published", "measured"), str) | VERDICT
LEDGER = {"claims": [CLAIM | {"cells": [str], "elsewhere": Maybe({...: VERDICT})}]}

# --- cells/NAME.json
SHARE = {
    "primitive": PRIMITIVES,
    "state": STATES,
    "told": str,
    "share": ESTIMATE,
    "kl_bits": NUMBER,
    "base": str,
    "base_bits": NUMBER,
    "per_seed": [NUMBER],
    "bimodal": bool,
    "successes": int,
    "median": NUMBER,
    "diverged": int,
    "where": Maybe(str),
}
RECIPE = {
    "name": str,
    "tunnel": {"name": str},
    "model": str,
    "model_options": dict,
    "steps": int,
    "batch": int,
    "supervision": str,
    "optimiser": {"kind": str, "lr": NUMBER, "muon_lr": NUMBER},
}
READING = {
    "name": str,
    "value": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
    "over": str,
    "nulls": {...: [NUMBER]},
    "where": Maybe(dict),
    "note": Maybe(str),
}
PLACED = {
    "bits lost to ablation": READING | {"where": {"method": str, "layer": object, "part": object}},
    "bits lost to head ablation": READING | {"where": {"method": str, "layer": object, "head": object}},
}
"""Readings that are drawn as a map of layers: name -> kind."""
CELL = {"kind": ("networks", "references"), "world": str, "planned": dict, "seconds": {...: NUMBER}}
NETWORKS = CELL | {
    "conditions": {...: Told({"metrics": {"kl_bits": ESTIMATE, ...: ESTIMATE}})},
    "model": str,
    "recipe": RECIPE,
    "seeds": [int],
    "diverged": [int],
    "parameters": int,
    "sequences": int,
    "tokens": int,
    "primitive": OrNull(SHARE),
    "survey": [{"name": str}],
    "surveyed": {...: NUMBER},
    "failed": dict,
}
REFERENCES = CELL | {
    "conditions": {...: Told({"baselines": {...: {"kl_bits": NUMBER, ...: NUMBER}}})},
    "rows": Maybe({...: SHARE}),
}


def require_cell(file: Path, record: dict[str, Any]) -> None:
    """Raise at a cell that lacks something."""
    require_shape(file, record, {"kind": CELL["kind"]})
    require_shape(file, record, NETWORKS if record["kind"] == "networks" else REFERENCES)
    if record["kind"] == "references":
        return
    if any(name.startswith("length-") for name in record["conditions"]):  # other lengths are told beside the home one
        require_shape(file, record, {"recipe": {"tunnel": {"length": int}}})
    for index, reading in enumerate(record["survey"]):
        require_shape(file, reading, Told(PLACED.get(reading["name"], READING)), f"survey[{index}]")
