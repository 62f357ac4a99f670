"""`python -m windtunnel.study`: a study where only torch, numpy, scipy, safetensors and jaxtyping are installed.

    python -m windtunnel.study --preset paper --plan                                  its cells, and what each will take
    python -m windtunnel.study --preset paper --out results/paper --max-minutes 9     go on for nine minutes
    python -m windtunnel.study … --only hmm-mamba hmm-lstm [--train-only]             with these cells alone
    python -m windtunnel.study --out carried --merge results/paper                    all but the weights, to carry away
    python -m windtunnel.study --out results/paper --merge carried                    … and to go on with elsewhere
    python -m windtunnel.study --out results/paper --export hmm-transformer           networks into the zoo

On a machine whose disk is lost afterwards: carry the merged folder away after each sitting and begin with it on the
next machine; finished cells are not made again, though their networks are gone.  `--disk-minutes` begins no cell that
this machine would lose half made.  Give the commit in WINDTUNNEL_COMMIT where git cannot tell it.

The `windtunnel` command does the same with progress bars, but needs rich and tyro.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from windtunnel.environment import default_device
from windtunnel.errors import InputError
from windtunnel.study import reproduce, zoo
from windtunnel.study.claims import CLAIMS
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import served
from windtunnel.study.plan import Plan
from windtunnel.study.presets import PRESETS, plan_for
from windtunnel.study.running.duration import beside_seconds, cell_seconds, duration, plan_seconds
from windtunnel.study.running.sitting import Scope
from windtunnel.training import load
from windtunnel.training.lock import locked


def main(words: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    options = _parser().parse_args(words)
    out = Path(options.out or Path("results") / "scratch" / options.preset)
    try:
        if options.plan:
            _tell_plan(plan_for(options.preset))
        elif options.export:
            for cell in options.export:
                run = load(StudyFolder(out).run(cell), device=options.device or default_device())
                print(zoo.export(run, cell, out=options.zoo))
        elif options.merge:
            _merge(StudyFolder(out), [StudyFolder(other) for other in options.merge])
        else:
            _run(options, out)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m windtunnel.study", description="Run a study, or go on with it.")
    add = parser.add_argument
    add("--preset", default="quick", help=" or ".join(PRESETS))
    add("--out", default=None, help="results folder; results/scratch/PRESET if not given")
    add("--max-minutes", type=float, default=None, help="stop after that long, with everything saved")
    add("--device", default=None)
    add("--lanes", type=int, default=1, help="cells made at a time, each in a process of its own")
    add("--trainings", type=int, default=1, help="of them that train at once: more in less time, each slower")
    add("--only", nargs="+", metavar="CELL", help="these cells alone")
    add("--train-only", action="store_true", help="train them, and leave scores and instruments to a later call")
    add("--claims-only", action="store_true", help="no instruments but those that claims read")
    add("--disk-minutes", type=float, default=None, help="how long this machine keeps its disk: begin nothing longer")
    add("--plan", action="store_true", help="list the cells and what each will take, and do nothing else")
    add("--merge", nargs="+", metavar="DIR", help="take over the finished cells of other folders, without weights")
    add("--export", nargs="+", metavar="CELL", help="write networks of these finished cells into the zoo")
    add("--zoo", default=None, help="folder of the zoo, for --export")
    return parser


def _run(options: argparse.Namespace, out: Path) -> None:
    only = None if options.only is None else tuple(options.only)
    scope = Scope(only, options.train_only, options.claims_only, options.disk_minutes)
    limits = {"device": options.device, "max_minutes": options.max_minutes, "scope": scope, "lanes": options.lanes}
    limits |= {"trainings": options.trainings}
    _tell(reproduce(options.preset, out, say=lambda line: print(line, flush=True), **limits))


def _merge(into: StudyFolder, others: list[StudyFolder]) -> None:
    for other in others:
        other.head()  # nothing is begun for a folder without a study
    with locked(into.path):
        for other in others:
            print(f"{other.path}: {len(into.take(other))} cells taken over")
        into.sum_up(CLAIMS)
    _tell(into)


def _tell(study: StudyFolder) -> None:
    for entry in study.ledger():
        print(f"{entry['id']:28} {entry['verdict']}")
    print(study.summary())


def _tell_plan(plan: Plan) -> None:
    """One line per cell: claims that read it, GPU seconds until it is finished, of the rest of its survey, so far."""
    sum_s = 0.0
    print(f"{'cell':40} {'claims':>6} {'finished, s':>11} {'survey, s':>9} {'in all, s':>9}")
    for cell in plan.cells:
        needed, more = cell_seconds(cell, plan), beside_seconds(cell, plan)
        sum_s += needed + more
        print(f"{cell.name:40} {served(cell):6d} {needed:11.0f} {more:9.0f} {sum_s:9.0f}")
    whole = plan_seconds(plan), plan_seconds(plan, beside=True)
    print(f"estimated for one H200, baselines included: claims {duration(whole[0])}, with surveys {duration(whole[1])}")


if __name__ == "__main__":
    sys.exit(main())
