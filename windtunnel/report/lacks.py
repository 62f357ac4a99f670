"""What a page does not show, and the command that makes it, to be typed as it stands."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from windtunnel.errors import Unregistered
from windtunnel.report.source import MODULE, Source
from windtunnel.report.words import enumerated, listed
from windtunnel.study.folder.results import committed
from windtunnel.study.presets import PRESETS, commands, plan_for
from windtunnel.study.verdict import UNTESTED


@dataclass(frozen=True)
class Lack:
    """Something that is not there, and the command that makes it."""

    what: str
    command: str


STUDY, NETWORKS, LADDER = "study", "networks", "ladder"
"""What a chart can lack, beside the instrument of `windtunnel inspect` that it is named after."""

FIDELITY = {
    "distance": ("scores of trained networks", STUDY),
    "entropy": ("entropy curves", NETWORKS),
    "kl-per-step": ("KL per step", NETWORKS),
    "length": ("scores at other lengths than the trained one", STUDY),
    "calibration": ("calibration", NETWORKS),
    "training-time": ("training histories", NETWORKS),
}
GEOMETRY = {
    "key-matrices": ("key cosine matrices (of attention)", NETWORKS),
    "key-cosines": ("key cosines with nulls", "keys"),
    "sharpening": ("attention by depth", NETWORKS),
    "manifold": ("value manifolds", NETWORKS),
    "value-shape": ("shape and order of the values with nulls", "values"),
    "simplices": ("belief simplices (of an HMM)", NETWORKS),
    "decoded": ("decoded beliefs with nulls", "beliefs"),
    "clusters": ("clusters with nulls", "clusters"),
    "dissociation": ("dissociation curves", LADDER),
}
MECHANISM = {
    "ablation": ("layer ablations", "ablate"),
    "heads": ("head ablations", "heads"),
    "swaps": ("swaps and patches with controls", "swap,patch"),
    "dose": ("dose–response", "dose"),
    "late": ("late attention off", "late"),
    "roles": ("roles", "roles"),
}
ATTENTION = ("transformer", "linear-attention")
MATCHED, MIXERS = ("bijection", "recall", "hmm"), (*ATTENTION, "mamba", "lstm")
FITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "key-matrices": (ATTENTION, MATCHED),
    "key-cosines": (ATTENTION, MATCHED),
    "sharpening": (("transformer",), ()),
    "simplices": ((), ("hmm",)),
    "clusters": ((), ("hmm",)),
    "heads": (ATTENTION, ()),
    "late": (MIXERS, ()),
}
"""Charts that not every network can have: the models and the tunnels that they are of; none named, any."""


def charts_lacking(expected: Mapping[str, tuple[str, str]], there: Collection[str], source: Source) -> list[Lack]:
    """One line for all that the same command makes."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for chart, (what, kind) in expected.items():
        if chart not in there and _possible(source, chart, kind):
            groups.setdefault(_command(source, kind, chart), []).append((what, kind))
    return [
        Lack(enumerated(what for what, _ in mine), command.replace("INSTRUMENTS", ",".join(kind for _, kind in mine)))
        for command, mine in groups.items()
    ]


def _command(source: Source, kind: str, chart: str = "") -> str:
    """The command that makes what is lacking, and the one that was typed again, with its options."""
    asked = source.asked
    if kind == STUDY:  # a study goes into its own folder, never into that of a run or of another preset
        own = source.head is not None and source.head["preset"] == "paper"
        return "windtunnel reproduce --preset paper" + (f" --out {shlex.quote(str(source.path))}" if own else "")
    if kind == NETWORKS:
        return asked.again(source.path, run="RUN")
    if kind == LADDER:
        train = asked.typed("train", "TUNNEL", "MODEL", "--ladder", "12", "--out", "RUN")
        return f"{train} && {asked.again(source.path, run='RUN')}"
    run = _run_for(source, chart)
    inspect = asked.typed("inspect", run or "RUN", "--only", "INSTRUMENTS")
    return f"{inspect} && {asked.again(source.path, run='' if run else 'RUN')}"


def _run_for(source: Source, chart: str) -> Path | None:
    """A run at hand that can have the chart."""
    found = (source.run(name) for name in source.ordered(source.exhibits) if _fits(source, name, chart))
    return next((run for run in found if run is not None), None)


def _possible(source: Source, chart: str, kind: str) -> bool:
    """In a folder of runs, what a study alone has is no lack; in a run's own, nor what none of those there can have."""
    if kind == STUDY and source.head is None:
        return False
    if chart == "training-time" and histories_lacking(source):
        return False  # told there, and why
    own = [name for name, record in source.exhibits.items() if record["origin"]["source"] == "run"]
    return not (source.path / "recipe.json").exists() or any(_fits(source, name, chart) for name in own)


def _fits(source: Source, name: str, chart: str) -> bool:
    models, worlds = FITS.get(chart, ((), ()))
    tunnel = source.exhibits[name]["tunnel"]["name"]
    return (not models or source.model(name) in models) and (not worlds or tunnel in worlds)


def histories_lacking(source: Source) -> list[Lack]:
    """Runs whose training history is damaged: only training writes one."""
    return [
        Lack(f"the training history of {name} ({why})", _anew(source))
        for name, record in source.exhibits.items()
        if (why := (record["history"] or {}).get("missing"))
    ]


def _unfinished(source: Source) -> list[Lack]:
    """Cells of the plan that the study has not come to."""
    head = source.head or {}
    if head.get("preset") not in PRESETS:
        return []
    planned = [cell.name for cell in plan_for(head["preset"]).cells]
    left = [name for name in planned if name not in source.networks]
    if not left:
        return []
    what = f"{len(left)} of {len(planned)} networks of this study ({listed(left, 4)})"
    return [Lack(what, f"windtunnel reproduce --preset {head['preset']} --out {shlex.quote(str(source.path))}")]


def verdicts_lacking(source: Source) -> list[Lack]:
    """What the verdict section is without."""
    full = _command(source, STUDY)
    if source.head is None and (study := committed()) is not None:  # the runs beside the study that there is
        beside = source.asked.typed(source.asked.command, study.path, "--runs", source.path)
        return [Lack("the ledger of claims, and the primitives of the full-size study's networks", beside)]
    if not source.ledger:
        return [Lack("the ledger of claims and the primitives table", full), *_unfinished(source)]
    judged = any(entry["outcome"] != UNTESTED for entry in source.ledger)
    return ([] if judged else [Lack("verdicts on the published claims", full)]) + _unfinished(source)


def _anew(source: Source) -> str:
    """Another run, and what was typed, with it."""
    train = source.asked.typed("train", "TUNNEL", "MODEL", "--out", "RUN")
    return f"{train} && {source.asked.again(source.path, run='RUN')}"


def episodes_lacking(source: Source) -> list[Lack]:
    """What the stepper is without; a network that could not be opened is trained anew, or its plugin named."""
    found = [] if source.exhibits else [Lack("episodes, which need the networks", _command(source, NETWORKS))]
    preset = (source.head or {}).get("preset")
    for name, why in source.refused.items():
        own = source.path / "runs" / name
        if isinstance(why, Unregistered):
            command = source.asked.again(source.path, plugins=(MODULE,))
        elif preset is None or not own.is_dir():  # not a network of this study: nothing to be made again from here
            command = _anew(source)
        else:
            study = [source.asked.typed(*words) for words in commands(preset, source.path, source.cells)]
            command = " && ".join([shlex.join(["rm", "-r", str(own)]), *study])
        found.append(Lack(f"{name} ({why})", command))
    return found
