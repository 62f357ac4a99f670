"""`windtunnel inspect RUN`: geometry and mechanism of a run's networks, every number next to its nulls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from windtunnel.cli import show
from windtunnel.cli.broken_weights import no_numbers
from windtunnel.cli.flags import Device, Switch, shown
from windtunnel.cli.folders import is_shipped, open_run
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import say, stages
from windtunnel.cli.survey import print_all, print_summary
from windtunnel.cli.tunnel import describe
from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError, require_int
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.geometry.instruments import LADDER
from windtunnel.mechanism import Survey, inspect, load_survey, save_survey
from windtunnel.mechanism.inspect import settings_of
from windtunnel.mechanism.survey import NAMES, selected, title
from windtunnel.mechanism.survey_file import NAME, to_dict
from windtunnel.training import Run
from windtunnel.training.files import require_writable
from windtunnel.training.lock import locked
from windtunnel.tunnels.random import check_seed

_TOLD = ("episodes", "seed", "untrained", "step")  # settings that can be told in a word
_ONLY = "Instruments to run, separated by commas, instead of all:"


@dataclass(frozen=True)
class Inspect:
    """Survey the networks of a run, or a shipped network: geometry, interventions, behaviour, training dynamics.

    Results are written to survey.json in the run folder (for a shipped network: runs/zoo-NAME) after each instrument,
    so the same command resumes an interrupted survey.  Earlier readings with the same settings are kept and not
    measured again.  A survey made with other settings or weights is left alone unless you give --replace.  Prints a
    summary, or everything with --all.
    """

    only: Annotated[str | None, shown("NAME,NAME", help=f"{_ONLY} {', '.join(NAMES)}.")] = None
    episodes: int = 128
    """Episodes of the test stream to use."""
    seed: int = 0
    """Seed of that stream."""
    untrained: int = 5
    """How many untrained networks of the same shape serve as a null."""
    device: Device = None
    """Where to compute; a GPU if there is one."""
    replace: Switch = False
    """Measure again; other readings are kept if made with the same settings, else listed and discarded."""
    all: Switch = False
    """Print every measurement, not only the clearest of each kind."""
    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Load, survey, write, print."""
    folder, options = parse_folder(Inspect, "inspect", words, "RUN|NETWORK")
    require_int("--episodes", options.episodes, 2)
    require_int("--untrained", options.untrained, 0)
    check_seed(options.seed, "seed")
    only = None if options.only is None else [name for name in options.only.split(",") if name]
    wanted = selected(only)  # an unknown name is refused before anything is loaded
    subject = open_run(folder, "inspect", device=require_device(options.device or default_device()))
    settings: dict[str, Any] = {"episodes": options.episodes, "seed": options.seed, "untrained": options.untrained}
    place = Path("runs") / f"zoo-{folder}" if is_shipped(folder) else folder
    try:
        require_writable(place / NAME)
    except InputError:
        found = None if options.replace else _finished(place, settings_of(subject, **settings), subject, wanted)
        if found is None:  # there is something to measure, and no place for it
            raise
        _print(options, folder, subject, found, None, f"read: {place / NAME} (it cannot be written to)")
        return
    with locked(place, only=NAME):  # not the run's own lock: one that is being trained may be looked into
        alike = settings_of(subject, **settings)
        earlier = _rest(place, alike, wanted) if options.replace else _earlier(place, alike)
        kept: list[Path] = []
        with stages() as progress:
            try:
                keep = partial(_keep, folder=place, kept=kept)
                whole = inspect(subject, only=only, progress=progress, earlier=earlier, keep=keep, **settings)
            except NotNumbers as error:
                raise no_numbers(error, folder, subject) from None
            except KeyboardInterrupt:
                show.print_text(_stopped(options.replace, bool(kept)))
                raise
        survey = whole.of(wanted)
        if not any(survey.measurements()):
            raise InputError(f"{folder}: nothing could be measured: {_reasons(survey)}")
        path = save_survey(whole, place)
    _print(options, folder, subject, survey, earlier, f"written: {path}")
    if survey.broken:
        raise InputError(f"{folder}: broke down: {', '.join(survey.broken)}; run the same command again to retry")


def _print(options: Inspect, folder: Path, subject: Run, survey: Survey, earlier: Survey | None, last: str) -> None:
    """The survey as it was asked for; `last` is the line that tells where it is kept."""
    if options.json:
        show.print_json({"run": str(folder), **to_dict(survey)})
        return
    show.print_text(f"{folder}: {subject.recipe.model}, seeds {', '.join(map(str, subject.recipe.seeds))}", "bold")
    show.print_text(describe(subject.tunnel))
    show.print_text(show.drawn_from(options.episodes, options.seed, "test"))
    print_all(survey) if options.all else print_summary(survey)
    if earlier is not None and (names := list(dict.fromkeys(entry.instrument for entry, _ in earlier.measurements()))):
        show.print_text(f"kept from the earlier survey: {', '.join(names)}")
    _print_end(survey)
    print(last)  # unwrapped: a path is there to be copied


def _keep(survey: Survey, folder: Path, kept: list[Path]) -> None:
    """A survey without a number is not kept: it would only stand in the way of one with other settings."""
    if any(survey.measurements()):
        kept.append(save_survey(survey, folder))


def _stopped(replace: bool, kept: bool) -> str:
    """What an interrupt leaves, and how to go on: --replace once more would begin once more."""
    if replace and not kept:
        return "stopped before anything was measured: what was there is unchanged"
    again = f"the same command {'without --replace' if replace else 'again'}"
    return f"stopped: what has been measured is kept; run {again} to resume"


def _finished(place: Path, settings: dict[str, Any], subject: Run, wanted: list[str]) -> Survey | None:
    """What was asked for, where all of it was measured in the same way before; otherwise None.

    What could not be measured, and did not break down, counts: it would be tried again only where there is room.
    """
    whole = _earlier(place, settings)
    if whole is None:
        return None
    seeds = [[None] if name == LADDER else subject.recipe.seeds for name in wanted]
    asked = {title(name, seed) for name, of in zip(wanted, seeds, strict=True) for seed in of}
    found = whole.of(wanted)
    if asked - found.seconds.keys() or found.broken or not any(found.measurements()):
        return None
    return found


def _earlier(place: Path, settings: dict[str, Any]) -> Survey | None:
    """The survey to go on with, None where there is none; one that was made otherwise is refused."""
    if not (place / NAME).exists():
        return None
    way_out = "--replace measures again"
    try:
        found = load_survey(place)
    except InputError as error:
        raise InputError(f"{error}; {way_out}") from None
    if differs := found.differences(settings):
        words = {name: f"{name} {found.settings.get(name)}" for name in _TOLD}
        words |= {"revision": "another revision of the instruments", "weights": "other weights"}
        told = ", ".join(words.get(name, name) for name in differs)
        raise InputError(f"{place / NAME}: was made with other settings ({told}): must be the same; {way_out}")
    return found


def _rest(place: Path, settings: dict[str, Any], anew: list[str]) -> Survey | None:
    """What stays of the survey that is there when some instruments measure anew; what does not is told."""
    if not (place / NAME).exists():
        return None
    try:
        found = load_survey(place)
    except InputError as error:
        say(f"discarded: {error}")
        return None
    rest = found.of(name for name in NAMES if name not in anew)
    names = list(dict.fromkeys(entry.instrument for entry, _ in rest.measurements()))
    if names and found.differences(settings):
        say(f"discarded, as made with other settings or weights: {', '.join(names)}")
    return rest if names and not found.differences(settings) else None


def _reasons(survey: Survey) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in survey.missing)


def _print_end(survey: Survey) -> None:
    lacking: dict[str, list[str]] = {}  # reason -> names: a network without taps has one reason for many
    for name, reason in survey.missing:
        lacking.setdefault(reason, []).append(name)
    for reason, names in lacking.items():
        show.print_text(f"not measured: {', '.join(names)}: {reason}")
