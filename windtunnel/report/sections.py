"""The six sections in their order: what each shows, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from windtunnel.report.chart import Chart
from windtunnel.report.fidelity_charts import fidelity_charts
from windtunnel.report.geometry_charts import geometry_charts
from windtunnel.report.mechanism_charts import mechanism_charts
from windtunnel.report.missing_parts import (
    FIDELITY,
    GEOMETRY,
    MECHANISM,
    Lack,
    charts_lacking,
    episodes_lacking,
    histories_lacking,
    verdicts_lacking,
)
from windtunnel.report.readings import HOW, MOVED
from windtunnel.report.source import Source
from windtunnel.report.verdicts import section_says


@dataclass(frozen=True)
class Section:
    """A part of the page.  say: one sentence that says what to see;  how: what its bars, nulls and p-values mean."""

    id: str
    title: str
    say: str
    charts: Sequence[Chart] = ()
    lacks: Sequence[Lack] = field(default_factory=list)
    how: str = ""


def sections(source: Source) -> list[Section]:
    """All six, whatever there is."""

    def charted(
        name: str,
        title: str,
        say: str,
        charts: list[Chart],
        expected: dict[str, tuple[str, str]],
        how: str = "",
        more: Sequence[Lack] = (),
    ) -> Section:
        lacks = charts_lacking(expected, {chart.id for chart in charts}, source)
        return Section(name, title, say, charts, [*lacks, *more], how)

    return [
        Section(
            "verdict",
            "Verdict",
            section_says(source),
            (),
            verdicts_lacking(source),
        ),
        charted(
            "fidelity",
            "Fidelity",
            "How many bits each network is from exact inference, where along the sequence, and beside which baselines.",
            fidelity_charts(source),
            FIDELITY,
            more=histories_lacking(source),
        ),
        Section(
            "episode",
            "Step through an episode",
            "Move along a sequence and watch the exact belief and the network's belief move together, or come apart.",
            (),
            episodes_lacking(source),
        ),
        charted(
            "geometry",
            "Geometry",
            "What the representation looks like; believe a number only as far as it leaves its nulls behind.",
            geometry_charts(source),
            GEOMETRY,
            HOW,
        ),
        charted(
            "mechanism",
            "Mechanism",
            "What is lost, in bits, when a part is taken away, and what moves when it is exchanged.",
            mechanism_charts(source),
            MECHANISM,
            f"{HOW} {MOVED}",
        ),
        Section(
            "made",
            "How it was made",
            "Every recipe, its seeds, its time and its machine; and the command for this page.",
        ),
    ]
