"""Colours of the page and of print: hues that colour-blind eyes tell apart, each with its own marker and dash.

Light ones have a contrast of at least 3 : 1 on white, dark-mode ones on near-black; in grey, dashes and markers remain.
"""

from __future__ import annotations

LIGHT = ("#0b63b5", "#c2500b", "#007a5e", "#93509a", "#6f5f14", "#4b5563")
DARK = ("#6fb3ff", "#ff9d5c", "#3fcf9f", "#dfa3e6", "#dcc462", "#aab4c0")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Of lines, by hue; grey ones of simple predictors take those after the first, in their order."""
MARKERS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
KEYS = {
    "transformer": 0,
    "mamba": 1,
    "lstm": 2,
    "mlp": 3,
    "linear-attention": 4,
    "measured": 0,
    "attention": 0,
    "values": 1,
    "residual": 2,
    "KL": 3,
}
"""What a key of a series is drawn as; other keys take the last."""
SEQUENTIAL = ("#f4f7fb", "#c6dbef", "#7fb0dc", "#3b7fbf", "#0b4f94", "#062a57")
"""From little to much; darkens steadily, so it prints in grey."""
SEQUENTIAL_DARK = ("#171c22", "#1d3a5c", "#23598f", "#3a82c4", "#7db6ee", "#d8ebff")
SHARES = ("#ffffff", "#edf4fb", "#dae8f6", "#c3d9ef", "#a8c8e8", "#6ea7d9")
"""Fields of the primitives table, by depth; the last step is the largest, for it is the one that counts."""
SHARES_DARK = ("#171c22", "#1a2733", "#1c3144", "#1e3c57", "#20486c", "#2a66a3")
CONTINUOUS = ("#2b0b57", "#6a1f86", "#b8377a", "#ee6f57", "#f9b04a")
"""For clouds, from low to high."""
CONTINUOUS_DARK = ("#7b5bd6", "#b65cc0", "#f0708a", "#feb17d", "#fcfdbf")


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 for black and 1 for white (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 … 21; small text needs 4.5 (WCAG 2, AA).

    >>> round(contrast("#000000", "#ffffff"), 1), round(contrast("#3b7fbf", "#ffffff"), 1)
    (21.0, 4.2)
    """
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink_on(field: str) -> str:
    """Black or white, whichever stands out more: at least 4.58 on any field; `inkOn` in look.js does the same."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, field))
