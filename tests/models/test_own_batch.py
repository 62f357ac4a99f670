"""A model whose prediction for an episode depends on the rest of the batch is refused; one that draws is warned of."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from tests.models.cases import TUNNELS, Bag, every_tunnel
from windtunnel import models
from windtunnel.errors import InputError

TUNNEL = TUNNELS["bijection"]


class Centred(Bag):
    """Takes the mean of the batch away."""

    def forward(self, tokens, features, readout):
        x = super().forward(tokens, features, readout)
        return x - 0.5 * x.mean(0, keepdim=True)


class Normed(Bag):
    """Norms by the batch while it trains, and by running statistics when it is asked."""

    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.norm = nn.BatchNorm1d(tunnel.classes)

    def forward(self, tokens, features, readout):
        return self.norm(super().forward(tokens, features, readout).transpose(1, 2)).transpose(1, 2)


class Cancelling(Bag):
    """All logits are 0 but for rounding, which goes by the size of the batch."""

    def forward(self, tokens, features, readout):
        x = super().forward(tokens, features, readout)
        return 1e-7 * x * len(tokens)


class Squeezed(Bag):
    """Has no room for a batch of one."""

    def forward(self, tokens, features, readout):
        return super().forward(tokens.squeeze(0), features, readout)


class Masked(Centred):
    """Rules a class out with a large number, as attention masks do."""

    def forward(self, tokens, features, readout):
        x = super().forward(tokens, features, readout)
        return x.masked_fill(torch.arange(x.shape[-1]) == 0, -1e9)


class RuledOut(Bag):
    """So does one with nothing to hide; −1e9 plus a logit is rounded to 64."""

    def forward(self, tokens, features, readout):
        x = super().forward(tokens, features, readout)
        return x - 1e9 * (torch.arange(x.shape[-1]) == 0)


class Flat(Bag):
    """Loses the axis of a batch of one."""

    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout).squeeze(0)


class Tiring(Bag):
    """Fails when it is asked for the fifth time."""

    asked = 0

    def forward(self, tokens, features, readout):
        self.asked += 1
        if self.asked == 5:
            raise RuntimeError("boom")
        return super().forward(tokens, features, readout)


class Drawing(Bag):
    def forward(self, tokens, features, readout):
        return torch.dropout(super().forward(tokens, features, readout), 0.5, True)


@every_tunnel
@pytest.mark.parametrize("factory", [Centred, Masked])
def test_what_depends_on_the_batch_is_refused(tunnel, factory):
    with pytest.raises(InputError, match="what it predicts for an episode changed with the other episodes"):
        models.build(factory, tunnel)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (Squeezed, "Squeezed: forward failed on one episode alone"),
        (Flat, r"Flat: one episode alone gave logits of shape \(4, 4\): must be \(1, 4, 4\)"),
        (Tiring, r"Tiring: forward failed \(.*boom"),
    ],
)
def test_one_episode_must_be_enough(factory, told):
    with pytest.raises(InputError, match=told):
        models.build(factory, TUNNEL)


@every_tunnel
@pytest.mark.parametrize("factory", [Bag, Normed, Cancelling, RuledOut])
def test_what_does_not_is_let_through(tunnel, factory):
    with warnings.catch_warnings(action="error"):
        models.build(factory, tunnel)


def test_what_draws_is_warned_of():
    with pytest.warns(UserWarning, match="Drawing: gave something else when it was asked again"):
        models.build(Drawing, TUNNEL)
