"""The lens on networks whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from windtunnel import models
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.geometry.lens import lens
from windtunnel.tunnels import HMM, Bijection


def test_a_head_that_always_answers_uniform():
    """Uniform over 4 values: log2 4 less the entropy log2(4, 3, 2, 1) of the belief, at every layer."""
    tunnel = Bijection(symbols=4, length=4)
    model = models.build("transformer", tunnel, depth=2, width=8, heads=2)
    with torch.no_grad():
        model.head.weight.zero_()
    first, last = lens(model, tunnel, tunnel.sample(6), [])
    wanted = 2.0 - np.log2([4, 3, 2, 1]).mean()
    np.testing.assert_allclose(last.arrays["value"], wanted, rtol=1e-6)
    assert first.where["layer"] == "positioned" and last.where["layer"] == 1


def test_blocks_that_add_nothing_leave_the_lens_where_it_was():
    tunnel = HMM(states=3, symbols=2, length=4)
    model = models.build("transformer", tunnel, depth=3, width=8, heads=2)
    with torch.no_grad():
        model.head.weight.mul_(20)
        for block in list(model.blocks)[1:]:
            for layer in (block.attention.out, block.ff.down):
                layer.weight.zero_()
                layer.bias.zero_()
    value = lens(model, tunnel, tunnel.sample(6), [])[-1].arrays["value"]
    np.testing.assert_allclose(value[2:], value[1], rtol=1e-6)
    assert abs(value[0] - value[1]) > 1e-4


@pytest.mark.parametrize("name", ["transformer", "mamba", "lstm", "mlp", "linear-attention"])
def test_the_last_layer_gives_the_networks_own_kl(name):
    tunnel = HMM(states=3, symbols=2, length=4)
    model, episodes = models.build(name, tunnel, depth=2, width=16), tunnel.sample(6)
    with torch.no_grad():
        model.head.weight.mul_(20)
        wanted = kl_bits(episodes.posterior, model.log_probs(episodes.inputs).double()).mean()
    twin = models.build(name, tunnel, depth=2, width=16, seed=5)
    found = lens(model, tunnel, episodes, [twin, twin])[-1]
    assert found.value == pytest.approx(float(wanted), rel=1e-4)
    assert set(found.nulls) == {"untrained", "shuffled episodes"}
