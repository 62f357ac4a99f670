"""docs/primitives.svg: the primitives table as a picture, one panel per world, one row per architecture.

Written by hand as SVG, so that equal results give equal files on every machine; `python docs/making/pages.py` makes it.
"""

from __future__ import annotations

from html import escape

from windtunnel.study.paper_plan import ARCHITECTURES
from windtunnel.study.primitives import ABSENT, PRIMITIVES, REALISED
from windtunnel.study.quantity import number
from windtunnel.study.results import StudyFolder
from windtunnel.study.scorecard import Row, scorecard

LEFT, TOP, WIDTH, ROW, GAP = 120, 56, 150, 26, 18  # of the panels, in pixels
LEAST, MOST = -0.1, 1.05  # shares at the ends of an axis; a worse one is drawn at its edge
COLOURS = {"realised": "#1a7f37", "partial": "#9a6700", "absent": "#cf222e", "unclear": "#57606a", "void": "#afb8c1"}


def figure(study: StudyFolder) -> str:
    """The whole picture."""
    rows = [row for row in scorecard(study.cells()) if row.network]
    panels = sorted(
        {(row.primitive, row.world) for row in rows}, key=lambda place: (PRIMITIVES.index(place[0]), place[1])
    )
    subjects = dict.fromkeys(row.subject for row in rows)
    names = [name for name in ARCHITECTURES if name in subjects]
    names += [name for name in subjects if name not in ARCHITECTURES]  # more training, another shape: after the others
    height = TOP + ROW * len(names) + 40
    width = LEFT + (WIDTH + GAP) * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        "<title>Shares of the primitives that each architecture realises</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for index, name in enumerate(names):
        parts.append(_text(LEFT - 10, _middle(index) + 4, name, "end"))
    for index, place in enumerate(panels):
        mine = {row.subject: row for row in rows if (row.primitive, row.world) == place}
        parts += _panel(LEFT + index * (WIDTH + GAP), place, [mine.get(name) for name in names])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left: float, place: tuple[str, str], rows: list[Row | None]) -> list[str]:
    bottom = TOP + ROW * len(rows)
    parts = [
        _text(left + WIDTH / 2, TOP - 28, place[0], "middle", weight="bold"),
        _text(left + WIDTH / 2, TOP - 12, place[1]),
    ]
    for share in (ABSENT, REALISED):
        x = left + _along(share)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#d0d7de"/>')
        parts.append(_text(x, bottom + 14, f"{share:g}", size=10))
    parts.append(f'<line x1="{left}" y1="{bottom}" x2="{left + WIDTH}" y2="{bottom}" stroke="#57606a"/>')
    parts.append(_text(left + WIDTH / 2, bottom + 30, "share of the primitive", size=10))
    for index, row in enumerate(rows):
        parts += [] if row is None else _marks(left, _middle(index), row)
    return parts


def _marks(left: float, y: float, row: Row) -> list[str]:
    """One pale dot per seed; the interval and its mean, or, where seeds fall apart, their median."""
    colour, share = COLOURS[row.state], row.record["share"]
    seeds = [number(value) for value in row.record["per_seed"]]
    parts = [f'<circle cx="{left + _along(v):.1f}" cy="{y:.1f}" r="2.5" fill="{colour}" opacity="0.4"/>' for v in seeds]
    centre = number(row.record["median"] if row.record["bimodal"] else share["mean"])
    if not row.record["bimodal"]:
        low, high = (left + _along(number(share[end])) for end in ("low", "high"))
        parts.append(
            f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>'
        )
    told = f"<title>{escape(f'{row.subject}, {row.world}: {row.told}')}</title>"
    parts.append(f'<circle cx="{left + _along(centre):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}">{told}</circle>')
    return parts


def _along(share: float) -> float:
    return WIDTH * (min(max(share, LEAST), MOST) - LEAST) / (MOST - LEAST)


def _middle(index: int) -> float:
    return TOP + ROW * (index + 0.5)


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="#1f2328"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
