"""What a page does not show, and the command that makes it, to be typed as it stands."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.errors import CodeChanged, Unregistered
from windtunnel.mechanism.inspect import EPISODES, REVISION, UNTRAINED
from windtunnel.report.source import MODULE, Source
from windtunnel.report.words import enumerated, listed
from windtunnel.study.folder.results import committed
from windtunnel.study.presets import PRESETS, commands, plan_for
from windtunnel.study.scorecard_plan import PRESET as SCORECARD
from windtunnel.study.verdict import UNTESTED


@dataclass(frozen=True)
class Lack:
    """Something that is not there, and the command that makes it; none where nothing can, and `what` says why.

    fault  it should be there, and something is damaged or refused; else nobody has asked for it yet
    """

    what: str
    command: str = ""
    fault: bool = False

    @property
    def told(self) -> str:
        """On one line, unwrapped: a command is there to be copied."""
        if not self.command:
            return f"not possible: {self.what}"
        return f"{'missing' if self.fault else 'not shown yet (optional)'}: {self.what}: {self.command}"


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
INSIDE = frozenset(GEOMETRY | MECHANISM)
"""Charts that need the network's named tensors."""
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
    """One line for all that the same command makes; and one for networks that no command can look into."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for chart, (what, kind) in expected.items():
        if chart not in there and _possible(source, chart, kind):
            groups.setdefault(_command(source, kind, chart), []).append((what, kind))
    return [
        Lack(enumerated(what for what, _ in mine), command.replace("INSTRUMENTS", ",".join(kind for _, kind in mine)))
        for command, mine in groups.items()
    ] + (_closed(source) if expected.keys() & INSIDE else [])


def _closed(source: Source) -> list[Lack]:
    """The runs whose networks name no tensors: nothing inside of them can be read or changed."""
    names = [name for name in source.ordered(_own(source)) if not source.exhibits[name]["pictures"]]
    if not names:
        return []
    verb = "names" if len(names) == 1 else "name"
    return [Lack(f"a look inside {enumerated(names)}, which {verb} no tensors (docs/instruments.md says how to)")]


def _own(source: Source) -> list[str]:
    """The networks of runs, as the shipped ones are not what a page of runs is about."""
    return [name for name, record in source.exhibits.items() if record["origin"]["source"] == "run"]


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
    name, run = _run_for(source, chart, kind)
    settings = source.surveyed.get(name, {})
    earlier = settings["instruments"] if _outdated(settings) else []
    which = ["--only", ",".join([*earlier, "INSTRUMENTS"]), *_as_before(settings)]
    inspect = asked.typed("inspect", run or "RUN", *which)
    return f"{inspect} && {asked.again(source.path, run='' if run else 'RUN')}"


def _as_before(settings: Mapping[str, Any]) -> list[str]:
    """The options under which `inspect` goes on with the survey that a run has: those it was made with.

    One of another revision of the instruments cannot be gone on with: all of it is measured anew.
    """
    usual = {"episodes": EPISODES, "seed": 0, "untrained": UNTRAINED}
    kept = {name: settings.get(name, value) for name, value in usual.items()}
    words = [word for name, value in kept.items() if value != usual[name] for word in (f"--{name}", str(value))]
    return words + ["--replace"] * _outdated(settings)


def _outdated(settings: Mapping[str, Any]) -> bool:
    """Was a survey made by another revision of the instruments?"""
    return bool(settings) and settings.get("revision", 0) != REVISION


def _run_for(source: Source, chart: str, kind: str) -> tuple[str, Path | None]:
    """A run at hand that can have the chart."""
    names = [name for name in source.ordered(source.exhibits) if _fits(source, name, chart, kind)]
    return next(((name, run) for name in names if (run := source.run(name)) is not None), ("", None))


def _possible(source: Source, chart: str, kind: str) -> bool:
    """In a folder of runs, or of a scorecard, what a study of the paper alone has is no lack, nor what none of the
    runs there can have."""
    study = source.head is not None and source.head["preset"] != SCORECARD
    if kind == STUDY and not study:
        return False
    if chart == "training-time" and histories_lacking(source):
        return False  # told there, and why
    return study or any(_fits(source, name, chart, kind) for name in _own(source))


def _fits(source: Source, name: str, chart: str, kind: str) -> bool:
    models, worlds = FITS.get(chart, ((), ()))
    record = source.exhibits[name]
    if chart in INSIDE and (not record["pictures"] or _in_vain(source, name, kind)):
        return False
    return (not models or source.model(name) in models) and (not worlds or record["tunnel"]["name"] in worlds)


def _in_vain(source: Source, name: str, kind: str) -> bool:
    """Were all of these instruments asked before, of this very run, and had they nothing to read?"""
    mine = [record for record in source.readings.get(name, ()) if record.get("instrument") in kind.split(",")]
    hopeless = {r["instrument"] for r in mine if "missing" in r} - {
        r["instrument"] for r in mine if "missing" not in r or r.get("broken")
    }
    return hopeless == {*kind.split(",")}


def histories_lacking(source: Source) -> list[Lack]:
    """Runs whose training history is damaged: only training writes one."""
    return [
        Lack(f"the training history of {name} ({why})", _anew(source), fault=True)
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
        elif isinstance(why, CodeChanged):
            command = source.asked.again(source.path)  # once the code is as it was
        elif preset is None or not own.is_dir() or name in source.cells:  # a study does not make what is done again
            command = _anew(source)
        else:
            study = [source.asked.typed(*words) for words in commands(preset, source.path, source.cells)]
            command = " && ".join([shlex.join(["rm", "-r", str(own)]), *study])
        found.append(Lack(f"{name} ({why})", command, fault=True))
    return found
