"""A share: how much of a primitive's worth a subject realises.

    share = 1 − KL(network) / KL(B)        a ratio of means, never clipped

B is the best predictor that has every primitive but the one tested, so B itself stands at 0 and exact inference at 1.
If KL(B) is below 0.3 bits, the primitive is worth too little there, and the cell is void.

    realised   the interval lies above 0.95          absent   it lies below 0.10
    partial    it lies between the two               unclear  it straddles one of them

A share whose interval lies below 0 shows nothing about the primitive: a subject worse than B lacks more than that.

The interval is over seeds, or over sequences for a single network.  If seeds fall apart into different outcomes
(bimodal), a mean says nothing, so the number of seeds that succeed and the median are given instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.fidelity.printing import resolved
from windtunnel.json_numbers import from_json, to_json
from windtunnel.study.quantity import Quantity

REALISED, ABSENT = 0.95, 0.10
LEAST_BITS = 0.3
APART = 0.25  # shares of seeds that differ by more than this are not one outcome with noise


@dataclass(frozen=True)
class Share:
    """What a subject realises of a primitive; printed, it is one line.

    share      1 − KL / KL(B), with its interval
    kl_bits    mean KL on the readouts that count;  base_bits  that of B, whose name is `base`
    state      realised, partial, absent, unclear or void
    per_seed_error  standard error of each network's own share over sequences (bootstrap)
    where      the subset of readouts that count, those that need the primitive; None where all do, and in older records
               that did not keep it
    """

    primitive: str
    share: Quantity
    kl_bits: float
    base: str
    base_bits: float
    per_seed: tuple[float, ...]
    diverged: int = 0
    per_seed_error: tuple[float, ...] = ()
    where: str | None = None

    @property
    def state(self) -> str:
        """realised, partial, absent or unclear, by where the whole interval lies; void where B loses too little."""
        if not self.base_bits >= LEAST_BITS:  # NaN: no readout that counts was drawn
            return "void"
        above = (self.share.side(REALISED) == "above", self.share.side(ABSENT) == "above")
        if above[0]:
            return "realised"
        if self.share.side(ABSENT) == "below":
            return "absent"
        return "partial" if above[1] and self.share.side(REALISED) == "below" else "unclear"

    @property
    def bimodal(self) -> bool:
        """Do the seeds fall apart into different outcomes?"""
        return len(self.per_seed) > 1 and max(self.per_seed) - min(self.per_seed) > APART

    @property
    def successes(self) -> int:
        """Seeds whose own share is above 0.95."""
        return sum(share > REALISED for share in self.per_seed)

    @property
    def no_better(self) -> bool:
        """Did it come out behind B?  That may still be chance."""
        return resolved(self.share.mean) < 0

    @property
    def failed(self) -> bool:
        """Is it worse than B, beyond chance?  Then it lacks more than the primitive, and shows nothing about it."""
        return resolved(self.share.high) < 0

    @property
    def median(self) -> float:
        return float(np.median(self.per_seed))

    @property
    def spoken(self) -> str:
        """The state of a network as tables show it: for one behind B, "absent" alone would say too much."""
        return f"{self.state} (no better than B)" if self.no_better and self.state != "void" else self.state

    def __str__(self) -> str:
        lacking = ", so more than the primitive is lacking" if self.failed and self.state != "void" else ""
        return f"{self.primitive} {self._words(4, ', the best predictor without it')}{lacking}"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def told(self) -> str:
        """In words, for where the primitive is named already."""
        return self._words(3)

    @property
    def brief(self) -> str:
        """For a narrow table: `partial 0.3021 [0.2812, 0.3224]`."""
        if self.state == "void":
            return "void"
        told = self.share.brief(4)
        if self.bimodal:
            told = f"in {self.successes} of {len(self.per_seed)} seeds, median {self.median:.3g}"
        return f"{self.spoken} {told}" + (f", {self.diverged} diverged" if self.diverged else "")

    def _words(self, digits: int, who_b_is: str = "") -> str:
        """The state and its numbers; what is no number is left out."""
        if math.isnan(self.base_bits):
            return "void (no readout that needs it was drawn)"
        told = [self._share(digits)] if self.bimodal or not math.isnan(self.share.mean) else []
        where = " at the readouts that need it," if self.where else ""  # at all of them it may be quite another
        told.append(f"KL {self.kl_bits:.4g}{where} against {self.base_bits:.3g} bits of {self.base}{who_b_is}")
        state = f"void (worth less than {LEAST_BITS:g} bits here)" if self.state == "void" else self.state
        return f"{state}: {'; '.join(told)}"

    def _share(self, digits: int) -> str:
        lost = f", {self.diverged} diverged" if self.diverged else ""
        if self.bimodal:
            return f"{self.successes} of {len(self.per_seed)} seeds, median share {self.median:.{digits}f}{lost}"
        return f"share {self.share.full(digits)}{lost}"

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Share:
        """From what `to_dict` gave; state and words follow from the numbers anew."""
        kl, base = (from_json(record[part]) for part in ("kl_bits", "base_bits"))
        seeds, errors = (tuple(from_json(v) for v in record.get(p, ())) for p in ("per_seed", "per_seed_error"))
        share = Quantity.of_record(record["share"])
        last = record["diverged"], errors, record.get("where")
        return cls(record["primitive"], share, kl, record["base"], base, seeds, *last)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        told = {
            "primitive": self.primitive,
            "state": self.state,
            "share": self.share.to_dict(),
            "kl_bits": to_json(self.kl_bits),
            "base": self.base,
            "base_bits": to_json(self.base_bits),
            "per_seed": [to_json(v) for v in self.per_seed],
            "per_seed_error": [to_json(v) for v in self.per_seed_error],
            "bimodal": self.bimodal,
            "successes": self.successes,
            "median": to_json(self.median),
            "diverged": self.diverged,
            "told": self.told,
        }
        return told | ({"where": self.where} if self.where else {})
