"""The parts of README.md that are made from committed results: what recipes reach, how fast, and of the study the
findings and verdicts in short, the primitives table and its figure.

`python docs/making/pages.py` puts them between `<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from claims_page import counted
from findings import in_short
from readme_speed import speed
from tables import BUDGET, budget, interval, load, on_recall

from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.folder.files import markdown
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import ARCHITECTURES
from windtunnel.study.primitive_rows import Row, in_order
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.trials import PRIMITIVES
from windtunnel.training.speed.records import world_of
from windtunnel.training.standard import NAMED

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
    return found | {"findings": in_short(study, results), "verdicts": counted(study), "primitives": primitives(study)}


def reach(folder: Path, study: StudyFolder | None) -> str:
    """A row per recipe; then exact filters that see only the last observations, for scale."""
    rows, devices, worlds = [], set(), set()
    for name, (words, published) in REACH.items():
        result = load(folder / f"{name}.json")
        home, recipe = result["scores"]["home"], result["recipe"]
        devices.add(result["environment"]["device"])
        worlds.add(world_of(recipe["tunnel"]))
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
    return "\n".join([" ".join([told, *on_recall(worlds)]), "", *markdown(columns, rows)])


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


def primitives(study: StudyFolder) -> str:
    """Who realises which primitive, networks first, then the predictors that show the scale at work."""
    rows = in_order(study.cells())
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
        " correction over all claims leaves of it stands in docs/claims.md). A network that is no"
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
    if row.record["bimodal"]:
        median = number(row.record["median"])
        return f"{row.record['successes']} of {len(row.record['per_seed'])} seeds, median {median:.4g}"
    share = Quantity.of_record(row.record["share"])
    return f"{row.spoken} {share.brief(digits=4)}"
