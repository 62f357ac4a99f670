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


class Drawing(Bag):
    def forward(self, tokens, features, readout):
        return torch.dropout(super().forward(tokens, features, readout), 0.5, True)


@every_tunnel
def test_what_depends_on_the_batch_is_refused(tunnel):
    with pytest.raises(InputError, match="Centred: what it predicts for an episode changed with the other episodes"):
        models.build(Centred, tunnel)


def test_one_episode_must_be_enough():
    with pytest.raises(InputError, match="Squeezed: forward failed on one episode alone"):
        models.build(Squeezed, TUNNEL)


@every_tunnel
@pytest.mark.parametrize("factory", [Bag, Normed, Cancelling])
def test_what_does_not_is_let_through(tunnel, factory):
    with warnings.catch_warnings(action="error"):
        models.build(factory, tunnel)


def test_what_draws_is_warned_of():
    with pytest.warns(UserWarning, match="Drawing: draws random numbers in evaluation mode"):
        models.build(Drawing, TUNNEL)
