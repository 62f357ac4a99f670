"""Is the exact belief linearly readable, how well, and is there more to it than the last observations?

    decoded      p̂, by ridge from x (n, K, D) to the belief p (n, K, C) or its centred log: `ridge.held_out`
    R²           1 − Σ (p − p̂)² / Σ (p − p̄)²; of the entropy of p likewise, where position does not fix it
    KL           KL(p ‖ p̂) in bits, p̂ clipped to [FLOOR, 1] and normalised, or the softmax of the decoded log
    beyond z     x and p are both freed of what z explains (fits on training sequences only), then R² of the rest

z: the beliefs of a filter that saw only the last one or two observations (and their logs); the next-token distribution.
Freeing is linear: a nonlinear function of z may remain, in the untrained twins as well.

Nulls: untrained twins; shuffled episodes (another episode's belief at the same position); random subspaces of as many
dimensions as the belief has.
"""

from __future__ import annotations

import numpy as np
import torch

from windtunnel.fidelity.metrics import kl_bits
from windtunnel.geometry.ridge import Fold, Solver, errors, rows, stacked
from windtunnel.geometry.stats import basis, residual

FLOOR = 1e-4


def centred_log(belief: np.ndarray) -> np.ndarray:
    """log max(p, FLOOR) less its mean over classes: (…, C) nats, with the same softmax."""
    log = np.log(np.maximum(belief, FLOOR))
    return log - log.mean(-1, keepdims=True)


def from_decoded(decoded: np.ndarray, *, log: bool) -> np.ndarray:
    """(…, C) log-probabilities of a decoded belief or centred log-belief."""
    if log:
        decoded = decoded - decoded.max(-1, keepdims=True)
        return decoded - np.log(np.exp(decoded).sum(-1, keepdims=True))
    clipped = np.clip(decoded, FLOOR, 1.0)
    return np.log(clipped / clipped.sum(-1, keepdims=True))


def decoded_kl_bits(belief: np.ndarray, decoded: np.ndarray, *, log: bool) -> np.ndarray:
    """(n,) mean over readouts of KL(belief ‖ decoded) in bits.  belief, decoded (n, K, C)."""
    log_q = torch.from_numpy(from_decoded(decoded, log=log))
    return kl_bits(torch.from_numpy(np.ascontiguousarray(belief)), log_q).mean(-1).numpy()


def ratio(pair: tuple[np.ndarray, np.ndarray]) -> float:
    """R² from (error, total) per sequence."""
    error, total = pair
    return float(1.0 - error.sum() / total.sum()) if total.sum() > 0 else 0.0


def shuffled_targets(target: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(1 + draws, n, K, C): the target, then the target of other episodes at the same positions."""
    return np.stack([target, *(target[rng.permutation(len(target))] for _ in range(draws))])


def random_subspace(x: np.ndarray, rank: int, rng: np.random.Generator) -> np.ndarray:
    """x (n, K, D) projected on `rank` random directions: (n, K, rank)."""
    directions, _ = np.linalg.qr(rng.standard_normal((x.shape[-1], min(rank, x.shape[-1]))))
    return x @ directions


def keeping(target: np.ndarray, nuisance: np.ndarray, orders: list[np.ndarray]) -> np.ndarray:
    """(1 + draws, n, K, C): the target, then targets that keep what the nuisance explains and shuffle only the rest.

    So a shuffled target has the same relation to the nuisance as the real one (Freedman and Lane's permutation).
    """
    onto = basis(rows(nuisance))
    rest = residual(rows(target), onto).reshape(target.shape)
    return np.stack([target, *(target - rest + rest[order] for order in orders)])


class Beyond:
    """What activations tell of a target beyond a nuisance.

    target (n, K, C), nuisance (n, K, q); an order (n,) of the episodes makes a shuffled control.  The targets are freed
    once, for all the activations that will be asked about.
    """

    def __init__(self, target: np.ndarray, nuisance: np.ndarray, rounds: list[Fold], orders: list[np.ndarray]) -> None:
        self.nuisance, self.rounds = nuisance, rounds
        self.solvers = [Solver(rows(nuisance[fold.train])) for fold in rounds]
        targets = keeping(target, nuisance, orders)
        self.freed = [freed(solver, targets, nuisance, fold) for solver, fold in zip(self.solvers, rounds)]

    def __call__(self, x: np.ndarray, *, controls: bool = True) -> list[tuple[np.ndarray, np.ndarray]]:
        """(error, total) per sequence from x (n, K, D), for the data and, with `controls`, for each order."""
        number = len(self.freed[0]) if controls else 1
        pairs = [(np.zeros(len(x)), np.zeros(len(x))) for _ in range(number)]
        for fold, solver, ys in zip(self.rounds, self.solvers, self.freed):
            ys, rest = ys[:number], freed(solver, x[None], self.nuisance, fold)[0]
            train, validation, test = (rows(rest[part]) for part in fold)
            flat = [stacked(ys[:, part]) for part in (fold.train, fold.validation)]
            found = Solver(train).predict(flat[0], validation, flat[1], test).reshape(ys[:, fold.test].shape)
            for pair, y, prediction in zip(pairs, ys[:, fold.test], found):
                pair[0][fold.test], pair[1][fold.test] = errors(y, prediction)
        return pairs


def freed(solver: Solver, y: np.ndarray, nuisance: np.ndarray, fold: Fold) -> np.ndarray:
    """y (G, n, K, M) less what the nuisance explains, by a fit on the training sequences of the fold only."""
    chosen = [stacked(y[:, part]) for part in (fold.train, fold.validation)]
    found = solver.predict(chosen[0], rows(nuisance[fold.validation]), chosen[1], rows(nuisance))
    return y - found.reshape(y.shape)
