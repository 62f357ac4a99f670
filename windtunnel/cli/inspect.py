"""`windtunnel inspect RUN`: geometry and mechanism of a run's networks, every number beside its nulls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from windtunnel.cli import show
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import stages
from windtunnel.cli.tunnel import describe
from windtunnel.environment import default_device, require_device
from windtunnel.errors import require_int
from windtunnel.geometry import Measurement
from windtunnel.mechanism import Survey, inspect, save_survey
from windtunnel.mechanism.inspect import Entry, selected
from windtunnel.mechanism.survey_file import merged, to_dict
from windtunnel.training import load


@dataclass(frozen=True)
class Inspect:
    """Survey the networks of a run: geometry, interventions, behaviour, training dynamics.  Tables are printed, and
    survey.json with its arrays is written into the run folder; what other instruments found earlier, in the same way,
    stays in it."""

    only: Annotated[str | None, tyro.conf.arg(metavar="NAME,NAME", help_behavior_hint="")] = None
    """Instruments, separated by commas: keys, alignment, values, beliefs, lens, clusters, ablate, heads, ranges, late,
    patch, dose, swap, roles, flip, exchange, shift, dynamics; all if not given."""
    episodes: int = 128
    """Episodes of the test stream to look at."""
    seed: int = 0
    """Seed of that stream."""
    untrained: int = 5
    """Untrained networks of the same shape that serve as a null."""
    device: Annotated[str | None, tyro.conf.arg(metavar="{cpu,cuda}", help_behavior_hint="")] = None
    """Where to compute; a GPU if there is one."""
    json: bool = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Load, survey, write, print."""
    folder, options = parse_folder(Inspect, "inspect", words, "RUN")
    require_int("--episodes", options.episodes, 2)
    require_int("--untrained", options.untrained, 0)
    only = None if options.only is None else [name for name in options.only.split(",") if name]
    selected(only)  # a selection that matches nothing is refused before anything is loaded
    subject = load(folder, device=require_device(options.device or default_device()))
    settings = {"episodes": options.episodes, "seed": options.seed, "untrained": options.untrained}
    with stages() as progress:
        survey = inspect(subject, only=only, progress=progress, **settings)
    whole, earlier = merged(survey, folder)
    path = save_survey(whole, folder)
    if options.json:
        show.print_json({"run": str(folder), **to_dict(survey)})
        return
    show.print_text(f"{folder}: {subject.recipe.model}, seeds {', '.join(map(str, subject.recipe.seeds))}", "bold")
    show.print_text(describe(subject.tunnel))
    show.print_text(show.drawn_from(options.episodes, options.seed, "test"))
    _print_tables(survey)
    if earlier:
        show.print_text(earlier)
    _print_end(survey, path)


def _print_tables(survey: Survey) -> None:
    for name in survey.settings["instruments"]:
        if rows := [_row(entry, found) for entry, found in survey.measurements(name)]:
            columns = ["measured", "seed", "where", "value", "95% interval", "nulls (mean)", "effect", "p"]
            show.print_table(name, columns, rows, "lllrrlrr")


def _row(entry: Entry, found: Measurement) -> list[str]:
    seed = "" if entry.seed is None else str(entry.seed)
    where = ", ".join(f"{key} {_words(value)}" for key, value in found.where.items())
    if math.isnan(found.value):
        return [found.name, seed, where, "–", "", found.note, "", ""]
    value = f"{show.number(found.value)} {found.unit}".rstrip()
    interval = "" if math.isnan(found.low) else f"{show.number(found.low)} to {show.number(found.high)}"
    nulls = "; ".join(f"{name} {show.number(float(np.mean(sample)))}" for name, sample in found.nulls.items())
    effect = "" if found.effect is None else f"{found.effect:+.1f}"
    p_value = "" if found.p_value is None else f"{found.p_value:.3f}"
    return [found.name, seed, where, value, interval, nulls or found.note, effect, p_value]


def _words(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, Iterable) and not isinstance(value, str) else str(value)


def _print_end(survey: Survey, path: Path) -> None:
    for name, reason in survey.missing.items():
        show.print_text(f"not measured: {name}: {reason}")
    show.print_text(
        "A null is the same instrument on something that carries no signal. Effect: distance to the strongest null in"
        " its standard deviations; p: against the strongest null, one-sided unless the effect may lie on both sides.",
        "dim",
    )
    show.print_text(f"written: {path}")
