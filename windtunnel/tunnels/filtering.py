"""The forward algorithm as pure functions.  Episodes come last (…, n): see `random.Source`.

Sums over states are written out term by term (`addcmul`): it is fast in this layout, and an episode's belief does not
depend on its neighbours in the batch, to the last bit.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from windtunnel.tunnels.random import add_up


def likelihoods(emission: Float[Tensor, "S M n"], observations: Int64[Tensor, "K n"]) -> Float[Tensor, "K S n"]:
    """P(o_t | s) for every step t and state s."""
    columns = emission.transpose(0, 1)  # (M, S, n): for each symbol, the likelihood of every state
    return columns.gather(0, observations[:, None].expand(-1, emission.shape[0], -1))


def forward_filter(
    transition: Float[Tensor, "S S n"],
    likelihood: Float[Tensor, "K S n"],
) -> Float[Tensor, "K S n"]:
    """Filtering beliefs alpha_t(s) = P(s_t = s | o_1 … o_t), normalised at every step:

        alpha_1(s) ∝ P(o_1 | s)                              uniform start
        alpha_t(s) ∝ P(o_t | s) Σ_s' alpha_{t−1}(s') T[s', s]

    transition[i, j] = P(next = j | now = i).  From an observation on that cannot happen, beliefs are 0/0 = NaN: only
    an edited episode of a chain with zeros has one.
    """
    alpha = likelihood[0] / add_up(likelihood[0], 0)
    beliefs = [alpha]
    for step in likelihood[1:]:
        alpha = push(alpha, transition).mul_(step)
        alpha = alpha.div_(add_up(alpha, 0))
        beliefs.append(alpha)
    return torch.stack(beliefs)


def push(belief: Float[Tensor, "S n"], transition: Float[Tensor, "S S n"]) -> Float[Tensor, "S n"]:
    """One step of transport: the belief about the next state, before it emits."""
    return _weigh(belief, transition)


def predict_symbols(
    beliefs: Float[Tensor, "K S n"], transition: Float[Tensor, "S S n"], emission: Float[Tensor, "S M n"]
) -> Float[Tensor, "K M n"]:
    """P(o_{t+1} | o_1 … o_t) for every step: transport the belief, then emit."""
    weights = beliefs.transpose(0, 1)[:, :, None]  # (S, K, 1, n)
    following = _weigh(weights, transition[:, None]).transpose(0, 1)[:, :, None]
    return _weigh(following, emission[:, None])


def _weigh(weights: Tensor, rows: Tensor) -> Tensor:
    """Σ_s weights[s] · rows[s], in the order of s."""
    (weight, row), *rest = zip(weights, rows, strict=True)
    total = weight * row
    for weight, row in rest:
        total = total.addcmul_(weight, row)
    return total
