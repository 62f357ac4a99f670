"""The six sections in their order: what each shows, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from windtunnel.report.chart import Chart
from windtunnel.report.fidelity_charts import fidelity_charts
from windtunnel.report.geometry_charts import geometry_charts
from windtunnel.report.mechanism_charts import mechanism_charts
from windtunnel.report.source import Source


@dataclass(frozen=True)
class Lack:
    """Something that is not there, and the command that makes it."""

    what: str
    command: str


@dataclass(frozen=True)
class Section:
    """A part of the page.  say: one sentence that says what to see."""

    id: str
    title: str
    say: str
    charts: Sequence[Chart] = ()
    lacks: Sequence[Lack] = field(default_factory=list)


REPORT, INSPECT = (
    "windtunnel report {dir} --runs RUN",
    "windtunnel inspect RUN --only {only}, then " + "windtunnel report {dir} --runs RUN",
)

_FIDELITY = {
    "distance": ("scores of trained networks", "{study}"),
    "entropy": ("entropy curves, which need the networks", REPORT),
    "kl-per-step": ("KL per step", REPORT),
    "length": ("scores at other lengths than the trained one", "{study}"),
    "calibration": ("calibration tables, which need the networks", REPORT),
    "training-time": ("training histories, which need the run folders", REPORT),
}
_GEOMETRY = {
    "key-matrices": ("key cosine matrices, which need a Transformer's weights", REPORT),
    "key-cosines": ("key cosines with nulls", INSPECT.replace("{only}", "keys")),
    "sharpening": ("attention by depth, which needs a Transformer's weights", REPORT),
    "manifold": ("value manifolds, which need the networks", REPORT),
    "value-shape": ("shape and order of the values, with nulls", INSPECT.replace("{only}", "values")),
    "simplices": ("belief simplices, which need an HMM network", REPORT),
    "decoded": ("decoded beliefs, with nulls", INSPECT.replace("{only}", "beliefs")),
    "clusters": ("clusters, with nulls", INSPECT.replace("{only}", "clusters")),
    "dissociation": (
        "dissociation curves, which need a run with a ladder of checkpoints",
        "windtunnel train … --ladder 12",
    ),
}
_MECHANISM = {
    "ablation": ("layer ablations", INSPECT.replace("{only}", "ablate")),
    "heads": ("head ablations", INSPECT.replace("{only}", "heads")),
    "swaps": ("swaps and patches with controls", INSPECT.replace("{only}", "swap,patch,dose")),
    "late": ("late attention off", INSPECT.replace("{only}", "late")),
    "roles": ("roles", INSPECT.replace("{only}", "roles")),
}


def sections(source: Source) -> list[Section]:
    """All six, whatever there is."""
    folder = str(source.path)
    # A study goes into its own folder, never into that of a run.
    study = "windtunnel reproduce --preset paper" + (f" --out {folder}" if source.head is not None else "")

    def charted(name: str, title: str, say: str, charts: list[Chart], expected: dict[str, tuple[str, str]]) -> Section:
        there = {chart.id for chart in charts}
        told = {key: (w, c.replace("{dir}", folder).replace("{study}", study)) for key, (w, c) in expected.items()}
        lacks = [Lack(*lack) for key, lack in told.items() if key not in there]
        return Section(name, title, say, charts, lacks)

    verdict = [] if source.ledger else [Lack("the ledger of claims and the primitives table", study)]
    episodes = [] if source.exhibits else [Lack("episodes, which need the networks", REPORT.replace("{dir}", folder))]
    again = f"remove {folder}/runs/NAME, then windtunnel reproduce --out {folder}"
    episodes += [Lack(f"{name} ({why})", again.replace("NAME", name)) for name, why in source.refused.items()]
    return [
        Section(
            "verdict",
            "Verdict",
            "Which published claims hold here, and which primitives each architecture has.",
            (),
            verdict,
        ),
        charted(
            "fidelity",
            "Fidelity",
            "How many bits each network is from exact inference, where along the sequence, and beside which baselines.",
            fidelity_charts(source),
            _FIDELITY,
        ),
        Section(
            "episode",
            "Step through an episode",
            "Move along a sequence and watch the exact belief and the network's belief move together, or come apart.",
            (),
            episodes,
        ),
        charted(
            "geometry",
            "Geometry",
            "What the representation looks like; believe a number only as far as it leaves its nulls behind.",
            geometry_charts(source),
            _GEOMETRY,
        ),
        charted(
            "mechanism",
            "Mechanism",
            "What is lost, in bits, when a part is taken away, and what moves when it is exchanged.",
            mechanism_charts(source),
            _MECHANISM,
        ),
        Section(
            "made",
            "How it was made",
            "Every recipe, its seeds, its time and its machine; and the command for this page.",
        ),
    ]
