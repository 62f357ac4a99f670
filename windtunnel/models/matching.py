"""From a number of parameters to a shape, by exact counting.

Count is affine in depth and affine in the absorbing field (a feed-forward width, say), so four counts per width give
it everywhere:  count(d, a) = c₀ + c₁ d + c₂ a + c₃ d a.  Each count comes from a model on the `meta` device, which
allocates nothing; there is no formula to keep in step with the code.

Among all shapes within 1% of the target the one nearest to the architecture's dial is taken: distances in
doublings of depth (counted twice: it changes what a network can compute), width and absorber, with a small preference
for widths and absorbers that hardware likes.  Depth and width are tried nearest first, so few have to be counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from windtunnel.errors import InputError
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.shape import Config, Dial

TOLERANCE = 0.01  # promised
# The absorber is rounded to the coarsest of these multiples that stays within the bound beside it: tensor cores like
# multiples of 8, and below that any number is as good as any other.
_ROUNDING = ((32, 0.005), (16, 0.005), (8, TOLERANCE), (4, TOLERANCE), (2, TOLERANCE), (1, TOLERANCE))


def count_parameters(cls: type[SequenceModel], config: Config, sizes: Sizes) -> int:
    """The exact number of parameters, without allocating any."""
    with torch.device("meta"):
        model = cls(config, sizes)  # pyright: ignore[reportArgumentType]
    return sum(parameter.numel() for parameter in model.parameters())


def match(cls: type[SequenceModel], params: int, sizes: Sizes, given: dict[str, Any]) -> Config:
    """The config whose count is within 1% of `params`; fields in `given` are kept as they are."""
    dial = cls.dial(given)
    best: tuple[float, dict[str, Any]] | None = None
    nearest = (math.inf, 0)
    for distance, shape in _shapes(cls, dial, params, sizes, given):
        if best is not None and distance >= best[0]:
            break  # the rest is farther still
        absorber, count = _absorb(cls, dial, params, sizes, shape, given)
        miss = abs(count - params) / params
        nearest = min(nearest, (miss, count))
        score = distance + abs(math.log2(absorber / (dial.ratio * shape["width"]))) + 0.1 * (absorber % 8 != 0)
        if miss <= TOLERANCE and (best is None or score < best[0]):
            best = (score, shape | {dial.absorber: absorber})
    if best is None:
        held = ", ".join(f"{name}={value}" for name, value in given.items())
        where = f"{cls.name} can have on this tunnel" + (f" with {held}" if held else "")
        raise InputError(f"params = {params}: must be within 1% of a size that {where}; the nearest is {nearest[1]:,}")
    return cls.config_class(**best[1])


def _shapes(
    cls: type[SequenceModel], dial: Dial, params: int, sizes: Sizes, given: dict[str, Any]
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Complete shapes, absorber still open, nearest to the dial first; those a config refuses are passed over."""
    ideal = dial.width_at(params)
    ideal_depth = dial.depth_for(ideal)
    widths = [given["width"]] if "width" in given else _widths(ideal)
    depths = [given["depth"]] if "depth" in given else range(1, math.ceil(2 * ideal_depth) + 1)

    def distance(depth: int, width: int) -> float:
        awkward = 0.0 if width % 32 == 0 else 0.1 if width % 16 == 0 else 0.2
        return abs(math.log2(width / ideal)) + 2 * abs(math.log2(depth / ideal_depth)) + awkward

    refusal, accepted = None, False
    for away, depth, width in sorted((distance(d, w), d, w) for d in depths for w in widths):
        shape = cls.complete(given | {"depth": depth, "width": width}, sizes)
        try:
            cls.config_class(**shape)
        except InputError as error:  # this width does not divide by the heads, say; another may
            refusal = refusal or error
            continue
        accepted = True
        yield away, shape
    if refusal is not None and not accepted:
        raise refusal


def _widths(ideal: float) -> list[int]:
    """Multiples of 8 up to 512, of 32 above, up to twice the ideal width."""
    top = max(16, int(2 * ideal))
    return [width for width in range(8, top + 1, 8) if width <= 512 or width % 32 == 0]


def _absorb(
    cls: type[SequenceModel], dial: Dial, params: int, sizes: Sizes, shape: dict[str, Any], given: dict[str, Any]
) -> tuple[int, int]:
    """The absorber's value that brings this shape nearest to the target, and the count it gives."""
    fixed = tuple(sorted((k, v) for k, v in shape.items() if k not in ("depth", dial.absorber)))
    base, slope = _affine(cls, sizes, fixed, dial.absorber, shape["depth"])
    if dial.absorber in given:
        value = given[dial.absorber]
        return value, base + slope * value
    low, high = max(1, math.ceil(dial.low * shape["width"])), math.floor(dial.high * shape["width"])
    exact = (params - base) / slope
    value = min(max(round(exact), low), high)
    for step, bound in _ROUNDING:
        rounded = step * round(exact / step)
        if low <= rounded <= high and abs(base + slope * rounded - params) <= bound * params:
            value = rounded
            break
    return value, base + slope * value


@cache
def _affine(cls: type[SequenceModel], sizes: Sizes, fixed: tuple, absorber: str, depth: int) -> tuple[int, int]:
    """Count = base + slope · absorber, at a depth (extrapolated from depths 1 and 2)."""
    one, two = (_corners(cls, sizes, fixed, absorber, d) for d in (1, 2))
    at_one = one[0] + (depth - 1) * (two[0] - one[0])
    at_two = one[1] + (depth - 1) * (two[1] - one[1])
    slope = at_two - at_one
    return at_one - slope, slope


@cache
def _corners(cls: type[SequenceModel], sizes: Sizes, fixed: tuple, absorber: str, depth: int) -> tuple[int, int]:
    """Counts at absorber = 1 and 2."""
    first, second = (
        count_parameters(cls, cls.config_class(**dict(fixed), **{"depth": depth, absorber: value}), sizes)
        for value in (1, 2)
    )
    return first, second
