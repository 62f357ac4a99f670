"""Brute force: the whole joint, enumerated one episode at a time in plain Python.  Slow, and hard to get wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np


def bijection_posterior(keys: list[int], values: list[int], symbols: int) -> np.ndarray:
    """(K, V): P(value of keys[k] | the k pairs before it), over all permutations consistent with them."""
    out = []
    for step, key in enumerate(keys):
        weight = np.zeros(symbols)
        for permutation in itertools.permutations(range(symbols)):
            if all(permutation[keys[i]] == values[i] for i in range(step)):
                weight[permutation[key]] += 1
        out.append(weight / weight.sum())
    return np.array(out)


def hmm_joint(transition, emission, observations):
    """Yield every state path with its probability, jointly with the observations."""
    states = len(transition)
    for path in itertools.product(range(states), repeat=len(observations)):
        p = 1.0 / states
        for t, state in enumerate(path):
            if t:
                p *= transition[path[t - 1]][state]
            p *= emission[state][observations[t]]
        yield path, p


def hmm_state_posterior(transition, emission, observations) -> np.ndarray:
    """(K, S): P(s_t | o_1 … o_t) by summing over all paths of each prefix."""
    out = []
    for step in range(1, len(observations) + 1):
        weight = np.zeros(len(transition))
        for path, p in hmm_joint(transition, emission, observations[:step]):
            weight[path[-1]] += p
        out.append(weight / weight.sum())
    return np.array(out)


def hmm_symbol_posterior(transition, emission, observations) -> np.ndarray:
    """(K, M): P(o_{t+1} | o_1 … o_t) as a ratio of enumerated evidences."""
    out = []
    for step in range(1, len(observations) + 1):
        prefix = list(observations[:step])
        evidence = [sum(p for _, p in hmm_joint(transition, emission, [*prefix, m])) for m in range(len(emission[0]))]
        out.append(np.array(evidence) / sum(evidence))
    return np.array(out)


def urn_posterior(draws: list[int], symbols: int, concentration: float) -> np.ndarray:
    """(K, V): P(next | the first t draws) as a ratio of evidences, each a product of gamma functions.

    P(o_1 … o_t) = Γ(Vα) / Γ(Vα + t) · Π_v Γ(α + c_v) / Γ(α), the integral of Π p_v^c_v over the Dirichlet prior.
    """

    def log_evidence(sequence: list[int]) -> float:
        counts = [sequence.count(v) for v in range(symbols)]
        total = math.lgamma(symbols * concentration) - math.lgamma(symbols * concentration + len(sequence))
        return total + sum(math.lgamma(concentration + c) - math.lgamma(concentration) for c in counts)

    prefixes = [draws[:step] for step in range(1, len(draws) + 1)]
    return np.array([[math.exp(log_evidence([*p, v]) - log_evidence(p)) for v in range(symbols)] for p in prefixes])


def urn_grid_posterior(draws: list[int], concentration: float, cells: int = 4000) -> np.ndarray:
    """(K, 2): two colours, by summing over a fine grid of shares x: ∫ x^a (1 − x)^b dx, midpoints."""
    x = (np.arange(cells) + 0.5) / cells
    prior = (x * (1 - x)) ** (concentration - 1)
    out = []
    for step in range(1, len(draws) + 1):
        zeros = draws[:step].count(0)
        weight = prior * x**zeros * (1 - x) ** (step - zeros)
        share = float((weight * x).sum() / weight.sum())
        out.append([share, 1 - share])
    return np.array(out)


def recall_posterior(stored, shown, queries, keys, values: int, noise: float) -> np.ndarray:
    """(M, V): P(value of the queried key | all showings) over every assignment of values to the stored keys."""
    out = np.zeros((len(queries), values))
    if noise == 0:
        assignments = itertools.permutations(range(values), len(keys))
    else:
        assignments = itertools.product(range(values), repeat=len(keys))
    place = {key: i for i, key in enumerate(keys)}
    for assignment in assignments:
        p = 1.0
        for key, value in zip(stored, shown, strict=True):
            p *= (1 - noise) * (assignment[place[key]] == value) + noise / values
        for m, query in enumerate(queries):
            out[m, assignment[place[query]]] += p
    return out / out.sum(1, keepdims=True)
