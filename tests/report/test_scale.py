"""The page of a study as large as the full-size one: everything is in it, can be found, and can be read."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.report.test_for_everybody import cut_off
from tests.report.watched import Watched
from windtunnel.report import read
from windtunnel.report.episodes import fair_room, inflate, shortened
from windtunnel.report.figures import FIGURES, names
from windtunnel.report.page import EPISODE_BYTES, episodes
from windtunnel.report.sections import sections
from windtunnel.study.paper_plan import SURVEYED, paper

OVERLAPPING = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap((plot) =>
    [".xtick text", ".annotation-text"].flatMap((kind) => {
        const boxes = [...plot.querySelectorAll(kind)].map((node) => [node.getBoundingClientRect(), node.textContent]);
        return boxes.flatMap(([a, name], i) => boxes.slice(i + 1).filter(([b]) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
            .map(([, other]) => plot.closest("[data-chart]").dataset.chart + ": " + name + " / " + other));
    }))"""
"""Names of ticks and values in fields that lie over each other."""


@pytest.fixture(scope="module")
def study(scale):
    return read(scale, with_zoo=False)


def test_nothing_is_missing_and_no_network_is_left_out_of_the_stepper(study):
    planned = {cell.name for cell in paper().cells}
    shown, blocks, left_out = episodes(study)
    assert {one["name"] for one in shown} == planned and left_out == []
    assert sum(map(len, blocks)) <= EPISODE_BYTES and min(one["count"] for one in shown) >= 4
    assert [lack for section in sections(study) for lack in section.lacks] == []


def test_every_figure_that_can_be_asked_for_is_there(study):
    assert sorted(names(study)) == sorted(FIGURES)


def test_a_large_network_loses_episodes_before_a_small_one(study):
    assert fair_room([10, 50, 90], 120) == 60 and fair_room([], 120) == 120
    record = study.exhibits["hmm-transformer"]["episodes"]
    less = shortened(record, len(record["data"]) // 3)
    assert 1 <= less["count"] < record["count"] / 2 and len(less["data"]) <= len(record["data"]) // 3
    whole, cut = inflate(record["data"]), inflate(less["data"])
    assert cut["kl_bits"] == whole["kl_bits"][: less["count"]] and whole["attention"].startswith(cut["attention"][:-4])
    assert len(cut["chain"]["transition"]) == len(cut["tokens"]) == less["count"]
    assert shortened(record, 10)["count"] == 1 and shortened(record, 10**9) is record


def test_every_place_of_every_survey_is_drawn(study):
    charts = {chart.id: chart for section in sections(study) for chart in section.charts}
    assert set(charts["ablation"].views) == set(SURVEYED)
    rows = sum(len(panel.series[-1].y) for panel in charts["roles"].views["hmm-transformer"])
    assert rows == 46  # routing, update: six layers and all; carry: six; at it, before it, carry less the header too
    lengths = charts["late"].views["hmm-transformer"][0].series[-1].y
    assert lengths[0] == "length 20, all" and lengths[-1] == "length 50, beyond home length"


def test_networks_are_grouped_by_tunnel(browser, scale):
    with Watched(browser, scale / "report.html", viewport={"width": 1440, "height": 900}) as seen:
        pick = seen.page.locator("[data-pick='manifold']")
        worlds = [group.get_attribute("label") for group in pick.locator("optgroup").all()]
        assert worlds == ["hmm", "hmm-sticky", "hmm-rotating", "bijection", "bijection-replacement", "recall", "urn"]
        assert pick.locator("option").count() == len(paper().cells)
        assert pick.locator("optgroup[label=urn] option").count() == 4
        listed = seen.page.locator("#step-world option").all_inner_texts()
        assert sorted(listed) == sorted(worlds)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_legible(browser, scale, width, scheme):
    with Watched(browser, scale / "report.html", viewport={"width": width, "height": 900}, color_scheme=scheme) as seen:
        seen.draw_all()
        for variants in seen.page.locator("[data-all]").all():
            chart = re.sub("^chart-", "", variants.evaluate("node => node.closest('[data-chart]').id"))
            seen.redrawn(chart, variants.check)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert cut_off(seen.page) == []
        assert seen.page.evaluate(OVERLAPPING) == []
        violations = Axe().run(seen.page).response["violations"]
        assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
        assert seen.said == [] and seen.left == set()
