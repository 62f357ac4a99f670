"""When does each part of a network settle during training?

From a curve y over the steps of the checkpoint ladder:

    progress(t) = (y(t) − y(first)) / (y(last) − y(first))
    settled     the step after which progress stays at 95% or more; between rungs, linear in log10(step + 1)

The curves: similarity to the last checkpoint (linear CKA, 1 at the end by definition) of attention patterns, values
and residual stream of each layer, and KL in bits.  The *frame–precision dissociation* is the difference in log10 steps
between values and attention: positive when attention settles first.

Null of the dissociation: the names "attention" and "values" exchanged at random in each network, which flips the sign
of its mean difference (layers of one network are not independent, so they flip together).  Similarity is to the
network's own end: a curve says when it stopped moving, not whether it arrived anywhere good; KL says that.
"""

from __future__ import annotations

import numpy as np

SETTLED = 0.95


def progress(curve: np.ndarray) -> np.ndarray:
    """(R,) from 0 at the first rung to 1 at the last; NaN if nothing changed."""
    change = curve[-1] - curve[0]
    return np.full(len(curve), np.nan) if abs(change) < 1e-12 else (curve - curve[0]) / change


def settling_step(steps: np.ndarray, curve: np.ndarray, level: float = SETTLED) -> float:
    """The step after which the curve (R,) stays within the last 1 − level of its way; NaN if it never moved."""
    done = progress(np.asarray(curve, dtype=float))
    if np.isnan(done).any():
        return float("nan")
    below = np.flatnonzero(done < level)
    last = int(below[-1])  # the first rung is always below; the last one never is
    clock = log_steps(steps)
    share = (level - done[last]) / (done[last + 1] - done[last])
    return float(10.0 ** (clock[last] + share * (clock[last + 1] - clock[last])) - 1.0)


def log_steps(steps: np.ndarray) -> np.ndarray:
    """log10(step + 1): the clock on which differences are taken."""
    return np.log10(np.asarray(steps, dtype=float) + 1.0)


def dissociation(attention: np.ndarray, values: np.ndarray) -> np.ndarray:
    """log10 steps by which values settle after attention; same shape as the settling steps given."""
    return log_steps(values) - log_steps(attention)


def sign_flips(differences: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws,) means of the differences (any shape) with random signs: as if the names meant nothing."""
    flat = np.asarray(differences, dtype=float).ravel()
    signs = rng.choice([-1.0, 1.0], size=(draws, len(flat)))
    return signs @ flat / len(flat)
