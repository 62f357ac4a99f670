"""Text on coloured fields stands out (WCAG 2, AA: 4.5) in every field, light and dark."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import LinearSegmentedColormap, to_hex

from tests.report.watched import Watched
from windtunnel.report.palette import SEQUENTIAL, SEQUENTIAL_DARK, contrast, ink_on

ENOUGH = 4.5
CHARTS = ("key-matrices", "ablation", "heads")  # those with matrices

FIELDS = """() => {
    const seen = [...document.querySelectorAll(
        ".primitives td[class^=level], .yardsticks b, .chain td[class^=level], .token, .token small, .badge")];
    return seen.filter((node) => node.textContent.trim() && node.getClientRects().length).map((node) => {
        let field = node;
        const behind = () => getComputedStyle(field).backgroundColor;
        while (behind() === "rgba(0, 0, 0, 0)") field = field.parentElement;
        return [node.className + " " + node.textContent.slice(0, 20), getComputedStyle(node).color, behind()];
    });
}"""
"""Of each text on a coloured field: what it is, its colour and that of the field."""
HEATS = """(id) => [...document.querySelectorAll(`#chart-${id} .js-plotly-plot`)].map(({ data: [heat], layout }) => ({
    scale: heat.colorscale, low: heat.zmin, high: heat.zmax, z: heat.z.map((row) => [...row]),
    inks: layout.annotations.map((a) => [a.y, a.x, a.font.color]) }))"""
"""Of each matrix: its colours, its values and the ink of each value written into it."""


@pytest.mark.parametrize("scale", [SEQUENTIAL, SEQUENTIAL_DARK])
def test_ink_stands_out_from_every_colour_of_the_scale(scale):
    colours = LinearSegmentedColormap.from_list("", scale, N=2001)
    fields = [to_hex(colours(share)) for share in np.linspace(0, 1, 2001)]
    assert min(contrast(field, ink_on(field)) for field in fields) >= ENOUGH


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_every_field(browser, scale, scheme, record_property):
    options = {"viewport": {"width": 1440, "height": 900}, "color_scheme": scheme}
    with Watched(browser, scale / "report.html", **options) as seen:
        found = {what: contrast(_hex(ink), _hex(field)) for what, ink, field in seen.page.evaluate(FIELDS)}
        kinds = {what.split(" ")[0] for what in found}
        assert {"level4", "level5", "badge", "token"} <= kinds
        found |= dict(_matrices_of_all_networks(seen))
        worst = min(found, key=lambda what: found[what])
        record_property("told", f"contrast in {len(found)} fields, {scheme}: at least {found[worst]:.2f} ({worst})")
        assert len(found) > 500 and found[worst] >= ENOUGH


def _matrices_of_all_networks(seen):
    """A network chosen in one chart is shown by all of them: each is chosen once."""
    figures = {chart: seen.draw(chart) for chart in CHARTS}
    views = {chart: figure.locator("option").all_inner_texts() for chart, figure in figures.items()}
    for view in dict.fromkeys(view for found in views.values() for view in found):
        having = [chart for chart in CHARTS if view in views[chart]]
        pick = figures[having[0]].locator("[data-pick]")
        if pick.input_value() != view:
            seen.redrawn(having, lambda pick=pick, view=view: pick.select_option(view))
        for chart in having:
            assert figures[chart].locator("[data-pick]").input_value() == view
            for place, found in _matrices(seen.page.evaluate(HEATS, chart)):
                yield f"{chart}, {view}, {place}", found


def _matrices(plots):
    for number, plot in enumerate(plots):
        colours = LinearSegmentedColormap.from_list("", [tuple(stop) for stop in plot["scale"]], N=1024)
        for row, column, ink in plot["inks"]:
            share = (plot["z"][row][column] - plot["low"]) / (plot["high"] - plot["low"])
            yield f"panel {number}, {row}, {column}", contrast(to_hex(colours(share)), ink)


def _hex(css: str) -> str:
    """`rgb(1, 2, 3)`, or `color(srgb 0.1 0.2 0.3)` of a mixture, as `#010203`."""
    name, _, rest = css.rstrip(")").partition("(")
    red, green, blue = (float(part) for part in rest.replace("srgb", "").replace(",", " ").split()[:3])
    return to_hex((red, green, blue) if name == "color" else (red / 255, green / 255, blue / 255))
