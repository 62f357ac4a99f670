"""The parts of README.md that are made from committed results: what recipes reach, how fast, and of the study the
verdicts in short, the primitives table and its figure.

`python docs/making/pages.py` puts them between `<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from findings import findings
from readme_speed import speed
from tables import BUDGET, budget, interval, load

from windtunnel.study.evidence import Evidence, NotMeasured, cell_not_run
from windtunnel.study.files import markdown
from windtunnel.study.ledger import tally
from windtunnel.study.paper_plan import ARCHITECTURES, BESIDE_SEEDS
from windtunnel.study.presets import plan_for
from windtunnel.study.primitives import PRIMITIVES
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.results import StudyFolder
from windtunnel.study.scorecard import Row, scorecard
from windtunnel.study.verdict import DECIDED, INCONCLUSIVE, UNTESTED
from windtunnel.training.standard import NAMED

CLOSE = 0.025  # a corrected p-value that one test more or less would move past 0.05
FIGURE = "docs/primitives.svg"
MADE = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOT_YET = (
    "The full-size study (`windtunnel reproduce --preset paper`, one GPU) has not been run yet: no verdicts so far."
)


def filled(text: str, parts: dict[str, str]) -> str:
    """README.md with its parts anew; each must have its place, and each place its part."""
    places = [name for _, name, _ in MADE.findall(text)]
    if sorted(places) != sorted(parts):
        raise ValueError(f"README.md has places for {places}, and there are parts {list(parts)}")
    return MADE.sub(lambda found: f"{found[1]}{parts[found[2]]}\n{found[3]}", text)


REACH = {
    "hmm-transformer-long": ("HMM, Transformer 9 × 256 (7.1M), the longest", "7.5e-5"),
    "hmm-transformer-9x256": ("HMM, Transformer 9 × 256 (7.1M)", "7.5e-5"),
    "hmm-transformer": ("HMM, Transformer", "0.049"),
    "hmm-mamba": ("HMM, Mamba", "0.024"),
    "hmm-lstm": ("HMM, residual LSTM", ""),
    "hmm-lstm-stacked": ("HMM, stacked LSTM, AdamW at 3e-4", "0.411"),
    "hmm-mlp": ("HMM, MLP with full context", ""),
    "hmm-mlp-position": ("HMM, MLP that sees one position", "0.40"),
    "hmm-linear-attention": ("HMM, linear attention", ""),
    "bijection-transformer-posterior": ("bijection, Transformer, the exact belief as target", ""),
    "bijection-transformer": ("bijection, Transformer, hard labels", "0.003, 0.007"),
    "bijection-replacement-transformer": ("bijection with replacement, Transformer, hard labels", ""),
    "recall-transformer": ("recall of 64 pairs, Transformer, hard labels", ""),
}
"""Result file -> words, and the entropy error that the paper gives (its tables; two where its versions differ)."""


def parts(results: Path, study: StudyFolder | None) -> dict[str, str]:
    """Name -> Markdown."""
    found = {"reach": reach(results / "h200" / "reach", study), "speed": speed(results)}
    if study is None:
        return found | {"findings": NOT_YET, "verdicts": NOT_YET, "primitives": "No networks yet, so no table."}
    return found | {"findings": findings(study, results), "verdicts": verdicts(study), "primitives": primitives(study)}


def reach(folder: Path, study: StudyFolder | None) -> str:
    """A row per recipe; then exact filters that see only the last observations, for scale."""
    rows, devices = [], set()
    for name, (words, published) in REACH.items():
        result = load(folder / f"{name}.json")
        home, recipe = result["scores"]["home"], result["recipe"]
        devices.add(result["environment"]["device"])
        longer, now = result["scores"].get("length-50"), NAMED[name]()
        if (now.steps, now.batch) != (recipe["steps"], recipe["batch"]):
            words += f" (the recipe has {now.steps:,} steps of {now.batch:,} now)"
        scores = [interval(home[metric]) for metric in ("kl_bits", "entropy_mae_bits", "curve_mae_bits")]
        far = interval(longer["entropy_mae_bits"]) if longer else ""
        rows.append([words, budget(recipe), *scores, far, published])
    rows += _filters(study.evidence()) if study is not None else []
    columns = ["2.67M parameters each, unless said", BUDGET, "KL from the exact belief, bits"]
    columns += ["entropy error per sequence, bits", "of the averaged curve"]
    columns += ["per sequence at length 50, trained at 20", "the paper's entropy error at 20"]
    told = f"{' / '.join(sorted(devices))}; intervals are 95%, over seeds (over sequences where there is one)."
    told += " On the HMM the target is the exact belief; the optimiser is Muon where no other is named."
    return "\n".join([told, "", *markdown(columns, rows)])


def _filters(evidence: Evidence) -> list[list[str]]:
    """Rows of those that were measured."""
    rows, metrics = [], ("kl_bits", "entropy_mae_bits", "curve_mae_bits")
    names = {f"window-{seen}": f"the exact filter of the last {seen} observations" for seen in (2, 4, 8)}
    names["window-4-marginal"] = "the same of 4, started from what the header alone tells"
    for name, words in names.items():
        with suppress(NotMeasured):
            scores = [f"{evidence.baseline('hmm', name, metric):.2g}" for metric in metrics]
            rows.append([f"*HMM, {words}*", "", *scores, "", ""])
    return rows


def verdicts(study: StudyFolder) -> str:
    """How many of each kind, and those that were tested, one row each."""
    ledger, head = study.ledger(), study.head()
    unpublished = sum(entry["published"].startswith("none") for entry in ledger)
    lines = [
        f"Of {len(ledger)} statements, {len(ledger) - unpublished} of them the paper's and {unpublished} of our own"
        f" that take one of those further: {tally(ledger)}. All of them with numbers, intervals and reasons:"
        " `.venv/bin/windtunnel claims results/paper`; those on geometry and mechanism in plain words:"
        " [docs/geometry.md](docs/geometry.md).",
        "",
        "- Each statement has a line, taken from the published number: it is *reproduced* when the whole 95% interval"
        " over seeds lies on the claimed side of it and the controls pass, *not reproduced* when it lies on the other.",
        "- *Inconclusive*: the interval holds the line, or it lies on one side and a control did not pass, training"
        " failed, or Holm's correction over all tests asks for more (then with its p-value).",
        "- Scores and training dynamics are over all seeds of a cell (one architecture on one world), instruments over"
        f" as many as stand beside each number: all, as a rule, where they decide a claim, {BESIDE_SEEDS} elsewhere.",
        f"- {_how_far(study)} {_cost(head)}",
        *_close(ledger),
        "",
        "<details><summary>The verdicts</summary>",
        "",
        *markdown(
            ["statement", "published", "what decided", "verdict"],
            [[e["claim"], e["published"], _decisive(e), e["verdict"]] for e in ledger if e["outcome"] != UNTESTED],
        ),
        "",
        "</details>",
    ]
    return "\n".join(lines)


def _cost(head: Mapping[str, Any]) -> str:
    """How long the card was held; of a study from before that was noted, what its cells took."""
    seconds = head["seconds"]
    cards = ", ".join(sorted({made["device"] for made in head["environments"] if "triton" in made["versions"]}))
    if not seconds.get("held"):
        return f"Its cells took {seconds['gpu']:,.0f} seconds of {cards or 'a GPU'}."
    told = f"It held one {cards} for {seconds['held']:,.0f} seconds"
    cells = f"the cells as they stand spent {seconds['gpu']:,.0f}, several of them side by side"
    apart = sum(sitting["seconds"] for sitting in head["sittings"] if sitting["device"] == "cpu")
    rest = f" Some readings were made from the same weights on a CPU, in {apart:,.0f} more." if apart else ""
    return f"{told}, first versions of cells that were made again included; {cells}.{rest}"


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
    ids = [
        entry["id"]
        for entry in study.ledger()
        if entry["outcome"] == UNTESTED and not any(map(cell_not_run, entry["reasons"]))
    ]
    return f", but for {', '.join(ids)}, whose number has no definition" if ids else ""


def _close(ledger: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which of the decided ones the correction spared by little; nothing where there are none."""
    named = [e["id"] for e in ledger if e["outcome"] in DECIDED and CLOSE < (e["adjusted_p_value"] or 0.0)]
    return [f"- Decided by little, at a corrected p-value above {CLOSE:g}: {', '.join(named)}."] if named else []


def _decisive(entry: Mapping[str, Any]) -> str:
    """The primary test; and, where another one decided (a control, one of several places), that one after it."""
    first = entry["reasons"][0]
    if entry["value"] is None:
        return first
    number = Quantity.of_record(entry["value"])
    told = first
    if not first.startswith(entry["of"]):
        told = f"{first}. Decided by {entry['of']}: {number}; the line is {entry['line']:.3g}"
    on_a_side = number.side(entry["line"]) != "straddles"
    if entry["outcome"] == INCONCLUSIVE and on_a_side and not entry["held_back"]:  # what kept it open is said last
        told += f". But {entry['reasons'][-1]}"
    return told


def primitives(study: StudyFolder) -> str:
    """Who realises which primitive, networks first, then the predictors that show the scale at work."""
    rows = scorecard(study.cells())
    worlds = list(dict.fromkeys((row.primitive, row.world) for row in rows))
    worlds.sort(key=lambda place: PRIMITIVES.index(place[0]))
    found: dict[tuple[bool, str], dict[tuple[str, str], Row]] = {}
    for row in rows:
        found.setdefault((not row.network, row.subject), {})[row.primitive, row.world] = row
    body = [
        [f"**{name}**" if not other else name, *(_share(found[other, name].get(at)) for at in worlds)]
        for other, name in sorted(found, key=_place)
    ]
    lines = [
        "Share of what a primitive is worth, 1 − KL/KL(B): B has every primitive but the one tested and stands at 0,"
        " exact inference at 1. Realised: the interval lies above 0.95; absent: below 0.10 (each by itself; what the"
        " correction over all claims leaves of it stands in the ledger). A network that is no"
        " better than B lacks more than the primitive (it sees too little, or its training failed), so that nothing is"
        " shown about the primitive itself.",
        "",
        *markdown(["", *(f"{primitive}: {world}" for primitive, world in worlds)], body),
        "",
        f"![shares of the primitives that each architecture realises, one dot per seed]({FIGURE})",
    ]
    return "\n".join(lines)


def _place(subject: tuple[bool, str]) -> tuple[bool, int, str]:
    other, name = subject
    return other, ARCHITECTURES.index(name) if name in ARCHITECTURES else len(ARCHITECTURES), name


def _share(row: Row | None) -> str:
    if row is None:
        return ""
    if row.share["bimodal"]:
        median = number(row.share["median"])
        return f"{row.share['successes']} of {len(row.share['per_seed'])} seeds, median {median:.4g}"
    share = Quantity.of_record(row.share["share"])
    worse = " (no better than B)" if row.failed else ""
    return f"{row.state}{worse} {share.brief(digits=4)}"
