"""Which attempt holds the record for a tunnel, an architecture and a target.

An attempt is a recipe, a target and the seconds that each of its seeds needed; a target that was never reached is a
result too.  A recipe whose schedule ends early may be the fastest to a modest target and never reach a strict one, so
every target has its own record.

The rule.  An attempt counts with at least five seeds of which more than half passed.  It replaces a record only if its
seeds are faster at p < 0.01, one-sided, by the rank-sum test over all ways to deal the two sets of times: no
assumption on how times are distributed, and a seed that never passed simply is the slowest.  Five against five is
enough when (almost) every new seed beats every old one; small gains need more seeds.  And its median must be lower by
more than the time between two looks at the KL: seeds of one sitting pass at the same look, so a card that happens to be
half a per cent faster would otherwise be a record at p = 0.004.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windtunnel import tunnels
from windtunnel.tunnels.registry import in_words

CACHE_FILLED = "set-up: the compiler cache was filled by an earlier process"
"""What their maker had noted before attempts found that out themselves."""
EXACT_BELIEF = " (exact belief)"
FEWEST_SEEDS = 5
ALPHA = 0.01
_MOST_DEALS = 200_000


@dataclass(frozen=True)
class Attempt:
    """One recipe against one target.

    key      (device, world, model, target in bits): what a record is a record of
    recipe   its name, with what was changed
    seconds  of training, one per seed; infinite for a seed that never passed
    setup_s  seconds of building, compiling and capturing, one per seed in the order of training: the first has no
             compiled work to go back to, unless `cache_filled`; the later ones, in the same process, have
    date, commit, file   where it comes from
    note     what its maker had to say
    cache_filled   had an earlier process filled the compiler's cache?
    every_s  seconds of training between two looks at the KL: what its times are good to
    """

    key: tuple[str, str, str, float]
    recipe: str
    seconds: tuple[float, ...]
    setup_s: tuple[float, ...]
    date: str
    commit: str
    file: str
    note: str = ""
    cache_filled: bool = False
    every_s: float = 0.0

    @property
    def reached(self) -> int:
        """How many of the seeds passed."""
        return sum(map(math.isfinite, self.seconds))

    @property
    def median_s(self) -> float:
        """Of all seeds; infinite unless more than half passed (between two middles one of which is, so is this)."""
        return statistics.median(self.seconds)

    @property
    def counts(self) -> bool:
        """Has it enough seeds, and did more than half pass?"""
        return len(self.seconds) >= FEWEST_SEEDS and math.isfinite(self.median_s)


def p_faster(new: Iterable[float], old: Iterable[float]) -> float:
    """P-value of "new is not faster than old": one-sided rank-sum test, exact up to ten against ten, ties and
    infinities allowed."""
    from scipy.stats import PermutationMethod, mannwhitneyu

    new, old = list(new), list(old)
    order = sorted({*new, *old})
    a, b = ([order.index(value) for value in values] for values in (new, old))  # ranks know no infinity
    exact = math.comb(len(a) + len(b), len(a)) <= _MOST_DEALS
    method: Any = PermutationMethod(n_resamples=_MOST_DEALS) if exact else "asymptotic"
    return float(mannwhitneyu(a, b, alternative="less", method=method).pvalue)


@dataclass(frozen=True)
class Ruling:
    """What became of an attempt: `record` (none stood before), `beats` (the one before), `no record`; and why."""

    attempt: Attempt
    kind: str
    why: str


def rulings(attempts: Iterable[Attempt]) -> list[Ruling]:
    """Every attempt judged in the order of its date against the record that stood then."""
    standing: dict[tuple[str, str, str, float], Attempt] = {}
    found = []
    for attempt in sorted(attempts, key=lambda one: (one.date, one.file)):
        holder = standing.get(attempt.key)
        if not attempt.counts:
            few = len(attempt.seconds) < FEWEST_SEEDS
            reached = f"reached by {attempt.reached} of {len(attempt.seconds)} seeds"
            kind, why = "no record", f"fewer than {FEWEST_SEEDS} seeds" if few else reached
        elif holder is None:
            kind, why = "record", "the first"
        else:
            p = p_faster(attempt.seconds, holder.seconds)
            least_s = max(attempt.every_s, holder.every_s)
            faster_s = holder.median_s - attempt.median_s
            kind = "beats" if p < ALPHA and faster_s > max(0.0, least_s) else "no record"
            why = f"p = {p:.2g} against {holder.median_s:.3g} s"
            if p < ALPHA and 0 < faster_s <= least_s:
                why += f", but by less than the {least_s:g} s between two looks"
        if kind != "no record":
            standing[attempt.key] = attempt
        found.append(Ruling(attempt, kind, why))
    return found


def records(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The records that stand, by key."""
    judged = rulings(attempts)
    return sorted({v.attempt.key: v.attempt for v in judged if v.kind != "no record"}.values(), key=lambda a: a.key)


def attempts_in(result: dict[str, Any], file: str) -> list[Attempt]:
    """The attempts of one result file, one per target."""
    recipe = result["recipe"]
    place = result["environment"]
    return [
        Attempt(
            (place["device"], world_of(recipe["tunnel"]) + taught(recipe), recipe["model"], float(target)),
            " ".join([result["name"], *result["changes"]]),
            tuple(seed["passed"].get(f"{target:g}", {}).get("seconds", math.inf) for seed in result["seeds"]),
            tuple(seed["setup_s"] for seed in result["seeds"]),
            result["date"],
            place["commit"] or "",
            file,
            result.get("note", "") if result.get("note") != CACHE_FILLED else "",
            result.get("cache_filled", result.get("note") == CACHE_FILLED),
            result.get("every_s", 0.0),
        )
        for target in result["targets_bits"]
    ]


def taught(recipe: dict[str, Any]) -> str:
    """What a network is taught with, where that is easier than usual: the exact belief outside the HMM.

    >>> taught({"tunnel": {"name": "bijection"}, "supervision": "posterior"})
    ' (exact belief)'
    """
    easier = recipe["supervision"] == "posterior" and recipe["tunnel"]["name"] != "hmm"
    return EXACT_BELIEF if easier else ""


def world_of(tunnel: dict[str, Any]) -> str:
    """The tunnel of a recipe by its name, with whatever is not as usual: a smaller world has records of its own.

    >>> world_of({"name": "hmm", "states": 5, "length": 8})
    'hmm length=8'
    """
    return in_words(tunnels.from_dict(tunnel))
