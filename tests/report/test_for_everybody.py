"""The page for all readers: any name, any width, light and dark, by keyboard, by screen reader, on paper."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.report.demo import NAUGHTY
from tests.report.watched import Watched
from windtunnel.report import Source, write_page


def test_a_recipe_called_script_shows_as_text(browser, demo):
    with Watched(browser, demo / "report.html") as seen:
        assert seen.page.locator("#made th", has_text=NAUGHTY).count() == 1
        assert seen.page.evaluate("document.querySelectorAll('main script').length") == 0
        assert seen.said == []


def test_a_network_with_a_hostile_name(browser, source, tmp_path):
    hostile = "<img src=x onerror=alert(1)> & <b>bold</b>"
    exhibits = {hostile: {**source.exhibits["hmm-transformer"], "name": hostile}}
    readings = {hostile: source.readings["hmm-transformer"]}
    page_file = write_page(Source(tmp_path, None, {}, [], exhibits, readings), tmp_path / "hostile.html")
    with Watched(browser, page_file, viewport={"width": 1440, "height": 900}) as seen:
        seen.draw_all()
        assert seen.page.locator("main img").count() == 0 and seen.page.locator(".panels b").count() == 0
        assert hostile in seen.page.locator("#headline").inner_text()
        assert hostile in seen.page.locator("#step-network").inner_text()
        assert hostile in seen.page.locator("#chart-entropy .key").all_inner_texts()
        rows = "".join(seen.page.locator("#chart-distance .ytick").all_text_contents())  # a line break is no space
        assert hostile.replace(" ", "") in rows.replace(" ", "")
        assert seen.said == [] and seen.left == set()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_legible(browser, demo, width, scheme):
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with Watched(browser, demo / "report.html", **options) as seen:
        seen.draw_all()
        seen.page.locator("#ledger details summary").first.click()
        seen.page.locator(".tools details summary").first.click()
        answer = Axe().run(seen.page).response
        assert len(answer["passes"]) > 20
        found = answer["violations"]
        serious = [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found if v["impact"] in ("serious", "critical")]
        assert serious == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert cut_off(seen.page) == []
        assert seen.said == []


def test_a_command_wraps_where_it_has_no_room(browser, demo):
    """One that is cut shows nothing of it: `--ru` looks like all there is."""
    with Watched(browser, demo / "report.html", viewport={"width": 400, "height": 800}) as seen:
        widths = "nodes => nodes.map(pre => [pre.scrollWidth, pre.clientWidth])"
        found = seen.page.locator("pre").evaluate_all(widths)
        assert found and all(whole <= room for whole, room in found)
        assert seen.page.locator(".lacks pre").count() and seen.page.locator("#made pre").count()


def test_a_bar_of_sections_that_is_cut_says_that_there_is_more(browser, demo):
    sign = "() => getComputedStyle(document.querySelector('nav'), '::after').content"
    with Watched(browser, demo / "report.html", viewport={"width": 390, "height": 844}) as seen:
        assert seen.page.evaluate(sign) == '"›"'
        seen.page.locator("nav a").last.scroll_into_view_if_needed()
        seen.page.wait_for_function("() => !document.querySelector('nav').classList.contains('more')")
        assert seen.page.evaluate(sign) == "none"
    with Watched(browser, demo / "report.html", viewport={"width": 1440, "height": 900}) as seen:
        assert seen.page.evaluate(sign) == "none"


def cut_off(page) -> list[str]:
    """Texts of charts and cards that reach beyond their card."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".card :is(text, .key, td, th, p, h3)")].filter((node) => {
            const box = node.getBoundingClientRect(), card = node.closest(".card").getBoundingClientRect();
            return box.width > 1 && node.textContent.trim() && !node.closest(".scroll, .numbers")
                && (box.right > card.right + 1 || box.left < card.left - 1);
        }).map((node) => node.textContent.slice(0, 40))"""
    )


def test_everything_is_reached_by_the_tab_key(browser, demo):
    with Watched(browser, demo / "report.html", viewport={"width": 1440, "height": 900}) as seen:
        seen.page.locator("a.skip").focus()
        reached = set()
        for _ in range(250):
            at = "(at => at.id || at.dataset.csv || at.dataset.filter || at.dataset.pick || '')(document.activeElement)"
            reached.add(seen.page.evaluate(at))
            seen.page.keyboard.press("Tab")
        assert {"claims", "primitives", "entropy", "ablation", "recipes"} <= reached
        assert {"stepper", "step-world", "step-slider", "step-on", "step-layer", "step-csv"} <= reached


def test_charts_have_text_alternatives(browser, demo):
    with Watched(browser, demo / "report.html") as seen:
        for panels in seen.page.locator("[role=img][aria-label]").all():
            assert len(panels.get_attribute("aria-label")) > 20
        charts, pictures = seen.page.locator("[data-chart]"), seen.page.locator("[data-chart] [role=img]")
        assert charts.count() == pictures.count() > 10


def test_a_reader_who_prints_without_scrolling_gets_the_charts(browser, demo):
    with Watched(browser, demo / "report.html") as seen:
        seen.page.wait_for_timeout(1500)
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        seen.page.wait_for_function("document.querySelectorAll('[data-chart]:not([data-drawn])').length === 0")
        assert seen.said == []
