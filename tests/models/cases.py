"""What the model tests share: every architecture in every style, a tiny tunnel of every kind, both devices.

Nothing here needs more than torch and pytest, so these tests also run on a bare GPU image.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from windtunnel import models
from windtunnel.tunnels import HMM, Bijection, Inputs, Recall, Tunnel, Urn

VARIANTS = {
    "transformer": ("transformer", {"positions": "learned"}),
    "transformer-rope": ("transformer", {"positions": "rope"}),
    "transformer-alibi": ("transformer", {"positions": "alibi"}),
    "transformer-none": ("transformer", {"positions": "none"}),
    "mamba": ("mamba", {}),
    "lstm-residual": ("lstm", {"style": "residual"}),
    "lstm-stacked": ("lstm", {"style": "stacked"}),
    "mlp-full": ("mlp", {"context": "full"}),
    "mlp-position": ("mlp", {"context": "position"}),
    "linear-attention": ("linear-attention", {}),
}

TUNNELS: dict[str, Tunnel] = {
    "bijection": Bijection(symbols=4, length=4),
    "bijection-replacement": Bijection(symbols=4, length=5, replacement=True),
    "hmm-rows": HMM(states=3, symbols=2, length=5),
    "hmm-tokens": HMM(states=2, symbols=2, length=4, prior="released", header="tokens"),
    "recall": Recall(pairs=3, queries=2, filler=2, keys=4, values=4),
    "urn": Urn(symbols=4, length=5),
}

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_tunnel = pytest.mark.parametrize("tunnel", TUNNELS.values(), ids=TUNNELS)
every_device = pytest.mark.parametrize("device", DEVICES)


def small(variant: str, tunnel: Tunnel, *, depth: int = 2, width: int = 32, seed: int = 0, **more):
    """A tiny model of a variant.  Weights are scaled up a little: differences between paths should show."""
    name, options = VARIANTS[variant]
    model = models.build(name, tunnel, depth=depth, width=width, seed=seed, **options, **more)
    with torch.no_grad():
        model.head.weight.mul_(10.0)
    return model


def dense_inputs(tunnel: Tunnel, count: int, *, length: int | None = None, seed: int = 0) -> Inputs:
    """Random tokens and features at every position, and every position read: harsher than the tunnel's own episodes."""
    generator = torch.Generator().manual_seed(seed)
    length = length or tunnel.positions
    tokens = torch.randint(tunnel.vocabulary, (count, length), generator=generator)
    features = None
    if tunnel.feature_width:
        features = torch.rand(count, length, tunnel.feature_width, generator=generator, dtype=torch.float64)
    return Inputs(tokens, features, torch.arange(length))


def logits(model, inputs: Inputs, tap=None):
    return model(inputs.tokens, inputs.features, inputs.readout, tap)


def looking(name, value):
    """The tap that only looks: it forces the tapped path and changes nothing."""
    return value


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest difference over the largest entry."""
    return float(((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).detach())


@contextmanager
def full_precision():
    """cuDNN's LSTM would round float32 products to TF32; comparing paths needs all the bits."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


class Bag(nn.Module):
    """Counts of the tokens so far."""

    def __init__(self, tunnel, width=8, extra=0):
        super().__init__()
        self.embedding = nn.Embedding(tunnel.vocabulary, width)
        self.features = nn.Linear(tunnel.feature_width, width) if tunnel.feature_width else None
        self.head = nn.Linear(width, tunnel.classes + extra)

    def forward(self, tokens, features, readout):
        x = self.embedding(tokens)
        if self.features is not None:
            x = x + self.features(features)
        return self.head(x.cumsum(1)[:, readout])
