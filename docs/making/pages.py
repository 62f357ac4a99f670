"""Every page and part of a page that is made from committed results: written, or checked.

    python docs/making/pages.py            write them all
    python docs/making/pages.py --check    exit 1, naming those that are not what the results say

No result in them is typed by hand.  From `benchmarks/results`: docs/results.md (with some baselines of the study),
docs/records.md and two tables of README.md.  From `results/paper`: its own claims.json and table.csv (so that verdicts
follow the rules as they are now), docs/claims.md, docs/geometry.md, the figure and the other made parts of README.md.
From `zoo`: its README.md.  From the package itself: docs/map.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import claims_page
import geometry_page
import map_page
import primitives_figure
import primitives_part
import readme_parts
import records_page
import results_page
import zoo_page

from windtunnel.errors import InputError
from windtunnel.study.claims import CLAIMS
from windtunnel.study.folder.ledger import summaries
from windtunnel.study.folder.results import StudyFolder
from windtunnel.training.files import write_bytes

ROOT = Path(__file__).resolve().parents[2]
STUDY = Path("results") / "paper"


def pages(root: Path) -> dict[str, str | None]:
    """Path -> what it should hold; None: there should be no such file."""
    results = root / "benchmarks" / "results"
    study = StudyFolder(root / STUDY)
    found: dict[str, str | None] = {
        "docs/results.md": results_page.page(results, study if study.exists() else None),
        "docs/map.md": map_page.page(root) if (root / "windtunnel").is_dir() else None,
        "docs/records.md": records_page.page(records_page.load_attempts(results)),
        "docs/claims.md": claims_page.page(study, results) if study.exists() else None,
        "docs/geometry.md": geometry_page.page(study, results) if study.exists() else None,
        primitives_part.FIGURE: primitives_figure.figure(study) if study.exists() else None,
        "zoo/README.md": zoo_page.page(),
    }
    readme = (root / "README.md").read_text()
    found["README.md"] = readme_parts.filled(readme, readme_parts.parts(results, study if study.exists() else None))
    return found


def ledger(root: Path) -> dict[str, str | None]:
    """The study's own summaries, which the pages read: these come first."""
    study = StudyFolder(root / STUDY)
    if not study.exists():
        return {}
    return {str(STUDY / name): text for name, text in summaries(CLAIMS, study.evidence()).items()}


def stale(root: Path, wanted: dict[str, str | None]) -> list[str]:
    """Those that are not what they should be."""
    there = {name: (root / name).read_text() if (root / name).exists() else None for name in wanted}
    return [name for name, text in wanted.items() if there[name] != text]


def write(root: Path, wanted: dict[str, str | None]) -> None:
    """Bring those up to date that are not."""
    for name in stale(root, wanted):
        text = wanted[name]
        if text is None:
            (root / name).unlink()
        else:
            write_bytes(root / name, text.encode())
        print(f"{name}: {'removed' if text is None else 'written'}")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write every page that is made from committed results.")
    parser.add_argument("--check", action="store_true", help="only say which are not up to date")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository")
    options = parser.parse_args(words)
    if not (options.root / "README.md").is_file():
        print(f"error: --root = {str(options.root)!r}: must be the folder of the repository", file=sys.stderr)
        sys.exit(2)
    try:
        make(options.root, options.check)
    except InputError as error:  # of a result file
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def make(root: Path, check: bool) -> None:
    """All of them, or only say which are not up to date."""
    for made in (ledger, pages):
        wanted = made(root)
        if not check:
            write(root, wanted)
        elif old := stale(root, wanted):
            sys.exit(f"not what the results say: {', '.join(old)}; run: python docs/making/pages.py")


if __name__ == "__main__":
    main()
