"""Two measured numbers compared: their ratio or difference, with its interval.

Equal seeds share their data, so what two cells have of them is paired.  Cells without a seed in common share nothing:
there all seeds of both count, by Welch's test.  Numbers that are not over seeds are compared by their intervals.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from windtunnel.fidelity.intervals import CONFIDENCE, Scale, exp_or_inf, geometric_mean
from windtunnel.study.quantity import Quantity


def ratio(a: Quantity, b: Quantity) -> Quantity:
    """a / b, both positive; over seeds on the scale of logarithms, about the geometric mean of their ratios.

    Compared by their intervals, it straddles every line where one of them reaches 0: no logarithm bounds it then.
    """
    if apart(a, b):
        return _welch(a, b, "log")
    if pairs := paired(a, b):
        ratios = [x / y for x, y in pairs]
        middle = geometric_mean(np.array(ratios))
        relative = math.hypot(*(q.noise / q.mean if q.noise else 0.0 for q in (a, b)))
        found = Quantity.of_seeds(ratios, "log", sum(ratios) / len(pairs) * relative)
        return replace(found, mean=middle, noise=middle * relative, seeds=common(a, b))
    if any(end <= 0 for q in (a, b) for end in (q.mean, q.low)):
        return Quantity(a.mean / b.mean if b.mean else math.nan, -math.inf, math.inf, "sequences")
    middle = math.log(a.mean / b.mean)
    halves = [math.log(q.high / q.low) / 2 if q.over != "exact" else 0.0 for q in (a, b)]
    half = math.hypot(*halves)
    mean, low, high = map(exp_or_inf, (middle, middle - half, middle + half))
    return Quantity(mean, low, high, "sequences")


def difference(a: Quantity, b: Quantity) -> Quantity:
    """a − b."""
    if apart(a, b):
        return _welch(a, b, "linear")
    if pairs := paired(a, b):
        found = Quantity.of_seeds([x - y for x, y in pairs], noise=math.hypot(a.noise, b.noise))
        return replace(found, seeds=common(a, b))
    below = math.hypot(a.mean - a.low, b.high - b.mean)
    above = math.hypot(a.high - a.mean, b.mean - b.low)
    middle = a.mean - b.mean
    return Quantity(middle, middle - below, middle + above, "exact" if a.over == b.over == "exact" else "sequences")


def apart(a: Quantity, b: Quantity) -> bool:
    """Are both over several seeds that cannot be paired: none in common or, where seeds are unknown, unequally many?"""
    if min(len(a.values), len(b.values)) < 2:
        return False
    return not set(a.seeds) & set(b.seeds) if a.seeds and b.seeds else len(a.values) != len(b.values)


def common(a: Quantity, b: Quantity) -> tuple[int, ...]:
    """The seeds that both have, in the order of a; none where it is not known which they are."""
    return tuple(seed for seed in a.seeds if seed in b.seeds)


def paired(a: Quantity, b: Quantity) -> list[tuple[float, float]]:
    """Values of the seeds that both have; where it is not known which they are, in order, if there are equally many.
    None if fewer than two."""
    if a.seeds and b.seeds:
        first, other = (dict(zip(q.seeds, q.values, strict=True)) for q in (a, b))
        found = [(first[seed], other[seed]) for seed in common(a, b)]
    else:
        found = list(zip(a.values, b.values, strict=True)) if len(a.values) == len(b.values) else []
    return found if len(found) >= 2 else []


def _welch(a: Quantity, b: Quantity, scale: Scale) -> Quantity:
    """The difference of two means (on a log scale: their ratio) whose spreads may differ.

    It straddles every line where seeds do not differ at all, or have no logarithm: there is no telling.
    """
    a, b = (Quantity.of_seeds(q.values, scale, q.noise) for q in (a, b))
    counts = (len(a.values), len(b.values))
    if a.scale != scale or b.scale != scale:  # a value at or below 0
        return Quantity(math.nan, -math.inf, math.inf, "seeds", counts=counts)
    (x, error_x), (y, error_y) = a.on_scale(), b.on_scale()
    middle, error = float(x.mean() - y.mean()), math.hypot(error_x, error_y)
    if error <= 1e-12 * max(1.0, abs(middle)):
        df, half = 1.0, math.inf
    else:
        df = error**4 / (error_x**4 / (len(x) - 1) + error_y**4 / (len(y) - 1))
        half = float(stdtrit(df, 0.5 + CONFIDENCE / 2)) * error
    ends = (middle, middle - half, middle + half)
    mean, low, high = map(exp_or_inf, ends) if scale == "log" else ends
    return Quantity(mean, low, high, "seeds", scale=scale, df=df, counts=counts)
