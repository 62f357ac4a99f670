"""A KL on an HMM, expressed as a window: which exact filter, seeing only the last L observations, is equally far off?

Bits are comparable but hard to picture; "as good as remembering two observations" is easy.  It also exposes a chain
that forgets so quickly that a small error says little about memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from windtunnel.errors import InputError, require
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.fidelity.evaluate import evaluate
from windtunnel.fidelity.score import Score, Where
from windtunnel.tunnels.hmm import HMM

LADDER = (1, 2, 3, 4, 8, 12, 16)
EXACT_BITS = 1e-12  # a window that covers everything is exact but for rounding; below this KLs are all alike


def equivalent_window(score: Score, known: Mapping[int, Score] | None = None) -> float:
    """The window length L, in observations, whose filter has the score's KL; linear in log KL between lengths.

    0.0 when the score is no better than uniform, inf when it is better than the longest window tried.  Windows are
    scored on the score's own episodes and readouts.

    known  scores of some windows there, by length, which need not be taken again; 0, which sees nothing, is `Uniform`
    """
    require(isinstance(score, Score), "score", score, "a score, from wt.evaluate")
    if not isinstance(score.tunnel, HMM):
        raise InputError(f"score.tunnel = {score.tunnel!r}: must be an HMM, the only tunnel with window filters")
    known = known or {}
    for window, beside in known.items():
        require(_scored_on(beside) == _scored_on(score), f"known[{window}]", beside, "on the score's own episodes")
    windows = [0, *(window for window in LADDER if window < score.tunnel.length)]
    kl_bits = {window: float(beside.kl_bits.mean) for window, beside in known.items()}
    if lacking := tuple(window for window in windows if window not in known):
        kl_bits |= _kl_bits(lacking, *_scored_on(score))
    target = max(score.kl_bits.mean, EXACT_BITS)
    ladder = [(window, max(kl_bits[window], EXACT_BITS)) for window in windows]
    shorter, worse = ladder[0]
    if target >= worse:
        return 0.0
    for longer, better in ladder[1:]:
        if better <= target:
            return shorter + (longer - shorter) * math.log(worse / target) / math.log(worse / better)
        shorter, worse = longer, better
    return math.inf


def _scored_on(score: Score) -> tuple[Any, ...]:
    return score.tunnel, score.episodes, score.seed, score.stream, score.where, score.positions


@lru_cache(maxsize=64)
def _kl_bits(
    windows: tuple[int, ...],
    tunnel: HMM,
    episodes: int,
    seed: int,
    stream: str,
    where: Where,
    positions: tuple[int, ...] | None,
) -> dict[int, float]:
    """Window -> KL in bits of its filter; window 0, which sees nothing, is the uniform guess."""
    filters = [
        WindowFilter(tunnel, window, restart="uniform") if window else Uniform(tunnel.classes) for window in windows
    ]
    # One call scores all of them on the same episodes; its interval "over seeds" has no meaning here and is not used.
    score = evaluate(filters, tunnel, episodes=episodes, seed=seed, stream=stream, where=where, positions=positions)
    return dict(zip(windows, map(float, score.kl_bits.per_seed), strict=True))
