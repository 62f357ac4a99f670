"""The page in a real headless Chromium: it works by mouse and keyboard, is legible to all, and talks to nobody."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

import windtunnel as wt
from windtunnel.report import Source, write_page
from windtunnel.report.chart import tidy, to_plain
from windtunnel.report.sections import sections
from windtunnel.report.verdicts import claims_table, primitives_table
from windtunnel.training import load

SECTIONS = ("verdict", "fidelity", "episode", "geometry", "mechanism", "made")
INTERACTIVE_S = 3.0


class Watched:
    """A page, with everything it says and asks for."""

    def __init__(self, browser, path, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = path.as_uri()
        self.page.goto(self.url)
        self.page.wait_for_selector("#stepper[data-ready=yes]")

    def draw_all(self) -> None:
        """Scroll to every chart and wait until it is drawn."""
        for figure in self.page.locator("[data-chart]").all():
            figure.scroll_into_view_if_needed()
            self.page.wait_for_function("figure => figure.dataset.drawn", arg=figure.element_handle())

    def csv(self, button: str) -> list[list[str]]:
        with self.page.expect_download() as waiting:
            self.page.locator(button).click()
        text = waiting.value.path().read_text(encoding="utf-8")
        self.page.wait_for_timeout(110)  # Chromium takes at most ten downloads a second
        return list(csv.reader(io.StringIO(text)))


@pytest.fixture(scope="module")
def watched(browser, demo):
    found = Watched(browser, demo / "report.html", viewport={"width": 1440, "height": 900})
    yield found
    found.context.close()


@pytest.fixture
def page(watched):
    return watched.page


def text(value: Any) -> str:
    return "" if value is None else str(value)


def same(told: list[list[str]], columns, rows) -> None:
    """A downloaded CSV against the table in Python: words equal, numbers to six digits."""
    assert told[0] == list(columns)
    assert len(told) - 1 == len(rows)
    for found, expected in zip(told[1:], rows, strict=True):
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, int | float) and not isinstance(b, bool):
                assert float(a) == pytest.approx(b, rel=1e-5, abs=1e-300)
            else:
                assert a == text(b)


def test_size_and_load_time(browser, demo, record_property):
    path, fresh = demo / "report.html", browser.new_page(viewport={"width": 1440, "height": 900})
    start = time.perf_counter()
    fresh.goto(path.as_uri(), wait_until="commit")
    fresh.wait_for_selector("#ledger [data-filter=''][aria-pressed=true]")
    fresh.locator("[data-filter='reproduced only as'], [data-filter='not tested at this scale']").last.click()
    fresh.wait_for_function("document.getElementById('shown').textContent.includes(':')")
    seconds, size = time.perf_counter() - start, path.stat().st_size / 1e6
    fresh.wait_for_load_state("load")
    loaded = time.perf_counter() - start
    fresh.close()
    told = f"report page: {size:.2f} MB, first section interactive after {seconds:.2f} s, all loaded {loaded:.2f} s"
    record_property("told", told)  # printed at the end of the run, see tests/conftest.py
    assert size < 12
    assert seconds < INTERACTIVE_S


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
        picks = watched.page.locator(f"[data-pick='{chart.id}']")
        if picks.count():
            before = watched.page.locator(f"#chart-{chart.id}").get_attribute("data-drawn")
            picks.select_option(list(chart.views)[-1])
            watched.page.wait_for_function(
                "([id, before]) => document.getElementById(id).dataset.drawn !== before",
                arg=[f"chart-{chart.id}", before],
            )
        plots = watched.page.locator(f"#chart-{chart.id} .js-plotly-plot")
        assert plots.count() == len(list(chart.views.values())[-1])
    assert watched.said == []
    assert {url for url in watched.asked if not url.startswith(("data:", "blob:"))} == {watched.url}


def test_a_switch_recolours_the_manifold(page):
    figure = page.locator("#chart-manifold")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("#chart-manifold[data-drawn] [data-by]")
    colours = "() => JSON.stringify(document.querySelector('#chart-manifold .js-plotly-plot').data.at(-1).marker.color)"
    by_entropy = page.evaluate(colours)
    drawn = figure.get_attribute("data-drawn")
    figure.locator("[data-by]").select_option("step")
    page.wait_for_function("before => document.getElementById('chart-manifold').dataset.drawn !== before", arg=drawn)
    assert page.evaluate(colours) != by_entropy


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


@pytest.mark.parametrize(("table", "make"), [("claims", claims_table), ("primitives", primitives_table)])
def test_table_csv(watched, source, table, make):
    expected = to_plain(make(source))
    same(watched.csv(f"[data-csv='{table}']"), expected["columns"], expected["rows"])


def test_chart_csvs_are_the_numbers_behind_the_charts(watched, source):
    for section in sections(source):
        for chart in section.charts:
            expected = to_plain(tidy(chart))
            same(watched.csv(f"[data-csv='{chart.id}']"), expected["columns"], expected["rows"])


def test_variants_wait_to_be_asked_for(browser, source, tmp_path):
    names = ["hmm-transformer", "hmm-lstm", *(f"hmm-lstm-{i}" for i in range(6))]
    exhibits = {n: source.exhibits["hmm-transformer" if n == names[0] else "hmm-lstm"] for n in names}
    page_file = write_page(Source(tmp_path, None, {}, [], exhibits), tmp_path / "many.html")
    seen = Watched(browser, page_file)
    try:
        figure = seen.page.locator("#chart-entropy")
        figure.scroll_into_view_if_needed()
        box = figure.locator("[data-all]")
        box.wait_for()
        plot = "document.querySelector('#chart-entropy .js-plotly-plot')"
        lines = f"() => {plot}.data.filter(trace => trace.showlegend !== false).length"
        seen.page.wait_for_function(f"({lines})() === 3")  # two plain recipes and the exact line
        box.check()
        seen.page.wait_for_function(f"({lines})() === {len(names) + 1}")
        assert seen.said == []
    finally:
        seen.context.close()


# --- the stepper
def choose(page, world: str, network: str, episode: int) -> None:
    page.locator("#step-world").select_option(world)
    page.wait_for_selector("#stepper[data-ready=yes]")
    page.locator("#step-network").select_option(label=f"{network}, seed 0")
    page.wait_for_selector("#stepper[data-ready=yes]")
    page.locator("#step-episode").select_option(str(episode))


def episode_score(network, tunnel, episode: int, count: int):
    """`wt.evaluate` on one episode of the default stream."""

    def only(episodes):
        return (torch.arange(len(episodes)) == episode)[:, None].expand(episodes.labels.shape)

    return wt.evaluate(network, tunnel, episodes=count, where=only)


CASES = [
    ("hmm", "transformer", 0),
    ("hmm", "lstm", 3),
    ("bijection-replacement", "transformer", 7),
    ("urn", "transformer", 2),
]


@pytest.mark.parametrize(("world", "model", "episode"), CASES)
def test_stepper_numbers_are_those_of_evaluate(page, demo, world, model, episode):
    run = load(demo / "runs" / f"{world}-{model}")
    count = int(page.evaluate("() => JSON.parse(document.getElementById('data').textContent).stepper[0].count"))
    score = episode_score(run.models[0], run.tunnel, episode, count)
    choose(page, world, model, episode)
    page.locator("#step-slider").fill("1")
    sampled = run.tunnel.sample(count, 1, "test")
    believed = run.models[0].log_probs(sampled.inputs).exp()[episode]
    for step in range(run.tunnel.readouts):
        assert page.locator("#step-where").inner_text() == f"step {step + 1} of {run.tunnel.readouts}"
        shown = float(page.locator("#step-kl").get_attribute("data-value"))
        assert shown == pytest.approx(score.kl_bits.per_position[step], rel=1e-4, abs=1e-7)
        assert float(page.locator("#step-kl").inner_text()) == pytest.approx(shown, rel=1e-3)
        exact, model_bits = (float(page.locator(f"#step-{who}-bits").inner_text()) for who in ("exact", "model"))
        assert exact == pytest.approx(score.exact_entropy_curve[step], rel=1e-3, abs=1e-6)
        assert model_bits == pytest.approx(score.model_entropy_curve[0, step], rel=1e-3, abs=1e-6)
        bars = [
            [float(v) for v in page.locator(f"[data-{who}]").evaluate_all("n => n.map(e => e.textContent)")]
            for who in ("exact", "model")
        ]
        assert bars[0] == pytest.approx(sampled.posterior[episode, step].tolist(), abs=6e-4)
        assert bars[1] == pytest.approx(believed[step].tolist(), abs=6e-4)
        page.locator("#step-on").click(force=step + 1 == run.tunnel.readouts)


def test_stepper_moves_by_keyboard_and_mouse(page):
    choose(page, "hmm", "transformer", 1)
    where = page.locator("#step-where")
    page.locator("#step-slider").focus()
    page.keyboard.press("Home")
    assert where.inner_text().startswith("step 1 ")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert where.inner_text().startswith("step 3 ")
    page.locator("#stepper").focus()
    page.keyboard.press("ArrowLeft")
    assert where.inner_text().startswith("step 2 ")
    page.keyboard.press("End")
    assert where.inner_text().startswith("step 6 ")
    assert page.locator("#step-on").is_disabled()
    page.locator("#step-back").click()
    assert where.inner_text().startswith("step 5 ")
    page.locator("#step-trail rect[data-step='0']").last.click()
    assert where.inner_text().startswith("step 1 ")
    assert "KL" in page.locator("#step-live").text_content()


def test_stepper_shows_attention_and_the_simplex(page, demo):
    run = load(demo / "runs" / "hmm-transformer")
    choose(page, "hmm", "transformer", 2)
    page.locator("#step-slider").fill("4")
    page.locator("#step-layer").select_option("1")
    page.locator("#step-head").select_option("1")
    pattern = wt.trace(run.models[0], run.tunnel.sample(3, 1, "test"), "blocks.1.attention.pattern")
    last = run.tunnel.header_positions + 3
    shares = pattern["blocks.1.attention.pattern"][2, 1, last, : last + 1].tolist()
    titles = page.locator("#step-tokens .token").evaluate_all("nodes => nodes.map(n => n.title)")
    assert [float(title.split()[-1]) for title in titles] == pytest.approx(shares, abs=0.006)
    assert page.locator("#step-simplex circle").count() == 2
    choose(page, "bijection-replacement", "mlp", 0)
    assert page.locator("#step-no-attention").is_visible() and not page.locator("#step-simplex").is_visible()


def test_stepper_csv(watched, demo):
    choose(watched.page, "hmm", "lstm", 5)
    rows = watched.csv("#step-csv")
    run = load(demo / "runs" / "hmm-lstm")
    score = episode_score(run.models[0], run.tunnel, 5, 24)
    at = rows[0].index("kl_bits")
    assert [float(row[at]) for row in rows[1:]] == pytest.approx(
        score.kl_bits.per_position.tolist(), rel=1e-4, abs=1e-7
    )


# --- for everybody
def test_a_recipe_called_script_shows_as_text(page):
    cell = page.locator("td", has_text="<script>alert(1)</script>")
    assert cell.count() == 1
    assert page.evaluate("document.querySelectorAll('main script').length") == 0


def test_a_network_with_a_hostile_name(browser, source, tmp_path):
    hostile = "<img src=x onerror=alert(1)> & <b>bold</b>"
    exhibits = {hostile: {**source.exhibits["hmm-transformer"], "name": hostile}}
    readings = {hostile: source.readings["hmm-transformer"]}
    page_file = write_page(Source(tmp_path, None, {}, [], exhibits, readings), tmp_path / "hostile.html")
    seen = Watched(browser, page_file, viewport={"width": 1440, "height": 900})
    try:
        seen.draw_all()
        assert seen.page.locator("main img").count() == 0 and seen.page.locator(".panels b").count() == 0
        assert hostile in seen.page.locator("#headline").inner_text()
        assert hostile in seen.page.locator("#step-network").inner_text()
        legend = seen.page.locator("#chart-entropy .legendtext").all_text_contents()
        assert hostile in legend
        assert seen.said == [] and set(seen.asked) == {seen.url}
    finally:
        seen.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_accessible_and_legible(browser, demo, width, scheme):
    seen = Watched(browser, demo / "report.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        seen.draw_all()
        seen.page.locator("#ledger details summary").first.click()
        seen.page.locator(".tools details summary").first.click()
        answer = Axe().run(seen.page).response
        assert len(answer["passes"]) > 20
        found = answer["violations"]
        serious = [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found if v["impact"] in ("serious", "critical")]
        assert serious == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.said == []
    finally:
        seen.context.close()


def test_everything_is_reached_by_the_tab_key(page):
    page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
    page.locator("a.skip").focus()
    reached = set()
    for _ in range(200):
        reached.add(page.evaluate("(at => at.id || at.dataset.csv || at.dataset.filter || '')(document.activeElement)"))
        page.keyboard.press("Tab")
    assert {"claims", "primitives", "stepper", "step-world", "step-slider", "step-on", "step-csv", "recipes"} <= reached
