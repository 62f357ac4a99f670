"""The findings that hold, of the study and of benchmarks: README.md has a line of each beside what it answers,
docs/claims.md all of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import readers
import unshown_page
from study_findings import FINDINGS
from tables import markdown

from windtunnel.study.evidence import NotMeasured
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.primitive_rows import in_order
from windtunnel.study.trials import PRIMITIVES

OF_BENCHMARKS = (
    ("Does a network use what a probe reads?", "What can be read depends on the reader.", readers.finding),
    ("Must a network be shown beliefs to represent them?", "A belief need not be shown.", unshown_page.finding),
)
"""What it answers, a question of our own; its first words; result files -> brief and in full, or None."""


class Told(NamedTuple):
    """A finding that holds: what it answers, its first words, it in a sentence or two, and in full after those."""

    paper: str
    head: str
    brief: str
    full: str


def findings(study: StudyFolder, results: Path) -> list[Told]:
    """Those that hold; of the study, and of benchmarks among the result files."""
    outcomes, evidence = {entry["id"]: entry["outcome"] for entry in study.ledger()}, study.evidence()
    found = []
    for finding in FINDINGS:
        if all(outcomes[claim] == outcome for claim, outcome in finding.rests_on.items()):
            with suppress(NotMeasured):
                found.append(Told(finding.paper, finding.head, *finding.words(evidence)))
    for asked, head, words in OF_BENCHMARKS:
        if told := words(results):
            found.append(Told(f"*(our question)* {asked}", head, *told))
    return found


def in_short(study: StudyFolder, results: Path) -> str:
    """For README.md: a row of each."""
    found = findings(study, results)
    if not found:
        return "Nothing yet that a verdict supports."
    lines = markdown(["the paper says", "we find"], [[told.paper, told.brief] for told in found])
    tested = {row.primitive for row in in_order(study.cells()) if row.network}
    if untested := [primitive for primitive in PRIMITIVES if primitive not in tested]:
        lines += ["", f"Not yet run at full size: {', '.join(untested)}."]
    return "\n".join(lines)


def in_full(study: StudyFolder, results: Path) -> list[str]:
    """For docs/claims.md."""
    return [f"- **{told.head}** {told.full}" for told in findings(study, results)]
