"""Who realises which primitive: a short table and a figure for README.md, everything for docs/claims.md."""

from __future__ import annotations

from tables import markdown

from windtunnel.json_numbers import from_json
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import ARCHITECTURES
from windtunnel.study.primitive_rows import Row, in_order
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import ABSENT, REALISED, Share
from windtunnel.study.trials import PRIMITIVES

FIGURE = "docs/primitives.svg"
SIGNS = {"realised": "✓", "partial": "◐", "absent": "✗", "unclear": "?", "void": "–"}
FAILED = "(✗)"  # worse than B, so that nothing is shown about the primitive

Place = tuple[str, str]
"""A primitive and the world that tests it."""


def in_short(study: StudyFolder) -> str:
    """Networks only, and of each share no more than the number."""
    worlds, found = _table(study)
    body = [[f"**{name}**", *(_sign(row.get(at)) for at in worlds)] for (other, name), row in found if not other]
    return "\n".join(
        [
            *markdown(["", *(f"{primitive}<br>{world}" for primitive, world in worlds)], body),
            "",
            _legend(body),
            "",
            _budgets(study, worlds, [name for (other, name), _ in found if not other]),
            "",
            f"![share of each primitive that each architecture realises, one dot per seed]({FIGURE})",
        ]
    )


def _legend(body: list[list[str]]) -> str:
    """What the signs mean that are there."""
    meanings = {
        "✓": f"realised: the whole 95% interval over seeds is above {REALISED:g}",
        "◐": "partial",
        "✗": f"absent at this budget: below {ABSENT:.2f} (more training may change that: see mamba-long)",
        "?": "undecided",
        FAILED: "worse than the predictor that lacks the primitive: its training failed or it sees too little, so this"
        " says nothing about the primitive",
    }
    there = {field.split()[0] for row in body for field in row if field}
    return "; ".join(f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in there) + "."


def in_full(study: StudyFolder) -> list[str]:
    """With intervals, and with the predictors that show the scale at work."""
    worlds, found = _table(study)
    body = [[name if other else f"**{name}**", *(_share(row.get(at)) for at in worlds)] for (other, name), row in found]
    return [
        "The share of a primitive is 1 − KL/KL(B). B is the best predictor that has every primitive but the one tested:"
        f" it stands at 0, exact inference at 1. Realised: the interval lies above {REALISED:g}; absent: below"
        f" {ABSENT:.2f} (each by itself; the verdicts below are corrected over all claims). A network that is no better"
        " than B may lack more than the primitive (it sees too little, or its training failed), so nothing is shown"
        " about the primitive itself.",
        "",
        *markdown(["", *(f"{primitive}: {world}" for primitive, world in worlds)], body),
    ]


def _table(study: StudyFolder) -> tuple[list[Place], list[tuple[tuple[bool, str], dict[Place, Row]]]]:
    """The columns, and the rows with what is in them: networks first, then predictors; whether it is one, and who."""
    rows = in_order(study.cells())
    worlds = list(dict.fromkeys((row.primitive, row.world) for row in rows))
    worlds.sort(key=lambda place: PRIMITIVES.index(place[0]))
    found: dict[tuple[bool, str], dict[Place, Row]] = {}
    for row in rows:
        found.setdefault((not row.network, row.subject), {})[row.primitive, row.world] = row
    return worlds, sorted(found.items(), key=lambda item: _order(*item[0]))


def _budgets(study: StudyFolder, worlds: list[Place], names: list[str]) -> str:
    """Who had as many sequences as the Transformer of the same world, and a sweep of its own; and who had not."""
    cells, exceptions = study.cells(), []
    for name in names:
        pairs = [(cells.get(f"{world}-{name}"), cells.get(f"{world}-transformer")) for _, world in worlds]
        known = [(cell, usual) for cell, usual in pairs if cell and usual]
        times = {cell["sequences"] / usual["sequences"] for cell, usual in known}
        differs = [f"{one:g} times the sequences" for one in sorted(times - {1.0})]
        differs += ["no sweep"] * any("sweep" not in cell for cell, _ in known)
        if differs:
            exceptions.append(f"{name} ({', '.join(differs)})")
    rule = "In each world, all networks saw the same number of training sequences and each had its own learning-rate"
    rule += " sweep."
    return f"{rule} Exceptions: {' and '.join(exceptions)}." if exceptions else rule


def _order(other: bool, name: str) -> tuple[bool, int, str]:
    return other, ARCHITECTURES.index(name) if name in ARCHITECTURES else len(ARCHITECTURES), name


def _sign(row: Row | None) -> str:
    if row is None:
        return ""
    if row.record["bimodal"]:
        return _by_seed(row)
    sign = FAILED if Share.of_record(row.record).failed and row.state != "void" else SIGNS[row.state]
    return f"{sign} {from_json(row.record['share']['mean']):.3f}".replace("-", "−")


def _share(row: Row | None) -> str:
    if row is None:
        return ""
    if row.record["bimodal"]:
        return f"{_by_seed(row)}, median {from_json(row.record['median']):.4g}"
    return f"{row.spoken} {Quantity.of_record(row.record['share']).brief(digits=4)}"


def _by_seed(row: Row) -> str:
    """Outcomes that fall apart over seeds have no mean worth telling."""
    return f"{row.record['successes']} of {len(row.record['per_seed'])} seeds"
