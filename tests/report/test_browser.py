"""The page in a real headless Chromium: charts, filters and downloads work, and it talks to nobody."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.report.watched import Watched, same
from windtunnel.report import Source, write_page
from windtunnel.report.chart import tidy, to_plain
from windtunnel.report.making import machines, recipes
from windtunnel.report.sections import sections
from windtunnel.report.shares import primitives_table
from windtunnel.report.verdicts import claims_table

SECTIONS = ("verdict", "fidelity", "episode", "geometry", "mechanism", "made")
MEGABYTES, SECONDS = 12, 3


@pytest.mark.parametrize("study", ["demo", "scale"])
def test_size_and_load_time(browser, study, request, record_property):
    """Of a small study, and of one with all that the full-size one holds; the fastest of a few loads, since other tests
    may keep the machine busy meanwhile."""
    path = request.getfixturevalue(study) / "report.html"
    seconds, loaded = min(_load(browser, path) for _ in range(3))
    for _ in range(5):
        if seconds >= SECONDS:
            seconds, loaded = min((seconds, loaded), _load(browser, path))
    size = path.stat().st_size / 1e6
    told = f"{size:.2f} MB, first section interactive after {seconds:.2f} s, all loaded {loaded:.2f} s"
    record_property("told", f"report page of the {study} study: {told}")  # printed at the end, see tests/conftest.py
    assert size < MEGABYTES and seconds < SECONDS


def _load(browser, path: Path) -> tuple[float, float]:
    """Seconds until the ledger has answered a click, and until the whole page has loaded."""
    fresh = browser.new_page(viewport={"width": 1440, "height": 900})
    start = time.perf_counter()
    fresh.goto(path.as_uri(), wait_until="commit")
    fresh.wait_for_selector("#ledger [data-filter=''][aria-pressed=true]")
    fresh.locator("[data-filter='not tested at this scale']").click()
    fresh.wait_for_function("document.getElementById('shown').textContent.includes(':')")
    answered = time.perf_counter() - start
    fresh.wait_for_load_state("load")
    loaded = time.perf_counter() - start
    fresh.close()
    return answered, loaded


def test_every_section_is_there_in_order_with_its_sentence(page):
    assert [part.get_attribute("id") for part in page.locator("main > section").all()] == list(SECTIONS)
    for part in page.locator("main > section").all():
        assert len(part.locator(".say").inner_text()) > 20


def test_all_charts_draw_without_a_word_and_without_a_request(watched, source):
    watched.draw_all()
    charts = [chart for section in sections(source) for chart in section.charts]
    assert len(charts) >= 15
    assert watched.page.locator("[data-drawn]").count() == len(charts)
    for chart in charts:
        pick, last = watched.page.locator(f"[data-pick='{chart.id}']"), list(chart.views)[-1]
        if pick.count() and pick.input_value() != last:
            watched.redrawn(chart.id, lambda pick=pick, last=last: pick.select_option(last))
        plots = watched.page.locator(f"#chart-{chart.id} .js-plotly-plot")
        assert plots.count() == len(chart.views[last])
    assert watched.said == [] and watched.left == set()


def test_nothing_can_be_fetched_even_if_something_tried(browser, demo):
    """The policy itself, not only our good behaviour: pictures, scripts, frames and requests to others are refused."""
    with Watched(browser, demo / "report.html") as seen:
        refused = seen.page.evaluate(
            """async () => {
                const refused = [];
                document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
                for (const [tag, name] of [["img", "src"], ["script", "src"], ["iframe", "src"], ["link", "href"]]) {
                    const node = document.createElement(tag);
                    if (tag === "link") node.rel = "stylesheet";
                    node[name] = "https://example.org/" + tag;
                    document.body.append(node);
                }
                const inline = document.createElement("script");
                inline.textContent = "window.broken = true";
                document.body.append(inline);
                await fetch("https://example.org/data").catch(() => 0);
                await new Promise((done) => setTimeout(done, 300));
                return [refused.sort(), window.broken === undefined];
            }"""
        )
        kinds = ["connect-src", "frame-src", "img-src", "script-src-elem", "script-src-elem", "style-src-elem"]
        assert refused == [kinds, True]
        assert {seen.failed[url] for url in seen.left if url.startswith("http")} == {"csp"}


def test_a_choice_in_one_chart_is_made_in_all(watched):
    for chart in ("entropy", "calibration"):
        watched.draw(chart)
    pick = watched.page.locator("[data-pick='entropy']")
    worlds = [world for world in ("urn", "hmm") if world != pick.input_value()]
    for world in (*worlds, "bijection-replacement"):
        watched.redrawn("calibration", lambda world=world: pick.select_option(world))
        assert watched.page.locator("[data-pick='calibration']").input_value() == world


def test_a_switch_recolours_the_manifold(watched):
    figure = watched.draw("manifold")
    colours = "() => JSON.stringify(document.querySelector('#chart-manifold .js-plotly-plot').data.at(-1).marker.color)"
    by_entropy = watched.page.evaluate(colours)
    watched.redrawn("manifold", lambda: figure.locator("[data-by]").select_option("step"))
    assert watched.page.evaluate(colours) != by_entropy
    assert "step" in figure.locator(".keys").inner_text()


def test_a_key_hides_its_line_and_brings_it_back(watched):
    figure = watched.draw("entropy")
    lines = "() => document.querySelector('#chart-entropy .js-plotly-plot').data.map((trace) => trace.name)"
    key = figure.locator(".key", has_text="exact")
    assert "exact" in watched.page.evaluate(lines)
    watched.redrawn("entropy", lambda: (key.focus(), watched.page.keyboard.press("Enter")))
    assert "exact" not in watched.page.evaluate(lines) and key.get_attribute("aria-pressed") == "false"
    assert watched.page.evaluate("document.activeElement.dataset.key") == "exact"  # focus is not lost
    watched.redrawn("entropy", key.click)
    assert "exact" in watched.page.evaluate(lines)


def test_filters_filter(page, source):
    outcomes = [entry["outcome"] for entry in source.ledger]
    shown = page.locator(".claims > li:visible")
    page.locator("[data-filter='']").click()
    assert shown.count() == min(12, len(outcomes))
    page.locator("#more").click()
    assert shown.count() == len(outcomes)
    for outcome in set(outcomes):
        page.locator(f"[data-filter='{outcome}']").click()
        if page.locator("#more").is_visible():
            page.locator("#more").click()
        kinds = {claim.get_attribute("data-outcome") for claim in shown.all()}
        assert kinds == {outcome} and shown.count() == outcomes.count(outcome)
        assert f"{outcomes.count(outcome)} of {outcomes.count(outcome)} claims" in page.locator("#shown").inner_text()
    page.locator("[data-filter='']").click()


TABLES = [("claims", claims_table), ("primitives", primitives_table), ("recipes", recipes), ("machines", machines)]


@pytest.mark.parametrize(("table", "make"), TABLES)
def test_table_csv(watched, source, table, make):
    expected = to_plain(make(source))
    same(watched.csv(f"[data-csv='{table}']"), expected["columns"], expected["rows"])


DRAWN = """(id) => [...document.querySelectorAll(`#chart-${id} .js-plotly-plot`)].map((plot) =>
    plot.data.filter((t) => t.name || t.z || t.marker)
        .map((t) => ({ x: Array.from(t.x), y: Array.from(t.y), z: t.z && t.z.map((row) => Array.from(row)) })))"""
"""Of each panel its traces, bands and outlines left out."""


def test_chart_csvs_are_the_numbers_that_are_drawn(watched, source):
    """Downloaded, in Python, and in Plotly's hands: the same numbers."""
    watched.draw_all()
    for section in sections(source):
        for chart in section.charts:
            expected = to_plain(tidy(chart))
            told = watched.csv(f"[data-csv='{chart.id}']")
            same(told, expected["columns"], expected["rows"])
            pick = watched.page.locator(f"[data-pick='{chart.id}']")
            view = pick.input_value() if pick.count() else next(iter(chart.views))
            rows = [row for row in told[1:] if row[0] == view]
            drawn = watched.page.evaluate(DRAWN, chart.id)
            for panel, traces in zip(chart.views[view], drawn, strict=True):
                mine = [row for row in rows if row[1] == panel.title]
                numbers = sorted(_numbers(traces))
                assert numbers and numbers == pytest.approx(sorted(_expected(mine, panel)), rel=1e-5), chart.id


def _numbers(traces: list[dict[str, Any]]) -> list[float]:
    """All numbers that a panel's traces hold."""
    found: list[Any] = []
    for trace in traces:
        found += [v for row in trace["z"] for v in row] if trace.get("z") else [*trace["x"], *trace["y"]]
    return [float(v) for v in found if isinstance(v, int | float)]


def _expected(rows: list[list[str]], panel: Any) -> list[float]:
    """The same from the CSV: what no axis can show is left out."""
    if panel.heat is not None:
        return [float(row[4]) for row in rows if row[4]]
    at = (2, 3) if panel.cloud is not None else (3, 4)
    found = []
    for row in rows:
        for place, log in zip(at, (panel.log_x, panel.log_y), strict=True):
            try:
                value = float(row[place])
            except ValueError:
                continue
            found += [] if log and value <= 1e-9 else [value]
    return found


def test_variants_wait_to_be_asked_for(browser, source, tmp_path):
    names = ["hmm-transformer", "hmm-lstm", *(f"hmm-lstm-{i}" for i in range(6))]
    exhibits = {n: source.exhibits["hmm-transformer" if n == names[0] else "hmm-lstm"] for n in names}
    page_file = write_page(Source(tmp_path, None, {}, [], exhibits), tmp_path / "many.html")
    with Watched(browser, page_file) as seen:
        figure = seen.draw("entropy")
        assert figure.locator(".key").count() == 3  # two plain recipes and the exact line
        seen.redrawn("entropy", figure.locator("[data-all]").check)
        assert figure.locator(".key").count() == len(names) + 1
        assert seen.said == []


def test_a_folder_of_ones_own_runs_is_shown_however_many_there_are(browser, source, tmp_path):
    """None of them is the plain recipe of its architecture, so there is nothing to wait behind."""
    exhibits = {f"try-{i}": source.exhibits["hmm-lstm"] for i in range(8)}
    page_file = write_page(Source(tmp_path, None, {}, [], exhibits), tmp_path / "own.html")
    with Watched(browser, page_file) as seen:
        figure = seen.draw("entropy")
        assert figure.locator(".key").count() == len(exhibits) + 1
        assert figure.locator("[data-all]").count() == 0
