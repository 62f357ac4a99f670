"""How lines and dots look: alike on the page and in print, every line named, nothing hidden by what lies over it."""

from __future__ import annotations

import pytest

from tests.report.watched import Watched
from windtunnel.report import palette, print_charts, write_page
from windtunnel.report.chart import Chart, Panel, Series
from windtunnel.report.figures import without_switches
from windtunnel.report.print_charts import STROKES, draw, named, styles
from windtunnel.report.sections import sections
from windtunnel.report.source import Source

TRACES = """(id) => [...document.querySelectorAll(`#chart-${id} .js-plotly-plot`)].flatMap((plot) => plot.data)
    .filter((trace) => trace.name && trace.type === "scatter")
    .map(({ name, mode, line, marker }) => [name, mode, line && line.dash, marker && marker.symbol])"""


@pytest.fixture
def alone(source, tmp_path) -> Source:
    """One network, as a run's own page has it."""
    return Source(tmp_path, exhibits={"urn-transformer": source.exhibits["urn-transformer"]})


def test_a_line_has_the_same_dash_and_marker_on_the_page_and_in_print(watched, source):
    seen, markers = set(), dict(zip(palette.MARKERS, print_charts.MARKERS, strict=True))
    for chart in (chart for section in sections(source) for chart in section.charts):
        if not any(panel.series for panels in chart.views.values() for panel in panels):
            continue
        watched.draw(chart.id)
        pick = watched.page.locator(f"[data-pick='{chart.id}']")
        panels = chart.views[pick.input_value() if pick.count() else next(iter(chart.views))]
        looks, called = styles(panels), {series.name: named(series) for panel in panels for series in panel.series}
        for name, mode, dash, symbol in watched.page.evaluate(TRACES, chart.id):
            look = looks[called[name]]
            if "lines" in mode and "alpha" not in look:  # the broad line of exact inference is solid everywhere
                assert STROKES[dash] == look["ls"], (chart.id, name)
                seen.add(dash)
            if "markers" in mode and symbol and symbol.removesuffix("-open") in markers:
                assert markers[symbol.removesuffix("-open")] == look["marker"], (chart.id, name)
    assert {"solid", "dash", "dot"} <= seen


def test_the_only_line_of_a_chart_is_named(browser, alone, tmp_path):
    with Watched(browser, write_page(alone, tmp_path / "alone.html")) as page:
        for chart in ("kl-per-step", "training-time"):
            assert page.draw(chart).locator(".key").all_inner_texts() == ["transformer"]
    charts = {chart.id: without_switches(chart) for section in sections(alone) for chart in section.charts}
    for chart in ("kl-per-step", "training-time"):
        (legend,) = draw(charts[chart], "urn").legends
        assert [text.get_text() for text in legend.get_texts()] == ["transformer"]


def test_a_null_that_equals_what_was_measured_is_a_ring_around_it():
    """A hollow mark is as thick as its edge; what lies within must leave a gap to it."""
    dots = [Series(f"null: {k}", [0.5], ["here"], [0.4], [0.6], str(k), "null", across=True) for k in range(6)]
    dots.append(Series("measured", [0.5], ["here"], [0.4], [0.6], "measured", "points", across=True))
    panel = Panel("", "", series=dots)
    looks = styles([panel])
    for k in range(6):
        ring = looks[f"null: {k}"]
        assert ring["mfc"] == "none" and ring["ms"] - 2 * ring["mew"] > looks["measured"]["ms"] + 1
    (axes,) = draw(Chart("x", "", "", "", {"run": [panel]}), "run").axes
    assert axes.containers[-1].get_label() == "measured"  # drawn last, over all of them
