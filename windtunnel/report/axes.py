"""Where the ticks and the names of an axis go, for print; `look.js` and `charts.js` do the same for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from windtunnel.report.words import power_of_ten, short

LEAST = 1e-9  # bits; what is smaller is rounding, and has no place on a log axis


def span(values: Sequence[float], floor: float | None = None) -> tuple[float, float]:
    """The ends of a log axis, with a little air; below `floor` nothing is worth the room."""
    found = [v for v in values if math.isfinite(v) and v > LEAST] or [1.0]
    high = max(found)
    low = min(found) if floor is None else max(min(found), min(floor, high))
    pad = max(1.15, (high / low) ** 0.06)
    return low / pad, high * pad


def log_ticks(low: float, high: float, room: int = 7) -> dict[float, str]:
    """Ticks of a log axis and their texts: powers of ten, as many as there is room for; on a short axis 2 and 5 too.

    >>> log_ticks(0.008, 1.2)
    {0.01: '0.01', 0.1: '0.1', 1.0: '1'}
    >>> list(log_ticks(1e-6, 1).values())
    ['10⁻⁶', '10⁻⁵', '10⁻⁴', '0.001', '0.01', '0.1', '1']
    >>> list(log_ticks(1.5, 30).values())
    ['2', '5', '10', '20']
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    whole = [power for power in powers if low <= 10.0**power <= high]
    every = max(1, math.ceil(len(whole) / room))
    ticks = {10.0**power: _text(power) for power in whole if power % every == 0}
    if len(whole) < 3:
        ticks = _between(powers, (1, 2, 5))
    if sum(low <= at <= high for at in ticks) < 2:
        ticks = _between(powers, range(1, 10))
    middle = math.sqrt(low * high)
    return {at: text for at, text in ticks.items() if low <= at <= high} or {middle: short(middle)}


def _between(powers: Sequence[int], parts: Sequence[int]) -> dict[float, str]:
    return {part * 10.0**power: short(part * 10.0**power) for power in powers for part in parts}


def _text(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power < 5 else power_of_ten(power)


def apart(places: Sequence[float], gap: float) -> list[float]:
    """The places, within 0 … 1, pushed apart to at least `gap`, in their order.

    >>> apart([0.5, 0.5, 0.9], 0.1)
    [0.5, 0.6, 0.9]
    >>> apart([0.99, 1.0], 0.1)
    [0.9, 1.0]
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    put = np.array([places[i] for i in order], dtype=float)
    for i in range(1, len(put)):
        put[i] = max(put[i], put[i - 1] + gap)
    limit = 1.0
    for i in reversed(range(len(put))):
        put[i] = min(put[i], limit)
        limit = put[i] - gap
    found = dict(zip(order, put, strict=True))
    return [round(float(found[i]), 6) for i in range(len(places))]
