"""A number with its uncertainty, and where that uncertainty comes from.

With several networks the unit is the training seed: all are scored on the same episodes and the interval is a
t-interval across seeds, which says where another training run would fall.  With a single network there is no
such spread to see; a bootstrap over sequences then says how well *this* network is known, and no more.  Every
`Estimate` says which of the two it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float64
from scipy.special import stdtrit
from torch import Tensor

from windtunnel.errors import require, require_choice
from windtunnel.fidelity.accumulate import WeightedSums

CONFIDENCE = 0.95
ROUNDING = 1e-12  # bits (or shares): what the double-precision sums behind a score cannot tell from 0
Scale = Literal["log", "linear"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A mean with its 95% interval.

    mean          arithmetic mean of per_seed
    low, high     the interval; on the log scale it is for the *typical* network (the geometric mean), which lies
                  below the arithmetic mean when seeds differ widely
    per_position  (K,) mean over networks at each readout; NaN where nothing was selected
    per_seed      (R,) one value per network
    over          what the interval runs over: "seeds" (t-interval) or "sequences" (bootstrap of a single network)
    scale         "log" or "linear": where the t-interval is symmetric
    episodes      number of episodes scored
    floor         curve error only: the value to expect from sampling alone if the true curves were equal
    """

    mean: float
    low: float
    high: float
    per_position: np.ndarray
    per_seed: np.ndarray
    over: Literal["seeds", "sequences"]
    scale: Scale
    episodes: int
    floor: float | None = None

    @property
    def typical(self) -> float:
        """Geometric mean of per_seed: what a log-scale interval is about.  0 if some value is 0."""
        return geometric_mean(self.per_seed)

    def __repr__(self) -> str:
        return f"<Estimate {self}, over {self.over}, {self.episodes:,} episodes>"

    def __format__(self, spec: str) -> str:
        """`0.0470 [0.0461, 0.0480]`; the spec applies to each number.  Where seeds differ so much that the mean lies
        outside the interval, which is for the typical network, that one is told too.  One sequence has no interval."""
        told = _with_interval(self.mean, self.low, self.high, spec)
        return told + beside_the_mean(self.mean, self.high, self.typical, spec or "#.3g")

    def __str__(self) -> str:
        return format(self)


def resolved(value: float) -> float:
    """The value to print: 0 for one so small that it is only rounding, so that nobody reads −2e-16 as a finding.

    >>> resolved(-2e-16), resolved(3e-9)
    (0.0, 3e-09)
    """
    return 0.0 if abs(value) < ROUNDING else value


def printed(value: float, digits: int = 3) -> str:
    """At least four decimals and `digits` significant digits; 0 for what is only rounding (`resolved`); ∞.

    >>> printed(0.41371), printed(0.001412), printed(7.5e-05), printed(2e-16), printed(math.inf)
    ('0.4137', '0.00141', '7.50e-05', '0', '∞')
    """
    if math.isinf(value):
        return "∞"
    if resolved(value) == 0:
        return "0"
    return f"{value:.4f}" if abs(value) >= 10.0 ** (digits - 4) else f"{value:#.{digits}g}"


LEAST, MOST = 1e-6, 1e6  # what is smaller or larger is not written out, digit by digit


def alike(*values: float, digits: int = 3) -> list[str]:
    """Numbers that stand together, to so many significant digits and all in one notation: the first decides whether
    powers of ten are used.  Where it needs none, the others have none, unless one is too small or large to write out.

    >>> alike(8.75e-5, 7.23e-5, 0.000104), alike(0.00012, 8.7e-5, 0.00015)
    (['8.75e-5', '7.23e-5', '1.04e-4'], ['0.00012', '0.000087', '0.00015'])
    >>> alike(0.5, 1e-9, math.inf), alike(-0.12, 0.0, math.nan)
    (['5e-1', '1e-9', 'inf'], ['-0.12', '0', 'nan'])
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    plain = "e" not in f"{values[0]:.{digits}g}" and all(LEAST <= size < MOST for size in sizes)

    def told(value: float) -> str:
        if not value or not math.isfinite(value):
            return f"{value:g}"
        figures, _, power = f"{value:.{digits - 1}e}".partition("e")
        figures = figures.rstrip("0").rstrip(".") if "." in figures else figures
        return f"{Decimal(f'{figures}e{power}'):f}" if plain else f"{figures}e{int(power)}"

    return [told(value) for value in values]


def beside_the_mean(mean: float, high: float, typical: float, spec: str) -> str:
    """` (typical 2e-05)` where an arithmetic mean lies above an interval about the geometric one; else nothing.

    >>> beside_the_mean(1e-3, 1e-4, 2e-5, ".3g"), beside_the_mean(1e-3, 2e-3, 9e-4, ".3g")
    (' (typical 2e-05)', '')
    """
    return f" (typical {typical:{spec}})" if high * (1 + 1e-9) < mean < math.inf else ""


def t_interval(values: np.ndarray, scale: Scale = "linear") -> tuple[float, float, Scale]:
    """95% t-interval for the centre of (R,) values, one per seed, R at least 2; and the scale that was used.

    On the log scale the centre is the geometric mean.  A value of 0 or less has no log: the linear scale is used
    instead.  An infinite value has no spread: the interval then runs from the smallest value to infinity.
    """
    values = np.asarray(values, dtype=np.float64)
    require_choice("scale", scale, ("log", "linear"))
    require(values.ndim == 1 and len(values) >= 2, "values", values.tolist(), "at least two, one per seed")
    if np.isinf(values).any():
        return float(values.min()), float(values.max()), scale
    if scale == "log" and values.min() <= 0:
        scale = "linear"
    x = np.log(values) if scale == "log" else values
    half = stdtrit(len(x) - 1, 0.5 + CONFIDENCE / 2) * x.std(ddof=1) / math.sqrt(len(x))
    low, high = float(x.mean() - half), float(x.mean() + half)
    return (exp_or_inf(low), exp_or_inf(high), scale) if scale == "log" else (low, high, scale)


class PoissonBootstrap:
    """A bootstrap over sequences in one pass: each sequence enters each replicate Poisson(1) times.

    Resampling n sequences with replacement draws each about Poisson(1) times; drawing those counts independently
    needs no list of sequences, so memory does not grow with n.  Counts are drawn in episode order from one
    generator, so how the stream is cut into chunks does not matter.
    """

    def __init__(
        self,
        metrics: int,
        readouts: int,
        *,
        replicates: int = 500,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        # Two 16-bit draws come from one 32-bit word; an odd row would leave half a word behind at each chunk's end.
        require(replicates > 0 and replicates % 2 == 0, "replicates", replicates, "even and positive")
        self.replicates = replicates
        self.sequences = 0  # of which some readout was selected
        self.generator = np.random.Generator(np.random.Philox(seed))
        self.sums = WeightedSums(replicates, metrics, readouts, device)

    def add(self, values: Float64[Tensor, "M n K"], mask: Bool[Tensor, "n K"]) -> None:
        """Add the next n episodes."""
        words = self.generator.integers(0, 1 << 16, size=(values.shape[1], self.replicates), dtype=np.uint16)
        weights = torch.from_numpy(_POISSON_OF_WORD[words]).to(values.device)
        self.sums.add(weights.double().T, values, mask)
        self.sequences += int(mask.any(1).sum())

    def interval(self, replicates: np.ndarray) -> tuple[float, float]:
        """Of a statistic, from its value in each replicate (B,).  A single sequence has no spread, hence no interval:
        every replicate that drew it says the same, which is not certainty."""
        return percentile_interval(replicates) if self.sequences > 1 else (math.nan, math.nan)


def _poisson_table() -> np.ndarray:
    """Poisson(1) by inverse CDF of a 16-bit word: eight times faster than numpy's sampler, exact to 2^-16."""
    cumulative = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(20)])
    return np.searchsorted(cumulative, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON_OF_WORD = _poisson_table()


def percentile_interval(replicates: np.ndarray) -> tuple[float, float]:
    """The central 95% of (B,) bootstrap replicates.  Replicates that drew nothing (NaN) are left out."""
    ordered = np.sort(replicates[~np.isnan(replicates)])
    if not len(ordered):
        return math.nan, math.nan
    # Order statistics rather than interpolated quantiles, because replicates may be infinite.
    last, tail = len(ordered) - 1, 0.5 - CONFIDENCE / 2
    return float(ordered[math.floor(tail * last)]), float(ordered[math.ceil((1 - tail) * last)])


def geometric_mean(values: np.ndarray) -> float:
    """Of values of at least 0; NaN if some value is below."""
    if (values <= 0).any():
        return 0.0 if (values >= 0).all() else math.nan
    return float(np.exp(np.log(values).mean()))


def exp_or_inf(x: float) -> float:
    """e^x; infinity where that is more than a float can hold."""
    return math.exp(x) if x < 709 else math.inf


def _with_interval(mean: float, low: float, high: float, spec: str) -> str:
    spec = spec or "#.3g"
    if math.isnan(low):
        return f"{resolved(mean):{spec}} (no interval)"
    return f"{resolved(mean):{spec}} [{resolved(low):{spec}}, {resolved(high):{spec}}]"
