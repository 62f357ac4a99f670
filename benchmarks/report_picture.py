"""The README's picture of the page: the verdict, and the stepper in the middle of an episode, side by side.

    windtunnel report results/paper
    python benchmarks/report_picture.py results/paper/report.html docs/page.png

What stands in the picture is also in the file, as text (`Description`), so that a test can hold it to the study.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from browser import chromium
from common import Parser, place, positive, run
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from windtunnel.errors import require

WIDTH, GAP = 850, 22
TOP, CARD, STEPPER = "header.top", "#verdict .card >> nth=0", "#stepper"
COLUMNS = ((TOP, CARD), (STEPPER,))
"""What is shown, column by column."""
STYLE = """
    nav, #more, #shown { display: none; } header.top { padding: 0 !important; } .over { margin-top: 0; }
    .views { grid-template-columns: minmax(0, 1fr) 14rem; } .chain { flex-wrap: nowrap; gap: 1.2rem; }
    .chain td, .chain th { padding: 0.1rem 0.3rem; } .claims summary { grid-template-columns: 9.5rem 1fr 16rem; }
"""
"""The bar of sections would lie over the parts; and the parts stand as close as on a wider page."""


def taken(page_file: Path, scheme: str, scale: float) -> tuple[list[list[Image.Image]], str, str]:
    """Screenshots of the parts, the colour of the page behind them, and the words of the verdict."""
    with chromium() as browser:
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 1400},
            device_scale_factor=scale,
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page.goto(page_file.resolve().as_uri())
        page.wait_for_selector("#stepper[data-ready=yes]")
        steps = int(page.locator("#step-slider").get_attribute("max") or 1)
        page.locator("#step-slider").fill(str(max(1, round(0.8 * steps))))
        page.locator("#step-slider").blur()
        page.add_style_tag(content=STYLE)
        shorten(page)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shots = [[page.locator(part).screenshot() for part in column] for column in COLUMNS]
        words = " ".join(" ".join(page.locator(part).inner_text() for part in (TOP, CARD)).split())
    return [[Image.open(io.BytesIO(shot)).convert("RGB") for shot in column] for column in shots], paper, words


def shorten(page: Any) -> None:
    """Of a long ledger the first claims, as many as there is room for beside the stepper."""

    def height(part: str) -> float:
        return page.locator(part).bounding_box()["height"]

    for claim in reversed(page.locator(f"{CARD} >> .claims > li").all()):
        if height(TOP) + GAP + height(CARD) <= height(STEPPER):
            break
        claim.evaluate("(node) => { node.hidden = true; }")


def composed(columns: list[list[Image.Image]], paper: str, scale: float) -> Image.Image:
    """The columns beside each other on the page's own colour."""
    gap = round(GAP * scale)
    wide = [column[-1].width for column in columns]  # a card's; the header is as wide as the page
    tall = max(sum(part.height + gap for part in column) for column in columns)
    picture = Image.new("RGB", (sum(wide) + gap * (len(columns) + 1), tall + gap), paper)
    left = gap
    for column, width in zip(columns, wide, strict=True):
        top = gap
        for part in column:
            picture.paste(part.crop((0, 0, width, part.height)), (left, top))
            top += part.height + gap
        left += width + gap
    return picture


def main() -> None:
    parser = Parser(description="Take the README's picture of a report page.")
    parser.add_argument("page", type=Path, help="the HTML file that `windtunnel report` wrote")
    parser.add_argument("out", type=place, help="the PNG file to write")
    parser.add_argument("--scheme", default="light", choices=("light", "dark"))
    parser.add_argument("--scale", type=positive, default=1.0, help="pixels per point")
    options = parser.parse_args()
    require(options.page.is_file(), "page", str(options.page), "a file that `windtunnel report` wrote")
    columns, paper, words = taken(options.page, options.scheme, options.scale)
    picture, text = composed(columns, paper, options.scale), PngInfo()
    text.add_itxt("Description", words)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(256).save(options.out, optimize=True, pnginfo=text)
    print(f"{options.out}: {picture.width} × {picture.height}, {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    run(main)
