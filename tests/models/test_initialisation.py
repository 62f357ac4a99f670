"""Step 0: the stream keeps its scale through the depth, and the untrained model is close to uniform."""

from __future__ import annotations

import pytest
import torch

from tests.models.cases import VARIANTS, dense_inputs, every_variant
from windtunnel import models
from windtunnel.tunnels import HMM, Bijection, Recall
from windtunnel.tunnels.information import BITS_PER_NAT

TUNNELS = {
    "bijection": Bijection(symbols=12, length=12),
    "hmm-rows": HMM(length=12),
    "hmm-tokens": HMM(length=8, prior="released", header="tokens"),
    "recall": Recall(pairs=8, queries=8, filler=4, keys=32, values=16),
}
every_default = pytest.mark.parametrize("tunnel", TUNNELS.values(), ids=TUNNELS)
every_shape = pytest.mark.parametrize(("depth", "width"), [(9, 48), (2, 128)])

# Root mean square of the stream after each block.  A plain stack has no stream: its layers' outputs are small.
BOUNDS = dict.fromkeys(VARIANTS, (0.4, 1.5)) | {"lstm-stacked": (0.01, 0.5)}


def build(variant, tunnel, depth, width):
    name, options = VARIANTS[variant]
    return models.build(name, tunnel, depth=depth, width=width, seed=7, **options)


@every_shape
@every_default
@every_variant
def test_stream_scale_is_bounded_at_every_depth(variant, tunnel, depth, width):
    low, high = BOUNDS[variant]
    seen = models.trace(
        build(variant, tunnel, depth, width), tunnel.sample(16, dtype=torch.float32), "blocks.*.residual"
    )
    assert len(seen) == depth
    for name, stream in seen.items():
        assert low <= float(stream.square().mean().sqrt()) <= high, name


@every_shape
@every_default
@every_variant
def test_untrained_is_within_a_tenth_of_a_bit_of_uniform(variant, tunnel, depth, width):
    episodes = tunnel.sample(64, seed=3)
    with torch.no_grad():
        log_probs = build(variant, tunnel, depth, width).log_probs(episodes.inputs).double()
    uniform = torch.full_like(log_probs, 1.0 / tunnel.classes).log()
    excess = (episodes.posterior * (uniform - log_probs)).sum(-1).mean() * BITS_PER_NAT  # KL − KL of uniform
    assert abs(float(excess)) < 0.1


@every_variant
def test_every_parameter_gets_a_gradient(variant):
    tunnel = TUNNELS["hmm-rows"]
    model = build(variant, tunnel, 2, 32)
    model.log_probs(dense_inputs(tunnel, 8))[..., 0].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
