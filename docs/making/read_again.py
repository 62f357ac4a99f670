"""docs/geometry.md, a part of it: readings of the study beside those of the instruments as they are now.

Made from what `benchmarks/resurvey.py` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tables import commit_of, load, table

from windtunnel.json_numbers import from_json

FILE = Path("cpu") / "resurvey.json"


def section(results: Path) -> list[str]:
    """What moved, and whether a verdict would; nothing where it was not measured."""
    if not (results / FILE).exists():
        return []
    found = load(results / FILE)
    rows = [_row(name, [row for row in found["resurvey"] if row["network"] == name]) for name in found["networks"]]
    moved = [_moved(row["network"], one) for row in found["resurvey"] for one in row["moved"]]
    changed = [f"{one['claim']} would be {one['now']}, not {one['then']}" for one in found["verdicts"]]
    told = "; ".join(changed) or f"none of the {found['claims']} verdicts changes"
    return [
        "## Measured again, with corrected instruments",
        "",
        "Instruments have been corrected since these surveys were made. The networks of the study that ship with the"
        " package (one seed of a cell each, stored in half precision) were measured again, with the instruments as"
        f" they were at commit {commit_of(found['environment'])} (revision {found['revision']}): everything that the"
        f" study had asked of that seed, on the same episodes (`benchmarks/resurvey.py`, `benchmarks/results/{FILE}`)."
        " A reading *moved* if its interval then and its interval now do not overlap. With these readings in place"
        f" of the old ones of the same seeds, {told}. The other seeds and networks were not measured again.",
        "",
        *table(["network", "readings then and now", "moved", "p crossed 0.05", "only now", "only then"], rows),
        *(["Moved:", "", *(f"- {line}" for line in moved), ""] if moved else []),
    ]


def _row(name: str, mine: list[dict[str, Any]]) -> list[str]:
    counts = [sum(row["both"] for row in mine), sum(len(row["moved"]) for row in mine)]
    counts += [sum(row[part] for row in mine) for part in ("crossed", "only_now", "only_then")]
    return [name, *map(str, counts)]


def _moved(network: str, one: dict[str, Any]) -> str:
    place = ", ".join(f"{key} {value}" for key, value in one["where"].items() if key != "seed")
    then, now = (_interval(one[when]) for when in ("then", "now"))
    return f"{network}, {one['name']} ({place}): {then} then, {now} now"


def _interval(ends: list[Any]) -> str:
    if ends[0] is None:
        return "no number"
    value, low, high = map(from_json, ends)
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"
