"""The page: one HTML file with everything in it.

Text goes through Jinja2's escaping and data through JSON in which `<` cannot occur, so nothing that a user named can
become markup.  Plotly and the episodes are deflated, and inflated by the browser when they are needed.

The Content-Security-Policy allows the page's own scripts by their hash and nothing from outside; styles may be inline
because Plotly sets them, images are data of the page itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from windtunnel.report import making, palette, shares, verdicts
from windtunnel.report.chart import Table, to_plain
from windtunnel.report.episodes import deflate, explained, fair_room, shortened
from windtunnel.report.sections import Section, sections
from windtunnel.report.source import Source
from windtunnel.report.words import interval, shareable, short
from windtunnel.training.files import write_bytes

HERE = Path(__file__).resolve().parent / "templates"
SCRIPTS = ("core.js", "nav.js", "look.js", "keys.js", "ledger.js", "stepper.js", "charts.js")
VERDICT = ("ledger.html.j2", "primitives.html.j2")
EPISODE_BYTES = 4_500_000  # of all networks in the stepper together


def write_page(source: Source, path: str | Path) -> Path:
    """Write the page."""
    path = Path(path)
    write_bytes(path, render(source).encode())
    return path


def render(source: Source) -> str:
    """The whole page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"interval": interval, "short": short, "code": code}
    environment.filters["shareable"] = partial(shareable, folder=source.path)
    parts = sections(source)
    tables = [verdicts.claims_table(source), shares.primitives_table(source)]
    tables += [making.recipes(source), making.machines(source)]
    stepper, blocks, left_out = episodes(source)
    script, plotly = own_script(), plotly_script()
    return environment.get_template("page.html.j2").render(
        policy=policy([script, plotly]),
        style=(HERE / "page.css").read_text(),
        palette=palette,
        script=_as_is(script),
        plotly=_as_is(deflate(plotly)),
        data=_as_is(embedded(data(parts, tables, stepper))),
        blocks=[_as_is(embedded(block)) for block in blocks],
        sections=parts,
        headline=verdicts.headline(source),
        counts=verdicts.tally(source),
        signs=verdicts.SIGNS,
        labels=verdicts.LABELS,
        ledger=verdicts.ordered(source),
        source=source,
        grouped=lambda chart: source.worlds(chart.views) if chart.picks == "network" else {"": list(chart.views)},
        primitives=shares.primitives(source),
        verdict_parts=VERDICT if verdicts.judges(source) else VERDICT[::-1],
        steppable=stepper,
        left_out=left_out,
        recipes=making.cards(source),
        machines=tables[3],
        lanes=making.lanes(source),
        commands=making.commands(source),
        made_by=making.made_by(),
    )


def data(parts: Sequence[Section], tables: Sequence[Table], stepper: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page's scripts read: charts, tables, networks of the stepper."""
    charts = [chart for section in parts for chart in section.charts]
    return {
        "charts": {chart.id: to_plain(chart) for chart in charts},
        "tables": {table.id: to_plain(table) for table in tables},
        "stepper": stepper,
        "keys": palette.KEYS,
        "dashes": palette.DASHES,
        "markers": palette.MARKERS,
    }


def episodes(source: Source) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Networks of the stepper, their deflated episodes in the same order, and the names that found no room.

    Where there is not room for all, the largest lose some of their episodes.  Plain recipes come before variants of
    them, which are left out first.
    """
    order = sorted(source.ordered(source.exhibits), key=source.variant)
    room = fair_room([len(source.exhibits[name]["episodes"]["data"]) for name in order], EPISODE_BYTES)
    shown, blocks, left_out, size = [], [], [], 0
    for name in order:
        record = shortened(source.exhibits[name]["episodes"], room)
        if size + len(record["data"]) > EPISODE_BYTES:
            left_out.append(name)
            continue
        size += len(record["data"])
        about = {key: record[key] for key in ("count", "layers", "heads")}
        about |= {"seed": source.exhibits[name]["seeds"][0], "say": explained(source.exhibits[name]["tunnel"])}
        shown.append({"name": name, "world": source.world(name), "short": source.short(name), **about})
        blocks.append(record["data"])
    return shown, blocks, left_out


def code(line: str) -> Any:
    """A line of text in which what stands between `two backticks` is code; whatever it holds, it stays text.

    >>> print(code("`a<b` is near"))
    <code>a&lt;b</code> is near
    """
    from markupsafe import escape

    return _as_is(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(line))))


def own_script() -> str:
    """The page's own scripts as one, inside a function of its own."""
    return "(function () {\n'use strict';\n" + "\n".join((HERE / name).read_text() for name in SCRIPTS) + "\n})();"


def plotly_script() -> str:
    """Plotly from the installed package."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy under which exactly these scripts run."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    rules = ["default-src 'none'", f"script-src {allowed}", "style-src 'unsafe-inline'", "img-src data:"]
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def embedded(value: Any) -> str:
    """JSON that may stand inside a script element: no `<`, no `&`, no line separators."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _as_is(text: str) -> Any:
    """Mark as not to be escaped: our own script, or JSON from `embedded`."""
    from markupsafe import Markup

    return Markup(text)
