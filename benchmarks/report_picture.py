"""The README's picture of the page: the verdict, and the stepper in the middle of an episode, side by side.

make reproduce
python benchmarks/report_picture.py results/scratch/quick/report.html docs/page.png
"""

from __future__ import annotations

import io
from pathlib import Path

from browser import chromium
from common import Parser, place, positive, run
from PIL import Image

from windtunnel.errors import require

WIDTH, GAP = 920, 26
PARTS = (("header.top",), ("#verdict .card >> nth=0", "#stepper"))
"""What is shown, row by row."""


def rows(page_file: Path, scheme: str, scale: float) -> tuple[list[list[Image.Image]], str]:
    """Screenshots of the parts, and the colour of the page behind them."""
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
        # The bar of sections would lie over the parts, and the header has air above it that a picture needs not.
        page.add_style_tag(content="nav { display: none; } header.top { padding: 0 0 0.5rem !important; }")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        found = [[page.locator(part).screenshot() for part in row] for row in PARTS]
    return [[Image.open(io.BytesIO(shot)).convert("RGB") for shot in row] for row in found], paper


def composed(parts: list[list[Image.Image]], paper: str, scale: float) -> Image.Image:
    """The rows below each other on the page's own colour."""
    gap = round(GAP * scale)
    wide = max(sum(part.width + gap for part in row) for row in parts)
    tall = [max(part.height for part in row) for row in parts]
    picture = Image.new("RGB", (wide + gap, sum(tall) + gap * (len(parts) + 1)), paper)
    top = gap
    for row, height in zip(parts, tall, strict=True):
        left = gap
        for part in row:
            picture.paste(part, (left, top))
            left += part.width + gap
        top += height + gap
    return picture


def main() -> None:
    parser = Parser(description="Take the README's picture of a report page.")
    parser.add_argument("page", type=Path, help="the HTML file that `windtunnel report` wrote")
    parser.add_argument("out", type=place, help="the PNG file to write")
    parser.add_argument("--scheme", default="light", choices=("light", "dark"))
    parser.add_argument("--scale", type=positive, default=1.0, help="pixels per point")
    options = parser.parse_args()
    require(options.page.is_file(), "page", str(options.page), "a file that `windtunnel report` wrote")
    picture = composed(*rows(options.page, options.scheme, options.scale), options.scale)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(256).save(options.out, optimize=True)
    print(f"{options.out}: {picture.width} × {picture.height}, {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    run(main)
