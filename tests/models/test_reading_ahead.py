"""A model that reads what follows is refused; rounding, noise and strictness are not taken for that."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.fidelity.toys import Shown
from tests.models.cases import TUNNELS, Bag, every_tunnel
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.models.mlp import MLP
from windtunnel.tunnels import Bijection

TUNNEL = TUNNELS["bijection"]


class Ahead(Bag):
    """Reads the whole sequence at every readout."""

    def forward(self, tokens, features, readout):
        x = self.embedding(tokens)
        if self.features is not None:
            x = x + self.features(features)
        return self.head(x[:, readout] + x.mean(1, keepdim=True))


class BothWays(nn.Module):
    def __init__(self, tunnel):
        super().__init__()
        self.embedding, self.head = nn.Embedding(tunnel.vocabulary, 8), nn.Linear(16, tunnel.classes)
        self.lstm = nn.LSTM(8, 8, bidirectional=True, batch_first=True)

    def forward(self, tokens, features, readout):
        return self.head(self.lstm(self.embedding(tokens))[0][:, readout])


@every_tunnel
@pytest.mark.parametrize("factory", [Ahead, BothWays])
def test_a_model_that_reads_ahead_is_refused(tunnel, factory):
    position = int(tunnel.sample(1).inputs.readout[0])
    told = f"its prediction at position {position} changed when only later tokens did"
    with pytest.raises(InputError, match=f"^model {factory.__name__}: must be causal; {told}$"):
        models.build(factory, tunnel)


def test_later_features_are_no_more_to_be_read_than_later_tokens():
    with pytest.raises(InputError, match="must be causal"):
        models.build(Ahead, Shown())  # all its tokens are the same


class Halved(Bag):
    """Puts in all positions and takes them out again, in bfloat16: what is left of the later ones is rounding."""

    def forward(self, tokens, features, readout):
        with torch.autocast("cpu", torch.bfloat16):
            x = self.head(self.embedding(tokens)).float()
        whole = x.sum(1, keepdim=True).bfloat16()
        return ((x + whole).bfloat16() - whole).float()[:, readout]


def test_rounding_is_not_taken_for_reading_ahead():
    assert models.build(Halved, TUNNEL)
    assert models.build(Convolved, TUNNELS["recall"])


class Convolved(Bag):
    """A causal convolution by Fourier transform: mathematically blind to what follows, up to rounding."""

    def forward(self, tokens, features, readout):
        x = self.embedding(tokens)
        size = 2 * x.shape[1]
        kernel = torch.linspace(1, 2, x.shape[1])[:, None]
        x = torch.fft.irfft(torch.fft.rfft(x, size, 1) * torch.fft.rfft(kernel, size, 0), size, 1)[:, : x.shape[1]]
        return self.head(x[:, readout])


class Dice(Bag):
    """Never says the same twice, not even when evaluated."""

    def forward(self, tokens, features, readout):
        return torch.randn(len(tokens), len(readout), self.head.out_features)


class Strict(Bag):
    """Takes episodes of its tunnel only: no key twice."""

    def forward(self, tokens, features, readout):
        keys = tokens[:, readout].sort(1).values
        assert (keys.diff(dim=1) > 0).all()
        return super().forward(tokens, features, readout)


class Fussy(Ahead):
    """Reads ahead, and fails on the first sequence that is not the one it was shown first."""

    shown, failed = None, False

    def forward(self, tokens, features, readout):
        self.shown = tokens if self.shown is None else self.shown
        if not self.failed and not torch.equal(tokens, self.shown):
            self.failed = True
            raise ValueError("never seen")
        return super().forward(tokens, features, readout)


def test_what_is_random_or_reads_real_episodes_only_is_not_accused():
    state = torch.get_rng_state()
    assert models.build(Dice, TUNNEL)
    with pytest.warns(UserWarning, match="model Strict: could not test whether it is causal, as its forward fails"):
        assert models.build(Strict, Bijection(symbols=4, length=4))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_forward_that_fails_on_one_sequence_is_asked_for_another():
    with pytest.raises(InputError, match="must be causal"):
        models.build(Fussy, TUNNEL)


def test_a_class_of_our_own_kind_is_looked_at_too():
    class Backwards(MLP):
        def trunk(self, x, tap=None):
            return super().trunk(x + x.mean(1, keepdim=True), tap)

    with pytest.raises(InputError, match=r"^model Backwards: must be causal"):
        models.build(Backwards, TUNNEL, depth=1, width=8)
    models.register("backwards", Backwards)
    try:
        with pytest.raises(InputError, match=r"^model backwards: must be causal"):
            models.build("backwards", TUNNEL, depth=1, width=8)
    finally:
        models.unregister("backwards")
