"""docs/claims.md: what the study finds, in full, and the verdict on every statement of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import findings
import primitives_part
from tables import markdown

from windtunnel.fidelity.printing import alike
from windtunnel.study.folder.ledger import published, tally
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import AGAIN, BESIDE_SEEDS
from windtunnel.study.presets import plan_for
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import DECIDED, INCONCLUSIVE, UNTESTED

CLOSE = 0.025  # a corrected p-value that one test more or less would move past 0.05
COLUMNS = ["id", "statement", "published", "what decided", "verdict"]


def tallied(study: StudyFolder) -> str:
    """For README.md: how many of each kind."""
    ledger = study.ledger()
    theirs = published(ledger)
    return (
        f"{len(ledger)} statements ({theirs} from the paper, and {len(ledger) - theirs} of ours, each extending a"
        f" published one): {tally(ledger)}."
    )


def page(study: StudyFolder, results: Path) -> str:
    """The whole page."""
    ledger = study.ledger()
    lines = [
        "# The paper's claims",
        "",
        "Written by `python docs/making/pages.py` from `results/paper`; do not edit. [words.md](words.md) explains the"
        " terms.",
        "",
        "## What the study finds",
        "",
        *findings.in_full(study, results),
        "",
        "## The primitives",
        "",
        *primitives_part.in_full(study),
        "",
        "## How a verdict is made",
        "",
        f"{tallied(study)} {_how_far(study)} {_cost(study.head())}",
        "",
        "- Each statement has a *line*, a threshold taken from the published number. It is *reproduced* when the whole"
        " 95% interval over seeds lies on the claimed side of the line and the controls pass, *not reproduced* when it"
        " lies on the other side.",
        "- *Reproduced only …*: the main test passes but a control fails (what follows “only” names that control; its"
        " number comes after *But*), or one of several readings of the statement passes and another does not.",
        "- *Decided by*: the test on which the verdict turned, where a statement has controls or several readings. The"
        " number before it belongs to the statement as published.",
        "- *Inconclusive*: the interval includes the line; or it lies on one side but a control did not pass, training"
        " failed, or the result does not survive Holm's correction over all tests (its p-value is then given).",
        "- Scores and training dynamics are over all seeds of a cell (one architecture on one world). Instruments are"
        " over as many seeds as each number states: as a rule all of them where they decide a claim, and"
        f" {BESIDE_SEEDS} elsewhere.",
        *_close(ledger),
        "- Some cells trained badly at first, because of their learning rate or missing weight decay, and were rerun"
        " with a changed recipe or rule. Their first results are in `benchmarks/results/h200/search` and in the cells'"
        " own records; the reasons are in [log.md](log.md), which also lists every test that was changed after its"
        f" first verdict had been seen. {len(AGAIN)} cells that had left statements undecided were rerun on fresh"
        " seeds, some at another learning rate, as announced in the log beforehand; only the rerun counts. One cell"
        " that trained well (LSTM on bijection with replacement) kept the rate that an older, looser rule had chosen.",
        "- `.venv/bin/windtunnel claims results/paper --only ID` shows the numbers, intervals, controls and reasons of"
        " one statement. [geometry.md](geometry.md) puts those on geometry and mechanism in plain words.",
        "",
        "## The verdicts",
        "",
        *markdown(
            COLUMNS,
            [[f"`{e['id']}`", e["claim"], e["published"], decisive(e), e["verdict"]] for e in ledger],
        ),
    ]
    return "\n".join(lines) + "\n"


def _cost(head: Mapping[str, Any]) -> str:
    """How long the card was held; of a study from before that was noted, what its cells took."""
    seconds = head["seconds"]
    cards = ", ".join(sorted({made["device"] for made in head["environments"] if "triton" in made["versions"]}))
    if not seconds.get("held"):
        return f"Its cells took {seconds['gpu']:,.0f} seconds of {cards or 'a GPU'}."
    told = f"It occupied one {cards} for {seconds['held']:,.0f} seconds, including the first versions of cells that"
    cells = f"The final cells add up to {seconds['gpu']:,.0f} seconds, because several ran side by side."
    apart = sum(sitting["seconds"] for sitting in head["sittings"] if sitting["device"] == "cpu")
    rest = f" Some readings were made from the same weights on a CPU, in a further {apart:,.0f} seconds."
    return f"{told} were rerun. {cells}{rest * bool(apart)}"


def _how_far(study: StudyFolder) -> str:
    """How much of the plan is finished."""
    head = study.head()
    done, planned = len(head["finished"]), len(plan_for(head["preset"]).cells)
    if done == planned:
        return f"The study has finished all of its {done} cells."
    rest = f"what is not tested waits for the others{_never(study)}"
    return f"So far the study has finished {done} of its {planned} cells; {rest}."


def _never(study: StudyFolder) -> str:
    """What will not be tested by any cell."""
    ids = [entry["id"] for entry in study.ledger() if entry["outcome"] == UNTESTED and not entry.get("lacks")]
    return f", but for {', '.join(ids)}, whose number has no definition" if ids else ""


def _close(ledger: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which of the decided ones the correction spared by little; nothing where there are none."""
    named = [e["id"] for e in ledger if e["outcome"] in DECIDED and CLOSE < (e["adjusted_p_value"] or 0.0)]
    told = f"- Only just decided (p above {CLOSE:g} after Holm's correction): "
    return [f"{told}{', '.join(named)}."] if named else []


def decisive(entry: Mapping[str, Any]) -> str:
    """The primary test; and, where another one decided (a control, one of several places), that one after it; then the
    controls that failed, where it holds only in their words."""
    first = entry["reasons"][0]
    if entry["value"] is None:
        return first
    number = Quantity.of_record(entry["value"])
    told = first
    if not first.startswith(entry["of"]):
        told = f"{first}. Decided by {entry['of']}: {number}; the line is {alike(entry['line'])[0]}"
    on_a_side = number.side(entry["line"]) != "straddles"
    if entry["outcome"] == INCONCLUSIVE and on_a_side and not entry["held_back"]:  # what kept it open is said last
        told += f". But {entry['reasons'][-1]}"
    return ". But ".join([told, *entry.get("but", ())])
