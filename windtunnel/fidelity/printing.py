"""How numbers are written: so that none says more than it knows, and numbers that stand together look alike."""

from __future__ import annotations

import math
from decimal import Decimal

ROUNDING = 1e-12  # bits (or shares): what the double-precision sums behind a score cannot tell from 0


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
