"""A KL on an HMM, expressed as a window: which exact filter, seeing only the last L observations, is equally far off?

Bits are comparable but hard to picture; "as good as remembering two observations" is easy.  It also exposes a chain
that forgets so quickly that a small error says little about memory.
"""

from __future__ import annotations

import math
from functools import lru_cache

from windtunnel.errors import InputError, require
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.fidelity.evaluate import evaluate
from windtunnel.fidelity.score import Score, Where
from windtunnel.tunnels.hmm import HMM

LADDER = (1, 2, 3, 4, 8, 12, 16)
EXACT_BITS = 1e-12  # a window that covers everything is exact but for rounding; below this KLs are all alike


def equivalent_window(score: Score) -> float:
    """The window length L, in observations, whose filter has the score's KL; linear in log KL between lengths.

    0.0 when the score is no better than uniform, inf when it is better than the longest window tried.  Windows are
    scored on the score's own episodes and readouts.
    """
    require(isinstance(score, Score), "score", score, "a score, from wt.evaluate")
    if not isinstance(score.tunnel, HMM):
        raise InputError(f"score.tunnel = {score.tunnel!r}: must be an HMM, the only tunnel with window filters")
    ladder = _ladder(score.tunnel, score.episodes, score.seed, score.stream, score.where, score.positions)
    target = max(score.kl_bits.mean, EXACT_BITS)
    shorter, worse = ladder[0]
    if target >= worse:
        return 0.0
    for longer, better in ladder[1:]:
        if better <= target:
            return shorter + (longer - shorter) * math.log(worse / target) / math.log(worse / better)
        shorter, worse = longer, better
    return math.inf


@lru_cache(maxsize=64)
def _ladder(
    tunnel: HMM, episodes: int, seed: int, stream: str, where: Where, positions: tuple[int, ...] | None
) -> tuple[tuple[int, float], ...]:
    """(window, KL in bits) for growing windows; window 0, which sees nothing, is the uniform guess."""
    windows = [window for window in LADDER if window < tunnel.length]
    rungs = [Uniform(tunnel.classes), *(WindowFilter(tunnel, window, restart="uniform") for window in windows)]
    # One call scores all rungs on the same episodes; its interval "over seeds" has no meaning here and is not used.
    score = evaluate(rungs, tunnel, episodes=episodes, seed=seed, stream=stream, where=where, positions=positions)
    kl = [max(float(value), EXACT_BITS) for value in score.kl_bits.per_seed]
    return tuple(zip([0, *windows], kl, strict=True))
