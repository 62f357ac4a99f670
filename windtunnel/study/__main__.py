"""`python -m windtunnel.study`: a study where only torch, numpy, scipy, safetensors and jaxtyping are installed.

    python -m windtunnel.study --preset paper --out results/paper --max-minutes 9
    python -m windtunnel.study --out results/paper --export hmm-transformer hmm-mamba     networks into the zoo
    python -m windtunnel.study --zoo-table                                                and their table

The `windtunnel` command does the same with progress bars, but needs rich and tyro.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from windtunnel.environment import default_device
from windtunnel.errors import InputError
from windtunnel.study import reproduce, zoo
from windtunnel.study.presets import PRESETS
from windtunnel.training import load


def main(words: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m windtunnel.study", description="Run a study, or go on with it.")
    parser.add_argument("--preset", default="quick", help=" or ".join(PRESETS))
    parser.add_argument("--out", default=None, help="results folder")
    parser.add_argument("--max-minutes", type=float, default=None, help="stop after that long, with everything saved")
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--zoo-table", action="store_true", help="write the table of shipped networks and do nothing else"
    )
    parser.add_argument(
        "--export", nargs="+", metavar="CELL", help="write networks of these finished cells into the zoo"
    )
    parser.add_argument("--zoo", default=None, help="folder of the zoo, for --export")
    options = parser.parse_args(words)
    try:
        if options.export:
            for cell in options.export:
                run = load(Path(options.out or "results/scratch/paper") / "runs" / cell, device=default_device())
                print(zoo.export(run, cell, out=options.zoo))
            return 0
        if options.zoo_table:
            (zoo.folder() / "README.md").write_text(zoo.table())
            return 0
        limits = {"device": options.device, "max_minutes": options.max_minutes}
        study = reproduce(options.preset, options.out, say=lambda line: print(line, flush=True), **limits)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    head = study.head()
    print(f"{len(head['finished'])} cells finished; {head['seconds']['gpu']:.0f} GPU seconds in all")
    for entry in study.ledger():
        print(f"{entry['id']:28} {entry['verdict']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
