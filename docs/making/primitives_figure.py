"""docs/primitives.svg: the primitives table as a picture, one panel per world, one row per architecture.

Written by hand as SVG, so that equal results give equal files on every machine; `python docs/making/pages.py` makes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from windtunnel.json_numbers import from_json
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import ARCHITECTURES
from windtunnel.study.primitive_rows import Row, in_order
from windtunnel.study.share import ABSENT, REALISED
from windtunnel.study.trials import PRIMITIVES

LEFT, TOP, WIDTH, ROW, GAP = 120, 70, 165, 26, 18  # of the panels, in pixels
LEAST, MOST = -0.2, 1.05  # shares at the ends of an axis; one beyond is an arrow at its edge, with its number
INK, SOFT, FAINT = "#1f2328", "#57606a", "#d0d7de"
LOOKS = {
    "realised": ("#0b63b5", "circle", f"realised: interval above {REALISED:g}"),
    "partial": ("#c2500b", "diamond", "partial: between the two lines"),
    "absent": ("#1f2328", "square", f"absent: below {ABSENT:g}"),
    "unclear": ("#7b6d8d", "triangle", "unclear: across a line, or seeds fall apart"),
    "void": ("#8c959f", "ring", "void: worth too little here"),
}
"""State -> colour, shape and what the key says: no two are told apart by colour alone."""
MARKS = (
    ("seed", "one seed"),
    ("interval", "mean and its 95% interval; the median where seeds fall apart"),
    ("arrow", "further left, at the number beside it"),
)


def figure(study: StudyFolder) -> str:
    """The whole picture."""
    rows = [row for row in in_order(study.cells()) if row.network]
    panels = sorted(
        {(row.primitive, row.world) for row in rows}, key=lambda place: (PRIMITIVES.index(place[0]), place[1])
    )
    subjects = dict.fromkeys(row.subject for row in rows)
    names = [name for name in ARCHITECTURES if name in subjects]
    names += [name for name in subjects if name not in ARCHITECTURES]  # more training, another shape: after the others
    bottom = TOP + ROW * len(names)
    width, height = LEFT + (WIDTH + GAP) * len(panels), bottom + 92
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
    used = {row.state for row in rows}
    parts += _key(bottom + 62, [(kind, told) for kind, (_, _, told) in LOOKS.items() if kind in used])
    parts += _key(bottom + 80, MARKS)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left: float, place: tuple[str, str], rows: list[Row | None]) -> list[str]:
    bottom = TOP + ROW * len(rows)
    parts = [
        _text(left + WIDTH / 2, TOP - 42, place[0], "middle", weight="bold"),
        _text(left + WIDTH / 2, TOP - 26, place[1]),
    ]
    for share in (ABSENT, REALISED):  # the lines of the words; their numbers above, those of the axis below
        parts.append(_line(left + _along(share), TOP, left + _along(share), bottom, FAINT, dash="4 3"))
        parts.append(_text(left + _along(share), TOP - 6, f"{share:g}", size=10, fill=SOFT))
    for share in (0, 0.5, 1):
        parts.append(_line(left + _along(share), bottom, left + _along(share), bottom + 4, SOFT))
        parts.append(_text(left + _along(share), bottom + 16, f"{share:g}", size=10))
    parts.append(_line(left, bottom, left + WIDTH, bottom, SOFT))
    parts.append(_text(left + WIDTH / 2, bottom + 32, "share of the primitive", size=10))
    for index, row in enumerate(rows):
        parts += [] if row is None else _marks(left, _middle(index), row)
    return parts


def _marks(left: float, y: float, row: Row) -> list[str]:
    """One pale dot per seed; the interval and its mean, or, where seeds fall apart, their median."""
    (colour, shape, _), share = LOOKS[row.state], row.record["share"]
    seeds = [from_json(value) for value in row.record["per_seed"]]
    centre = from_json(row.record["median"] if row.record["bimodal"] else share["mean"])
    parts = [_seed(left + _along(value), y, colour) for value in seeds if value >= LEAST]
    if LEAST <= centre and min(seeds, default=0.0) < LEAST:  # a seed beyond the edge, of others that are not
        parts.append(_shape("arrow", left + 5, y, colour, f"a seed at {min(seeds):.2f}", faint=True))
    if not row.record["bimodal"]:
        low, high = (left + _along(from_json(share[end])) for end in ("low", "high"))
        parts.append(_line(low, y, high, y, colour, thick=2))
    told = f"{row.subject}, {row.world}: {row.told}"
    if centre < LEAST:
        parts.append(_shape("arrow", left + 5, y, colour, told))
        return [*parts, _text(left + 14, y + 4, f"{centre:.2f}".replace("-", "−"), "start", size=10)]
    return [*parts, _shape(shape, left + _along(centre), y, colour, told)]


def _key(y: float, entries: Iterable[tuple[str, str]]) -> list[str]:
    """A line that says what shapes and colours mean."""
    parts, x = [], LEFT - 4.0
    for kind, told in entries:
        if kind == "seed":
            parts.append(_seed(x, y, LOOKS["realised"][0]))
        elif kind == "interval":
            parts += [_line(x - 8, y, x + 8, y, SOFT, thick=2), _shape("circle", x, y, SOFT)]
        else:
            colour, shape, _ = LOOKS.get(kind, (SOFT, kind, ""))
            parts.append(_shape(shape, x, y, colour))
        parts.append(_text(x + 13, y + 4, told, "start", size=11))
        x += 42 + 5.7 * len(told)
    return parts


def _seed(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}" opacity="0.4"/>'


def _shape(shape: str, x: float, y: float, colour: str, told: str = "", *, faint: bool = False) -> str:
    """A mark of about nine pixels, with words for who points at it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    if shape in ("circle", "ring"):
        look = f'fill="{colour}"' if shape == "circle" else f'fill="none" stroke="{colour}" stroke-width="1.5"'
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {look}>{title}</circle>'
    corners = {
        "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        "diamond": ((0, -6), (6, 0), (0, 6), (-6, 0)),
        "triangle": ((0, -5.5), (5.5, 4.5), (-5.5, 4.5)),
        "arrow": ((-5, 0), (5, -5), (5, 5)),
    }[shape]
    points = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in corners)
    pale = ' opacity="0.4"' if faint else ""
    return f'<polygon points="{points}" fill="{colour}"{pale}>{title}</polygon>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, thick: float = 1, dash: str = "") -> str:
    style = f'stroke="{colour}" stroke-width="{thick:g}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _along(share: float) -> float:
    return WIDTH * (min(max(share, LEAST), MOST) - LEAST) / (MOST - LEAST)


def _middle(index: int) -> float:
    return TOP + ROW * (index + 0.5)


def _text(
    x: float, y: float, words: str, anchor: str = "middle", size: int = 12, weight: str = "normal", fill: str = INK
) -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
