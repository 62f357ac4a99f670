"""Write docs/geometry.md from the committed survey files: verdicts by the rules of `statements`, no typed numbers.

python benchmarks/geometry_page.py            write the page
python benchmarks/geometry_page.py --check    exit 1 if the page is not what the files say
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from statements import RATE, STATEMENTS, Cell, Statement
from tables import made_with, table

HERE = Path(__file__).resolve().parent
SURVEYS = HERE / "results" / "h200" / "survey"
PAGE = HERE.parent / "docs" / "geometry.md"


def load(folder: Path) -> dict[str, Cell]:
    """Every survey file of a folder, by the name of its cell."""
    contents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {content["cell"]: Cell(content["cell"], content) for content in contents}


def made_how(cells: dict[str, Cell]) -> list[str]:
    """Where and on what the surveys were made, and how well the networks had learned."""
    rows = []
    for name, cell in cells.items():
        content = cell.content
        if "error" in content:
            rows.append([name, "", "", "", content["error"]])
            continue
        score, settings, seconds = content["score"], content["settings"], content["seconds"]
        seeds = len(settings["recipe"]["seeds"])
        told = (
            f"{score['kl_bits']:.2g} [{score['low']:.2g}, {score['high']:.2g}] (uniform {score['uniform_kl_bits']:.2g})"
        )
        count = f"{seeds} × {settings['recipe']['steps']}"
        rows.append(
            [name, count, told, f"{settings['episodes']}", f"{seconds['training']:.0f} + {seconds['survey']:.0f}"]
        )
    columns = ["network", "seeds × steps", "KL, bits", "episodes looked at", "seconds: training + survey"]
    return [
        "## The networks",
        "",
        made_with(next(iter(cells.values())).content["environment"]),
        "",
        *table(columns, rows),
    ]


def section(statement: Statement, cells: dict[str, Cell]) -> list[str]:
    """One statement: what was published, the rule, the answers."""
    rows = [[line.network, f"**{line.verdict}**", line.numbers] for line in statement.lines(cells)]
    head = [f"## {statement.title}", "", f"Published: {statement.published}.", "", statement.rule, ""]
    return head + table(["network", "verdict", "numbers"], rows)


def page(cells: dict[str, Cell]) -> str:
    """The whole page."""
    lines = [
        "# Geometry and mechanism: which statements of the paper hold",
        "",
        "Written by `python benchmarks/geometry_page.py` from `benchmarks/results/h200/survey/`; do not edit. Every"
        " number is a mean over seeds, with its range; in square brackets the same number for each null, which is the"
        f" same instrument on something that carries no signal. A control is beaten when p ≤ {RATE} against the"
        " strongest null in every seed. A statement *holds* when every seed is over its line and beats its control;"
        " *only without its control* when every seed is over the line but some control is not beaten; it is *not"
        " identifiable* when the data cannot tell, and *not judged* where a network has not learned its task or has"
        " no such tensor.",
        "",
    ]
    rows = []
    for statement in STATEMENTS:
        first = statement.lines(cells)[0]
        rows.append([statement.title, statement.published, first.network, f"**{first.verdict}**"])
    lines += table(["statement", "published", "asked of", "verdict"], rows)
    for statement in STATEMENTS:
        lines += section(statement, cells)
    return "\n".join(lines + made_how(cells)).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/geometry.md from the committed survey files.")
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    parser.add_argument("--surveys", default=str(SURVEYS), help="folder with the survey files")
    parser.add_argument("--page", default=str(PAGE), help="where the page is")
    options = parser.parse_args()
    cells, target = load(Path(options.surveys)), Path(options.page)
    if options.check:
        told = target.read_text() if target.exists() else ""
        if told != (page(cells) if cells else ""):  # no files, no page
            sys.exit("docs/geometry.md is not what the survey files say; run: python benchmarks/geometry_page.py")
    elif not cells:
        sys.exit(f"{options.surveys}: must hold survey files; python benchmarks/survey.py --out makes them")
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(cells))


if __name__ == "__main__":
    main()
