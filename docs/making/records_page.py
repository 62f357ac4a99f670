"""docs/records.md: every attempt at a time to fidelity that `benchmarks/records.py` kept, and which of them stand."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

from tables import on_recall, short_commit, table

from windtunnel.training.speed.cases import PAIRS
from windtunnel.training.speed.records import EXACT_BELIEF, Attempt, attempts_in, records, rulings


def load_attempts(folder: Path) -> list[Attempt]:
    """Every attempt in the result files of `benchmarks/results`."""
    files = sorted(folder.glob("*/records/*.json"))
    return [one for file in files for one in attempts_in(json.loads(file.read_text()), str(file.relative_to(folder)))]


def _row(one: Attempt) -> list[str]:
    passed = sorted(value for value in one.seconds if math.isfinite(value))
    first, *later = one.setup_s
    setup = f"{first:.1f}{'*' * one.cache_filled} / {f'{statistics.median(later):.1f}' if later else '–'}"
    spread = f"{passed[0]:.1f} – {passed[-1]:.1f}" if passed else ""
    median = f"{one.median_s:.1f}" if math.isfinite(one.median_s) else "not reached"
    _, tunnel, model, target = one.key
    where = [f"{tunnel} / {model}", f"{target:g}", median, spread, f"{one.reached} of {len(one.seconds)}"]
    recipe = f"{one.recipe} ({one.note})" if one.note else one.recipe
    return [*where, setup, recipe, one.date[:10], short_commit(one.commit)]


def page(attempts: list[Attempt]) -> str:
    """The whole page."""
    columns = ["tunnel / model", "KL, bits", "seconds, median", "fastest – slowest", "seeds that passed"]
    columns += ["set-up, s: first / later in the same process", "recipe", "date", "commit"]
    lines = [
        "# Records: time to fidelity",
        "",
        "Written by `python docs/making/pages.py` from `benchmarks/results/*/records/`; do not edit. Each row"
        " gives the seconds that one network, training alone, needs to bring its validation KL down to the target: the"
        " median over all seeds (a seed that never gets there counts as the slowest), and the fastest and slowest of"
        " those that do. The clock excludes set-up (building, compiling, capturing) and validation. Set-up is listed"
        " separately: first for the first seed, which compiles (an asterisk: the compiler's cache was already filled by"
        " an earlier process), then as the median of the later seeds, which reuse that work in the same process. The"
        " network is validated a few times a second (`every_s` in the files), which limits the resolution. Reaching a"
        " target counts only once it is confirmed on 20,000 further validation episodes, unless the file says"
        " otherwise. A record is replaced only by an attempt of at least five seeds that is faster at p < 0.01"
        " (one-sided rank-sum test), and by more than the time between two validations. A world whose settings differ"
        " from the usual ones (they are then named) has records of its own. A record belongs to a tunnel and an"
        " architecture, whatever the network's size."
        + "".join(f" {line}" for line in on_recall(one.key[1] for one in attempts)),
        "",
    ]
    if not attempts:
        return "\n".join([*lines, "No attempt has been made yet."]) + "\n"
    for device in sorted({one.key[0] for one in attempts}):
        here = [one for one in attempts if one.key[0] == device]
        lines += [f"## {device}", ""]
        standing = records(here)
        lines += table(columns, [_row(one) for one in standing]) if standing else ["No record yet.", ""]
        others = [ruling for ruling in rulings(here) if ruling.attempt not in standing]
        if others:
            rows = [[*_row(ruling.attempt), f"{ruling.kind}, {ruling.why}"] for ruling in others]
            lines += ["### All other attempts, oldest first", "", *table([*columns, "verdict"], rows)]
    lines += _not_tried(attempts)
    return "\n".join(lines).rstrip() + "\n"


def _not_tried(attempts: list[Attempt]) -> list[str]:
    """Which tunnel × architecture nobody has tried with the usual labels."""
    tried = {(one.key[1].split()[0], one.key[2]) for one in attempts if EXACT_BELIEF not in one.key[1]}
    left = [pair for pair in PAIRS if tuple(pair.split("-", 1)) not in tried]
    return [f"Not tried yet, out of {len(PAIRS)} pairs: {', '.join(left)}."] if left else []
