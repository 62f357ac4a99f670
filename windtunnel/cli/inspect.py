"""`windtunnel inspect RUN`: geometry and mechanism of a run's networks, every number beside its nulls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from windtunnel.cli import show
from windtunnel.cli.flags import Device, Switch, shown
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.place import is_shipped, open_run
from windtunnel.cli.progress import stages
from windtunnel.cli.survey import print_all, print_summary
from windtunnel.cli.tunnel import describe
from windtunnel.environment import default_device, require_device
from windtunnel.errors import require_int
from windtunnel.mechanism import Survey, inspect, save_survey
from windtunnel.mechanism.inspect import NAMES, selected
from windtunnel.mechanism.survey_file import merged, to_dict

_ONLY = "Some instruments, separated by commas, instead of all:"


@dataclass(frozen=True)
class Inspect:
    """Survey the networks of a run, or one of the shipped ones: geometry, interventions, behaviour, training dynamics.

    What was found is written into the run folder (of a shipped network: runs/zoo-NAME), as survey.json with its
    arrays; what other instruments found earlier, in the same way, stays in it.  Printed is a summary, or with --all
    everything.
    """

    only: Annotated[str | None, shown("NAME,NAME", help=f"{_ONLY} {', '.join(NAMES)}.")] = None
    episodes: int = 128
    """Episodes of the test stream to look at."""
    seed: int = 0
    """Seed of that stream."""
    untrained: int = 5
    """Untrained networks of the same shape that serve as a null."""
    device: Device = None
    """Where to compute; a GPU if there is one."""
    all: Switch = False
    """Print every measurement, not only the strongest of each kind."""
    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Load, survey, write, print."""
    folder, options = parse_folder(Inspect, "inspect", words, "RUN|NETWORK")
    require_int("--episodes", options.episodes, 2)
    require_int("--untrained", options.untrained, 0)
    only = None if options.only is None else [name for name in options.only.split(",") if name]
    selected(only)  # a selection that matches nothing is refused before anything is loaded
    subject = open_run(folder, "inspect", device=require_device(options.device or default_device()))
    settings = {"episodes": options.episodes, "seed": options.seed, "untrained": options.untrained}
    with stages() as progress:
        survey = inspect(subject, only=only, progress=progress, **settings)
    place = Path("runs") / f"zoo-{folder}" if is_shipped(folder) else folder
    whole, earlier = merged(survey, place)
    path = save_survey(whole, place)
    if options.json:
        show.print_json({"run": str(folder), **to_dict(survey)})
        return
    show.print_text(f"{folder}: {subject.recipe.model}, seeds {', '.join(map(str, subject.recipe.seeds))}", "bold")
    show.print_text(describe(subject.tunnel))
    show.print_text(show.drawn_from(options.episodes, options.seed, "test"))
    print_all(survey) if options.all else print_summary(survey)
    if earlier:
        show.print_text(earlier)
    _print_end(survey, path)


def _print_end(survey: Survey, path: Path) -> None:
    for name, reason in survey.missing.items():
        show.print_text(f"not measured: {name}: {reason}")
    show.print_text(
        "A null is the same instrument on something that carries no signal. Effect: distance to the strongest null in"
        " its standard deviations; p: against the strongest null, one-sided unless the effect may lie on both sides.",
        "dim",
    )
    print(f"written: {path}")  # unwrapped: a path is there to be copied
