"""Distances between the exact belief and a prediction: pure functions, one number per readout.

Everywhere p is the exact belief, (…, C) float64 and summing to 1, and log_q the natural log of the prediction,
(…, C) float64 and normalised.  Results have the leading shape (…), in bits where the name says so.  Point masses
and zero probabilities need no special care from the caller; where p or log_q is NaN, so is every result that uses it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from windtunnel.tunnels.information import BITS_PER_NAT, entropy_bits

__all__ = [
    "accuracy",
    "entropy_bits",
    "excess_log_loss_bits",
    "kl_bits",
    "log_loss_bits",
    "model_entropy_bits",
    "total_variation",
]

LEAST = 1e-300
"""What is less likely counts as impossible in a KL.  Near 1e-308 float64 runs out of digits, and whether a product of
probabilities ends at 1e-320 or at 0 is an accident of the order in which it was taken: p = 1e-320 against q = 0 would
be an infinite KL, and so would be the mean over a million readouts, between two filters that agree.  Where the KL is
finite, what is left out is less than 1e-296 bits."""


def kl_bits(p: Float64[Tensor, "... C"], log_q: Float64[Tensor, "... C"]) -> Float64[Tensor, "..."]:
    """KL(p ‖ q) in bits: never negative, +inf where the model rules out what is possible (above `LEAST`).

    Summing p log(p/q) cancels terms of either sign, and below 1e-9 bits only rounding is left.  As both sides sum
    to 1, the same total is Σ p log(p/q) − p + q, whose terms are all non-negative.  With d = log(q/p) a term is
    p (e^d − 1 − d), which expm1 gives accurately for small d; where p = 0, or below `LEAST`, it is q.
    """
    q = log_q.exp()
    possible = ~(p < LEAST)  # NaN too, which is no belief at all and must not pass for a zero
    d = log_q - torch.where(possible, p, 1.0).log()
    near = p * (torch.expm1(d) - d)
    far = q - p - p * d  # the same term: for large d expm1 would overflow where p e^d = q does not
    terms = torch.where(possible, torch.where(d < 1, near, far), q)
    return terms.clamp_min(0.0).sum(-1) * BITS_PER_NAT  # the clamp removes rounding of one unit in the last place


def model_entropy_bits(log_q: Float64[Tensor, "... C"]) -> Float64[Tensor, "..."]:
    """Entropy of the prediction in bits; a class of probability 0 adds nothing."""
    finite_log = torch.where(log_q.isneginf(), 0.0, log_q)
    return -(log_q.exp() * finite_log).sum(-1) * BITS_PER_NAT


def total_variation(p: Float64[Tensor, "... C"], log_q: Float64[Tensor, "... C"]) -> Float64[Tensor, "..."]:
    """Half the L1 distance: the largest difference in the probability of any event, in [0, 1]."""
    return 0.5 * (p - log_q.exp()).abs().sum(-1)


def log_loss_bits(log_q: Float64[Tensor, "... C"], labels: Int64[Tensor, "..."]) -> Float64[Tensor, "..."]:
    """−log2 q(label): what training minimises on hard labels, in bits."""
    return -log_q.gather(-1, labels[..., None])[..., 0] * BITS_PER_NAT


def excess_log_loss_bits(
    p: Float64[Tensor, "... C"], log_q: Float64[Tensor, "... C"], labels: Int64[Tensor, "..."]
) -> Float64[Tensor, "..."]:
    """Log-loss of the prediction less that of the exact belief on the same label, in bits.

    Its expectation is the KL; a sample of it can be negative, and is far noisier than the KL.
    """
    return log_loss_bits(log_q, labels) - log_loss_bits(p.log(), labels)


def accuracy(scores: Float64[Tensor, "... C"], labels: Int64[Tensor, "..."]) -> Float64[Tensor, "..."]:
    """1 where the top class is the label; m classes tied at the top share it, 1/m each.

    So a uniform prediction over 20 classes scores 0.05 on every readout, rather than 1 whenever the label happens
    to be class 0.  `scores` may be log-probabilities or probabilities.
    """
    top = scores == scores.amax(-1, keepdim=True)
    return top.gather(-1, labels[..., None])[..., 0].double() / top.sum(-1)
