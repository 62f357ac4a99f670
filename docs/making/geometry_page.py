"""docs/geometry.md: for each published statement about geometry or mechanism, the claim's own verdict in plain words.

`python docs/making/pages.py` writes it from `results/paper`.  Nothing is judged here: the verdicts are those of
`windtunnel.study.claims`, as they stand in the ledger, and so are the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import read_again
import readers
import torch
import unshown_page
from geometry_beside import beside
from tables import commit_of, made_with, table

from windtunnel.models import build, describe
from windtunnel.study.claims import GEOMETRIC
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import SURVEYED
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import INCONCLUSIVE, ONLY_AS, REPRODUCED, UNTESTED
from windtunnel.training.batch_stages import batch_told
from windtunnel.training.recipe import Recipe

Entry = Mapping[str, Any]
UNKNOWABLE = "not identifiable"


def answer(verdict: Entry) -> str:
    """Reproduced, not reproduced, or reproduced only …

    >>> answer({"outcome": "reproduced only as", "only_as": "without the position control"})
    'reproduced only without the position control'
    """
    if verdict["outcome"] == UNTESTED and UNKNOWABLE in verdict["reasons"][0]:
        return UNKNOWABLE
    if verdict["outcome"] == ONLY_AS:
        return f"{REPRODUCED} only {verdict['only_as']}"
    plain = {INCONCLUSIVE: "undecided", UNTESTED: "not judged"}
    back = verdict.get("held_back")
    return plain.get(verdict["outcome"], verdict["outcome"]) + (f" ({back})" if back else "")


def section(entry: Entry) -> list[str]:
    """One statement: what was published, how it is judged, the answer; then those of networks it was also asked of."""
    head = [f"## {entry['claim']}", "", f"Published: {entry['published']}. Measured: {entry['measured']}.", ""]
    asked = _told(_asked(entry), entry)
    others = {cell: other for cell, other in entry["elsewhere"].items() if other["reasons"][:1] != entry["reasons"][:1]}
    return head + asked + [line for cell, other in others.items() for line in _told(cell, other)]


def _asked(entry: Entry) -> str:
    """The networks that the reasons speak of, of those that the claim may read; all of them where none is named."""
    cells = [cell for cell in entry["cells"] if not cell.endswith("-references")]
    told = " ".join(entry["reasons"])
    named = [cell for cell in cells if re.search(rf"(?<![\w-]){re.escape(cell)}(?![\w-])", told)]
    return ", ".join(named or cells) or "none"


def _told(network: str, verdict: Entry) -> list[str]:
    """Answer and reasons, a line each; a reason need not say again whose it is."""
    p = verdict["adjusted_p_value"]
    reasons = [*verdict["reasons"], *([f"p = {p:.2g} after Holm's correction"] if p is not None else [])]
    lines = [f"- {reason.removeprefix(f'{network}, ')}" for reason in reasons]
    return [f"**{network}: {answer(verdict)}**", "", *lines, ""]


def networks(evidence: Evidence) -> list[str]:
    """Which networks were looked at, how well they had learned, and what it took."""
    rows = []
    others = [name for name, cell in evidence.cells.items() if cell.get("survey") and name not in SURVEYED]
    for name in (name for name in (*SURVEYED, *others) if evidence.has(name)):
        cell = evidence.cell(name)
        kl = Quantity.of_record(cell["conditions"]["home"]["metrics"]["kl_bits"])
        uniform = evidence.baseline(cell["world"], "uniform", "kl_bits")
        spent = cell["seconds"]
        rows.append(
            [
                name,
                *made_of(Recipe.from_dict(cell["recipe"])),
                f"{len(cell['seeds'])} × {cell['recipe']['steps']}",
                f"{kl.brief(2)} (uniform {uniform:.2g}{_learnt(kl, uniform)})",
                f"{_seeds(cell)} × {cell['planned']['survey']['episodes']}, {len(cell['survey'])} readings",
                f"{spent['train'] + spent['setup']:.0f} + {spent.get('survey', 0.0):.0f}{_elsewhere(spent)}",
                f"{made_with(cell['environment'])}, commit {commit_of(cell['environment'])}",
            ]
        )
    columns = ["network", "depth × width", "positions", "optimiser and peak rates", "seeds × steps", "KL, bits"]
    columns += ["seeds × episodes surveyed", "seconds: training + survey", "on"]
    return ["## The networks", "", *table(columns, rows)]


def _learnt(kl: Quantity, uniform: float) -> str:
    """On how many seeds it has not come half of the way from a uniform guess, where there are such."""
    count = sum(value < uniform / 2 for value in kl.values)
    if count == len(kl.values):
        return "; seeds differ widely" if kl.high > uniform / 2 else ""
    return f"; learnt on {count} of {len(kl.values)} seeds" if count else "; has not learnt"


def _elsewhere(spent: Mapping[str, float]) -> str:
    """The part that was not made on the device that is told: readings, from weights carried over."""
    cpu = spent["total"] - spent["gpu"]
    return f", {cpu:.0f} of these on two CPU cores" if cpu > 1 else ""


def _seeds(cell: Mapping[str, Any]) -> str:
    """How many seeds the instruments have looked at: fewest to most."""
    seen: dict[str, set[int]] = {}
    for reading in cell["survey"]:
        if "seed" in (where := reading.get("where", {})):
            seen.setdefault(reading["name"], set()).add(where["seed"])
    counts = sorted({len(seeds) for seeds in seen.values()}) or [0]
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def made_of(recipe: Recipe) -> list[str]:
    """Shape, positions and optimiser of the networks of a recipe."""
    with torch.device("meta"):  # only its shape is wanted
        shape = describe(build(recipe.model, recipe.tunnel, **recipe.model_options)).shape
    heads = f", {shape['heads']} heads" if "heads" in shape else ""
    style = f", {shape['style']}" if "style" in shape else ""
    how = recipe.optimiser
    rate = f"Muon {how.muon_lr:.2g}, AdamW {how.lr:.2g}" if how.kind == "muon" else f"AdamW {how.lr:.2g}"
    batch = f"batch {batch_told(recipe.first_batch, recipe.batch)}, target: {recipe.supervision}"
    return [f"{shape['depth']} × {shape['width']}{heads}{style}", str(shape.get("positions", "–")), f"{rate}, {batch}"]


def page(study: StudyFolder, results: Path) -> str:
    """The whole page; the further readings come from the benchmarks' result files as well."""
    ledger = {entry["id"]: entry for entry in study.ledger()}
    entries = [ledger[claim.id] for claim in GEOMETRIC]
    lines = [
        "# Geometry and mechanism: which statements of the paper are reproduced",
        "",
        "Written by `python docs/making/pages.py` from `results/paper`; do not edit. The verdicts are those of the"
        " ledger (`windtunnel claims results/paper`), in plain words. A statement",
        "",
        "- is *reproduced* when the interval over seeds lies on the claimed side of its line (the threshold named in"
        " each section) and its controls pass (each null is the same instrument on something that carries no signal);",
        "- is *reproduced only …* when a control fails; what follows *only* names it;",
        "- is *not reproduced* when the interval lies on the other side, or when a control is refuted while the"
        " rest is undecided;",
        "- is *undecided* when an interval straddles its line, or when the test does not survive Holm's correction over"
        " all claims (this is then stated);",
        "- is *not identifiable* when the data cannot decide it;",
        "- is *not judged* where a network has not been trained yet or has not learned its task (except for the stacked"
        " LSTM, whose published counterpart had not either) or has no such tensor.",
        "",
        "Each section begins with the networks on which the statement is judged. The others are ones that the paper"
        " does not discuss, asked the same question without correction. Every list item is a separate test: the"
        " number with its 95% interval, and on which side of which line the claim needs it. The readings behind it,"
        " with all their nulls, are in `results/paper/cells/NAME.json` under `survey`; `windtunnel inspect NETWORK`"
        " takes the same readings of your own network or one from the zoo.",
        "",
        "The surveys were made at the commits named at the end of this page. Instruments have been corrected since"
        " (`docs/log.md` lists how; *Measured again*, below, shows what changes). In these older surveys, nulls from"
        " untrained networks are pooled over places (the verdicts count at most one draw per network), subspaces are"
        " ablated only by their mean, and ranges of positions are not ablated by zero.",
        "",
        *table(
            ["statement", "published", "asked of", "answer"],
            [[e["claim"], e["published"], _asked(e), f"**{answer(e)}**"] for e in entries],
        ),
    ]
    for entry in entries:
        lines += section(entry)
    evidence = study.evidence()
    lines += beside(evidence) + readers.section(results) + unshown_page.section(results)
    lines += read_again.section(results) + networks(evidence)
    return "\n".join(lines).rstrip() + "\n"
