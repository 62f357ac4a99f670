"""Entropy in bits: the one quantity both the tunnels and the fidelity metrics need."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

BITS_PER_NAT = 1.0 / math.log(2.0)


def entropy_bits(probabilities: Float[Tensor, "... C"]) -> Float[Tensor, "..."]:
    """Shannon entropy in bits along the last axis; 0 log 0 is 0.  Shape (…, C) to (…)."""
    return torch.special.entr(probabilities).sum(-1) * BITS_PER_NAT
