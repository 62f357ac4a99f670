"""Is a belief the right one, as far as sampling can tell?  Asked by `check`, of a new tunnel.

    no hindsight   episodes whose inputs agree up to a readout have the same belief there, whatever comes later
    calibration    nothing predicts the labels better than the belief does: not the belief made flatter or sharper, not
                   one that leans to some class and, where inputs repeat, not one corrected by the labels seen with them

Both hold for P(label | inputs up to the readout) and for nothing else that is determined by the inputs; how small a
fault is found depends on the number of episodes.  In a large world, where inputs never repeat, two kinds of wrong
belief pass: one that forgets evidence and is calibrated for that, and one with correct hindsight, such as a smoother's.
Enumeration would find them; this does not replace it.

Why it refuses no exact belief p, except with probability α: for any other forecast q, the product over episodes of
q(label) / p(label) has mean 1, so it exceeds 1 / α with probability below α.  This does not rely on a law of large
numbers, so labels may be arbitrarily rare and surprising.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from windtunnel.errors import InputError
from windtunnel.tunnels.episodes import Episodes

LUCK = 1e-6
"""α, over all forecasts together: how often an exact belief would be refused."""
MOST, NUMBERS, SECONDS = 4096, 2**22, 1.0
"""Episodes are drawn until there are so many, or so many numbers in them, or so much time has passed."""
POWERS = (0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 4.0)
LEANINGS = (1 / 3, 1 / 1.25, 1.25, 3.0)
WEIGHTS = (5.0, 20.0, 60.0)


class Seen(NamedTuple):
    """What is looked at of n episodes.

    tokens (n, T), features (n, T, F) or None, readout (K,), labels (n, K), belief (n, K, C) float64
    """

    tokens: np.ndarray
    features: np.ndarray | None
    readout: np.ndarray
    labels: np.ndarray
    belief: np.ndarray


def gather(draw: Callable[[int, int], Episodes], size: int) -> Seen:
    """Episodes from `draw(start, count)` until there are enough; `size` numbers are in each."""
    most = max(64, min(MOST, NUMBERS // size))
    begun, batches, count = time.monotonic(), [], 0
    while count < most and (count == 0 or time.monotonic() - begun < SECONDS):
        batches.append(_seen(draw(count, min(max(64, count), most - count))))  # twice as many each time
        count += len(batches[-1].labels)
    tokens, features, readout, labels, belief = zip(*batches, strict=True)
    joined = None if features[0] is None else np.concatenate(features)
    return Seen(np.concatenate(tokens), joined, readout[0], np.concatenate(labels), np.concatenate(belief))


def _seen(episodes: Episodes) -> Seen:
    inputs = episodes.inputs
    features = None if inputs.features is None else _array(inputs.features)
    whole = (inputs.readout, episodes.labels, episodes.posterior)
    return Seen(_array(inputs.tokens), features, *map(_array, whole))


def _array(value: Tensor) -> np.ndarray:
    """Somebody's belief may come from weights, and know how it depends on them."""
    return value.detach().numpy()


def require_truth(field: str, seen: Seen, tolerance: float) -> str:
    """Raise if a belief cannot be the exact one; else tell in a few words what was asked.  `field` names the belief."""
    same = _same_inputs(seen)
    pairs = _require_no_hindsight(field, seen, same, tolerance)
    _require_calibration(field, seen, same)
    episodes = len(seen.labels)
    hindsight = (
        f"the same belief in {pairs:,} pairs of equal inputs"
        if pairs
        else "hindsight not tested, as no two inputs are equal up to a readout"
    )
    return f"labels of {episodes:,} episodes predicted no better by other beliefs; {hindsight}"


def _same_inputs(seen: Seen) -> list[np.ndarray | None]:
    """For every readout (n,) numbers, equal where the inputs are equal up to and including it; None if all differ."""
    number, upto = np.zeros(len(seen.tokens), np.int64), {}
    for position in range(int(seen.readout.max()) + 1):
        number = _numbered(number, seen.tokens[:, position])
        if seen.features is not None:
            rows = np.ascontiguousarray(seen.features[:, position])
            _, kind = np.unique(
                rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0], return_inverse=True
            )
            number = _numbered(number, kind)
        if number.max() + 1 == len(number):
            break
        upto[position] = number
    return [upto.get(int(position)) for position in seen.readout]


def _numbered(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pairs of numbers, numbered from 0."""
    return np.unique(one * (int(other.max()) + 1) + other, return_inverse=True)[1]


def _require_no_hindsight(field: str, seen: Seen, same: list[np.ndarray | None], tolerance: float) -> int:
    """Raise where equal inputs have several beliefs; the number of pairs that were compared."""
    pairs = 0
    for readout, number in enumerate(same):
        if number is None:
            continue
        _, first = np.unique(number, return_index=True)
        twin = first[number]  # of every episode the first one with equal inputs
        pairs += len(number) - len(first)
        belief = seen.belief[:, readout]
        far = np.abs(belief - belief[twin]).max(-1)
        if far.max() > tolerance:
            later = int(far.argmax())
            one, other = int(twin[later]), later
            raise InputError(
                f"{field} = {_row(belief[one])} at readout {readout} of episode {one} and {_row(belief[other])} of "
                f"episode {other}, whose inputs are equal up to there: must be the same: a belief rests on what has "
                "been shown, not on what comes later or is hidden"
            )
    return pairs


class _Better(NamedTuple):
    """A forecast that did better than the belief: by how many nats in all, over how many episodes; and what it says."""

    nats: float
    episodes: int
    words: str


def _require_calibration(field: str, seen: Seen, same: list[np.ndarray | None]) -> None:
    _, readouts, classes = seen.belief.shape
    tries = readouts * (len(POWERS) + len(LEANINGS) * classes + len(WEIGHTS))
    line = math.log(tries / LUCK)
    for readout in range(readouts):
        belief, labels = seen.belief[:, readout], seen.labels[:, readout]
        found = [*_tempered(belief, labels), _leaning(belief, labels), *_counted(belief, labels, same[readout])]
        best = max(found, key=lambda better: better.nats)
        if best.nats > line:
            bits = best.nats / best.episodes / math.log(2)
            raise InputError(
                f"{field} = a belief that labels do not follow at readout {readout}: {best.words}, by {bits:.2g} bits "
                f"each: must be P(label | inputs up to the readout), exactly"
            )


def _tempered(belief: np.ndarray, labels: np.ndarray) -> list[_Better]:
    """The belief to some power, normalised: q(y) / p(y) = p(y)^(β − 1) / Σ p^β."""
    happened = np.log(belief[np.arange(len(labels)), labels])
    found = []
    for power in POWERS:
        nats = float(((power - 1) * happened - np.log((belief**power).sum(-1))).sum())
        kind = "sharper" if power > 1 else "flatter"
        words = f"a {kind} one, its power of {power:g}, predicts those of {len(labels):,} episodes better"
        found.append(_Better(nats, len(labels), words))
    return found


def _leaning(belief: np.ndarray, labels: np.ndarray) -> _Better:
    """The belief with one class some times as likely: q(y) / p(y) = a^[y = c] / (1 + (a − 1) p_c); the best of them."""
    classes = belief.shape[-1]
    counts = np.bincount(labels, minlength=classes)
    nats = [counts * math.log(lean) - np.log1p((lean - 1) * belief).sum(0) for lean in LEANINGS]
    best = np.array(nats).max(0)
    top = int(best.argmax())
    words = (
        f"class {top} came up {counts[top]:,} times in {len(labels):,} episodes, where {belief[:, top].sum():,.1f} are "
        "expected, and a belief that leans there predicts better"
    )
    return _Better(float(best[top]), len(labels), words)


def _counted(belief: np.ndarray, labels: np.ndarray, number: np.ndarray | None) -> list[_Better]:
    """Where inputs repeat, the labels seen with them so far, added to the belief as if that had been seen `weight`
    times: q(y) = (count_y + weight · p_y) / (all + weight).  It finds a belief that forgets evidence."""
    from scipy.special import gammaln

    if number is None:
        return []
    _, first = np.unique(number, return_index=True)
    classes = belief.shape[-1]
    counts = np.bincount(number * classes + labels, minlength=len(first) * classes).reshape(len(first), classes)
    believed = np.log(belief[np.arange(len(labels)), labels]).sum()
    words = f"adding up the labels of equal inputs predicts those of {len(labels):,} episodes better"
    found = []
    for weight in WEIGHTS:
        prior = np.maximum(weight * belief[first], np.finfo(float).tiny)
        seen = np.where(counts > 0, gammaln(counts + prior) - gammaln(prior), 0.0).sum()
        counted = seen + (gammaln(weight) - gammaln(counts.sum(-1) + weight)).sum()
        found.append(_Better(float(counted - believed), len(labels), words))
    return found


def _row(belief: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in belief[:6]) + ", …" * (len(belief) > 6) + "]"
