"""The parts of README.md that are made from committed results: what its first commands print, how fast it is, and of
the study the findings and verdicts in short and the primitives table with its figure.

`python docs/making/pages.py` puts them between `<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

import claims_page
import findings
import primitives_part
from readme_speed import speed

from windtunnel.study.folder.results import StudyFolder

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


FIRST_RUN = Path("cpu") / "first-run.txt"
"""What the first commands of README.md printed, under a line that says where."""


def first_run(results: Path) -> str:
    """Its last table: the run beside the baselines."""
    lines = (results / FIRST_RUN).read_text().splitlines()
    first = max(number for number, line in enumerate(lines) if line.split()[:2] == ["predictor", "KL"])
    last = next(number for number in range(first, len(lines)) if lines[number].startswith(" exact belief"))
    return "\n".join(["```", *(line.rstrip() for line in lines[first - 1 : last + 1]), "```"])


def parts(results: Path, study: StudyFolder | None) -> dict[str, str]:
    """Name -> Markdown."""
    found = {"speed": speed(results), "first-run": first_run(results)}
    if study is None:
        return found | {"findings": NOT_YET, "verdicts": NOT_YET, "primitives": "No networks yet, so no table."}
    told = {"findings": findings.in_short(study, results), "verdicts": claims_page.tallied(study)}
    return found | told | {"primitives": primitives_part.in_short(study)}
