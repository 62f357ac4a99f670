"""`windtunnel reproduce`: test the paper's claims.  The same command again resumes a stopped study."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from windtunnel.cli import show
from windtunnel.cli.flags import Device, Float, Folder, Int
from windtunnel.cli.ledger import print_costs, print_ledger, print_primitives, print_verdicts, print_zoo
from windtunnel.cli.parse import parse
from windtunnel.cli.progress import interruptible, say, watch
from windtunnel.environment import cores, default_device, require_device
from windtunnel.study import reproduce, zoo
from windtunnel.study.folder.ledger import tally
from windtunnel.study.folder.results import StudyFolder, committed
from windtunnel.study.presets import plan_for

TOKENS = 60_000  # positions of the fresh episodes on which a shipped network is scored: seconds each on two cores
MOST_CPU_LANES = 4  # there are only so many cells, and each process holds a torch of its own
LATE_S, FEWER = 200, 4  # a machine so busy that the study took this long scores on so many times fewer


@dataclass(frozen=True)
class Reproduce:
    """Test the paper's claims.  Run the same command again to resume an unfinished study; finished work is kept.

    --preset quick is a demonstration with small networks, under six minutes on two CPU cores.  It then shows the
    verdicts of the committed full-size study, and scores the shipped networks on fresh episodes.

    --preset paper is the full-size study, and needs a GPU.
    """

    preset: Literal["quick", "paper"] = "quick"
    """Which study; see above."""
    out: Folder = None
    """Results folder. Default: results/scratch/PRESET."""
    max_minutes: Float = None
    """Stop after this many minutes, with everything saved; run the same command again to resume."""
    lanes: Int = None
    """Cells made at the same time, one process each. Default: on a CPU one per core, at most four; on a GPU one."""
    trainings: Int = None
    """How many of the lanes train at once: more in total, each slower. Default: all on a CPU, one on a GPU."""
    device: Device = None
    """Where to compute; a GPU if there is one (quick: the CPU)."""


def run(words: list[str]) -> None:
    """Run the study, then show it."""
    began = time.monotonic()
    options = parse(Reproduce, words, prog="windtunnel reproduce")
    out = options.out or Path("results") / "scratch" / options.preset
    device = require_device(options.device or ("cpu" if options.preset == "quick" else default_device()))
    lanes, trainings = at_once(options, on_cpu=device == "cpu", cores=cores())
    limits = {"device": device, "max_minutes": options.max_minutes, "lanes": lanes, "trainings": trainings}
    with interruptible(out):
        study = reproduce(options.preset, out, say=say, watch=watch, **limits)
    if options.preset == "quick":
        _show_quick(study, late=time.monotonic() - began > LATE_S)
    else:
        _show_paper(study)
    show.print_text(f"results: {study.path}")
    from windtunnel.cli.report import Report, path_and_size, write  # here: Jinja2 and Plotly are needed at the end only

    show.print_text(path_and_size(write(study.path, Report(no_zoo=True, device=device))))


def at_once(options: Reproduce, on_cpu: bool, cores: int) -> tuple[int, int]:
    """Lanes and trainings.  On a CPU one network does not fill two cores: docs/results.md, *Alternatives*."""
    lanes = (min(cores, MOST_CPU_LANES) if on_cpu else 1) if options.lanes is None else options.lanes
    trainings = (lanes if on_cpu else 1) if options.trainings is None else options.trainings
    return lanes, trainings


def _show_paper(study: StudyFolder) -> None:
    print_primitives(study.cells())
    print_ledger(study.ledger())
    print_costs(study.cells())
    show.print_text(study.summary())


def _show_quick(study: StudyFolder, late: bool) -> None:
    """The committed study first and what was trained here after it, where the eye ends."""
    full = committed()
    if full is None:
        show.print_text("No full-size study here (results/paper); windtunnel reproduce --preset paper makes one.")
    else:
        show.print_text(f"The full-size study, from {full.path}", "bold")
        print_primitives(full.cells())
        print_verdicts(full.ledger())
        show.print_text(f"windtunnel claims {full.path} shows more of each, --only CLAIM one in full.", "dim")
    names = zoo.names()
    if names:
        say(f"scoring {len(names)} shipped networks on fresh episodes")
    checked = [zoo.check(name, episodes=_episodes(name, TOKENS // FEWER if late else TOKENS)) for name in names]
    if checked:
        print_zoo(checked)
    show.print_text(
        "Demonstration: small worlds, small networks. It shows how the scale works and judges no claim.", "bold"
    )
    print_primitives(study.cells())
    left = [cell.name for cell in plan_for("quick").cells if cell.name not in study.head()["finished"]]
    if left:
        show.print_text(f"Not trained yet: {', '.join(left)}; run the same command again to train the rest.", "bold")
    if full is not None:
        show.print_text(f"{full.path}: {tally(full.ledger())}")
    agree = f"{sum(one.agrees for one in checked)} of {len(names)} shipped networks agree with their cards"
    show.print_text(f"zoo: {agree}" if names else f"No shipped networks in {zoo.folder()}.")


def _episodes(name: str, tokens: int) -> int:
    return max(64, tokens // zoo.tunnel(name).positions)
