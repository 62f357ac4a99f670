"""How a survey is shown: the clearest measurement of each question beside its strongest null, or everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from windtunnel.cli import show
from windtunnel.geometry import Measurement
from windtunnel.geometry.measurement import least_p, part_in_words
from windtunnel.mechanism import Survey
from windtunnel.mechanism.survey import Entry

Found = tuple[Entry, Measurement]
UNSAID = ("target", "beyond", "path", "rank", "steps")  # what a summary leaves to --all, or its first column tells
EVERYWHERE = ("readouts", "all")  # positions that single out none
ASKED = {"above": "", "below": "↓ ", "both": "↕ "}  # on which side of its null a value counts: above, unless told
BEST = ", best of all"
FAR = 1000.0  # standard deviations of a null: beyond, only their order of magnitude means anything

NULLS = (
    "A null is the same reading where there is nothing to find; a value counts by how far it lies above its null (↓"
    " below, ↕ on either side). Effect: that distance in the null's standard deviations; p: how often the null gets as"
    " far."
)
CHOSEN = (
    "Each line is the clearest of several readings (of: how many), p not corrected for that choice; --all prints every"
    " one. "
)
REST = "How nulls are drawn and p is computed: docs/instruments.md."


def print_summary(survey: Survey) -> None:
    """One line per question: what an instrument's measurements are called before the first comma."""
    rows, shown, unanswered = [], [], []
    many = len({entry.seed for entry, _ in survey.measurements()} - {None}) > 1
    for (instrument, question), found in _questions(survey).items():
        answers = [pair for pair in found if not math.isnan(pair[1].value)]
        if answers:
            entry, strongest = _clearest(answers)
            shown.append(strongest)
            rows.append([*_summary_row(entry, strongest, many), str(len(answers)), instrument])
        else:
            unanswered.append(f"{question} ({found[0][1].note})")
    columns = ["measured", "where", "value", "null", "which null", "effect", "p", "of", "instrument"]
    show.print_table("", columns, rows, "llrrlrrrl", spare=("instrument", "which null"))
    if unanswered:
        show.print_text(f"no answer here: {'; '.join(unanswered)}")
    _print_legend(shown, CHOSEN)


def print_all(survey: Survey) -> None:
    """A table per instrument, with every measurement."""
    columns = ["measured", "seed", "where", "value", "95% interval", "nulls (mean)", "effect", "p"]
    for name in survey.settings["instruments"]:
        if rows := [_row(entry, found) for entry, found in survey.measurements(name)]:
            show.print_table(name, columns, rows, "lllrrlrr", spare=("95% interval", "effect", "seed"))
    _print_legend([found for _, found in survey.measurements()])


def _print_legend(shown: Sequence[Measurement], more: str = "") -> None:
    """How to read the table, in two lines; the rest is in docs/instruments.md."""
    floor = "≤: as small as p can be with so few draws. " if any(map(at_floor, shown)) else ""
    show.print_text(NULLS, "dim")
    show.print_text(f"{more}{floor}{REST}", "dim")


def at_floor(found: Measurement) -> bool:
    """Is p the smallest that can come out of counting so many draws?"""
    which = found.strongest_null
    return which is not None and found.p_value == least_p(np.size(found.nulls[which]), found.side)


def _questions(survey: Survey) -> dict[tuple[str, str], list[Found]]:
    """(instrument, question) -> its measurements, in the order in which the instruments ran."""
    grouped: dict[tuple[str, str], list[Found]] = {}
    for entry, found in survey.measurements():
        grouped.setdefault((entry.instrument, found.name.partition(",")[0]), []).append((entry, found))
    return grouped


def _clearest(answers: Sequence[Found]) -> Found:
    """The smallest p.  Of many that are equally small, as where no draw of any null gets as far, the one furthest from
    its null: in the null's standard deviations, as a question may have readings in several units, and then in the unit
    of the reading so found, in which a small loss beside quiet nulls is not a large one."""
    first = min(answers, key=_strength)[1]
    rivals = [pair for pair in answers if _kind(pair[1]) == _kind(first) and pair[1].p_value == first.p_value]
    return max(rivals, key=lambda pair: _distance(pair[1]))


def _strength(pair: Found) -> tuple[float, float]:
    """Smallest p first, then the largest distance from the null; what has no null comes last."""
    found = pair[1]
    return (2.0 if found.p_value is None else found.p_value, -abs(found.effect or 0.0))


def _kind(found: Measurement) -> tuple[str, str, str]:
    """Readings that may be held against each other."""
    return found.name.removesuffix(BEST), found.unit, found.side


def _distance(found: Measurement) -> float:
    """How far a value lies from its strongest null, on the side that counts, in its own unit."""
    which = found.strongest_null
    if which is None:
        return 0.0
    beyond = found.value - float(np.mean(found.nulls[which]))
    return {"above": beyond, "below": -beyond, "both": abs(beyond)}[found.side]


def _summary_row(entry: Entry, found: Measurement, many: bool) -> list[str]:
    name = found.name.removesuffix(BEST)
    named = name if found.unit in ("", *name.split()) else f"{name}, {found.unit}"
    which = found.strongest_null
    mean = "" if which is None else show.printed(float(np.mean(found.nulls[which])))
    null = ["", ""] if which is None else [f"{ASKED[found.side]}{mean}", which]
    seed = [f"seed {entry.seed}"] if many and entry.seed is not None else []  # of a single one the heading tells
    return [named, ", ".join([*brief(found.where), *seed]), show.printed(found.value), *null, *_against(found)]


def brief(where: Mapping[str, object]) -> list[str]:
    """A place in a few words, most of them without the name of what they tell.

    >>> brief({"layer": 0, "part": "mixer", "method": "zero"}), brief({"tensor": "blocks.2.residual", "rank": 7})
    (['layer 0', 'mixer', 'by zero'], ['after layer 2'])
    """
    return [
        f"by {_words(value)}" if key == "method" else part_in_words(key, _words(value))
        for key, value in sorted(where.items(), key=lambda part: part[0] == "method")  # how comes after where
        if key not in UNSAID and not (key == "positions" and value in EVERYWHERE)
    ]


def _row(entry: Entry, found: Measurement) -> list[str]:
    seed = "" if entry.seed is None else str(entry.seed)
    where = ", ".join(f"{key} {_words(value)}" for key, value in found.where.items())
    if math.isnan(found.value):
        return [found.name, seed, where, "–", "", found.note, "", ""]
    interval = "" if math.isnan(found.low) else f"{show.printed(found.low)} to {show.printed(found.high)}"
    nulls = "; ".join(f"{name} {show.printed(float(np.mean(sample)))}" for name, sample in found.nulls.items())
    value = f"{show.printed(found.value)} {found.unit}".rstrip()
    return [found.name, seed, where, value, interval, nulls or found.note, *_against(found)]


def _against(found: Measurement) -> list[str]:
    """Distance from the strongest null, and p; ≤ where p could not be smaller."""
    effect, p = found.effect, found.p_value
    far = effect is not None and abs(effect) >= FAR
    return [
        "" if effect is None else f"{effect:+.0e}" if far else f"{effect:+.1f}",
        "" if p is None else f"{'≤' * at_floor(found)}{p:.3f}" if p >= 5e-4 else f"{p:.0e}",
    ]


def _words(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, Iterable) and not isinstance(value, str) else str(value)
