"""The README's picture of the page: its top, and the stepper in the middle of an episode, side by side.

windtunnel report results/paper
python benchmarks/report_picture.py results/paper/report.html docs/report.png
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from browser import chromium
from PIL import Image

WIDTH, HEIGHT, GAP = 1120, 1180, 24


def halves(page_file: Path, scheme: str, scale: float) -> list[Image.Image]:
    """Two screenshots of equal size: the top of the page, and the stepper."""
    with chromium() as browser:
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            device_scale_factor=scale,
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page.goto(page_file.resolve().as_uri())
        shots = [page.screenshot()]
        if page.locator("#stepper").count():
            page.wait_for_selector("#stepper[data-ready=yes]")
            steps = int(page.locator("#step-slider").get_attribute("max") or 1)
            for _ in range((2 * steps) // 3):
                page.locator("#step-on").click()
            page.locator("#episode").evaluate("part => scrollTo({top: part.offsetTop - 60, behavior: 'instant'})")
            shots.append(page.screenshot())
    return [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]


def main() -> None:
    parser = argparse.ArgumentParser(description="Take the README's picture of a report page.")
    parser.add_argument("page", type=Path, help="the HTML file that `windtunnel report` wrote")
    parser.add_argument("out", type=Path, help="the PNG file to write")
    parser.add_argument("--scheme", default="light", choices=("light", "dark"))
    parser.add_argument("--scale", type=float, default=1.0, help="pixels per point")
    options = parser.parse_args()
    parts = halves(options.page, options.scheme, options.scale)
    width = sum(part.width for part in parts) + GAP * (len(parts) - 1)
    picture = Image.new("RGB", (width, parts[0].height), "#dcdfe3")
    for index, part in enumerate(parts):
        picture.paste(part, (index * (part.width + GAP), 0))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(256).save(options.out, optimize=True)
    print(f"{options.out}: {picture.width} × {picture.height}, {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
