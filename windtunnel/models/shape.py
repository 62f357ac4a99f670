"""One dial from which the rest of a shape is derived.

An architecture says how it likes to grow: width / depth = aspect, and one block costs about `block` · width²
parameters.  A size P then asks for

    width = (aspect · P / block)^(1/3)        depth = width / aspect

which for the Transformer (aspect 30, block 12) passes through the paper's shapes: 6 × 192 at 2.67M, 9 × 256 at 7.1M.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.errors import require, require_int


@dataclass(frozen=True)
class Config:
    """What every architecture's config has; frozen, and nothing but numbers and strings."""

    depth: int
    """Number of blocks."""
    width: int
    """D, width of the residual stream."""

    def __post_init__(self) -> None:
        require_int("depth", self.depth, 1)
        require_int("width", self.width, 1)


@dataclass(frozen=True)
class Dial:
    """How an architecture grows with its number of parameters.

    aspect    preferred width / depth
    block     parameters of one block over width², roughly
    absorber  the config field that takes up the slack; the count is an affine function of it
    ratio     its preferred value over width
    low, high its allowed range over width
    shallow   fewest blocks to prefer
    """

    aspect: float
    block: float
    absorber: str
    ratio: float
    low: float
    high: float
    shallow: int = 1

    def depth_for(self, width: float) -> float:
        """The preferred depth at a width, not rounded."""
        return max(self.shallow, width / self.aspect)

    def width_for(self, depth: int) -> int:
        """The preferred width at a depth, a multiple of 32."""
        return max(32, 32 * round(depth * self.aspect / 32))

    def width_at(self, params: int) -> float:
        """The preferred width at a size."""
        width = (self.aspect * params / self.block) ** (1 / 3)
        # A floor on depth leaves less for width.
        return min(width, (params / (self.block * self.shallow)) ** 0.5)


def default_heads(width: int) -> int:
    """The number of heads that divides the width and makes them as near to 32 wide as can be, and even."""
    divisors = [heads for heads in range(1, width + 1) if width % heads == 0]
    even = [heads for heads in divisors if (width // heads) % 2 == 0] or divisors
    return min(even, key=lambda heads: abs(width / heads - 32))


class Attending:
    """The shape of networks whose block is attention, of whatever kind, and a feed-forward part; a base beside
    `SequenceModel`."""

    @classmethod
    def dial(cls, options: dict[str, Any]) -> Dial:
        """Twelve width² a block: four for queries, keys, values and output, eight for the feed-forward part."""
        return Dial(aspect=30, block=12, absorber="ff_width", ratio=4, low=0.5, high=8)

    @classmethod
    def complete(cls, shape: dict[str, Any], sizes: object) -> dict[str, Any]:
        """Heads and feed-forward width follow from the width; given ones are left alone."""
        return {"heads": default_heads(shape["width"]), "ff_width": 4 * shape["width"]} | shape


def require_heads(width: int, heads: int, *, even: bool = False) -> None:
    """Heads must divide the width (and, for rotary positions, be of even width)."""
    require_int("heads", heads, 1)
    allowed = [str(h) for h in range(1, width + 1) if width % h == 0 and (not even or (width // h) % 2 == 0)]
    rule = f"a divisor of width = {width}" + (" that makes heads of even width" if even else "")
    require(str(heads) in allowed, "heads", heads, f"{rule} ({', '.join(allowed) or 'there is none'})")
