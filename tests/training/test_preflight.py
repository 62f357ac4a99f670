"""A model of one's own that cannot be trained is refused in one line, before there is a folder."""

from __future__ import annotations

import pytest
import torch

from tests.training.cases import BIJECTION, Counts, one_line
from windtunnel.errors import InputError
from windtunnel.training import train


class Unrecorded(Counts):
    @torch.no_grad()
    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout)


class Detached(Counts):
    def forward(self, tokens, features, readout):
        return super().forward(tokens, features, readout).detach()


class Whole(Counts):
    def forward(self, tokens, features, readout):
        return (10 * super().forward(tokens, features, readout)).long()


class InPlace(Counts):
    def forward(self, tokens, features, readout):
        x = torch.exp(self.mix(self.table(tokens).cumsum(1)))
        y = self.last(x)
        x.add_(1)
        return y[:, readout]


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, *gradients):
        raise ValueError("no way back\nand a long story")


class Stuck(Counts):
    def forward(self, tokens, features, readout):
        return Backwards.apply(super().forward(tokens, features, readout))


class Halved(Counts):
    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.half()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Halved, "table.weight is float16: weights to be trained must be float32, float64 or bfloat16"),
        (Unrecorded, "its logits have no gradient"),
        (Detached, "its logits have no gradient"),
        (Whole, "its logits have no gradient"),
        (InPlace, "a training step failed .*inplace operation"),
        (Stuck, "a training step failed .*no way back"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(tmp_path, model, told):
    with pytest.raises(InputError, match=told) as error:
        train(BIJECTION, model, steps=2, batch=4, device="cpu", out=tmp_path / "run")
    assert model.__name__ in one_line(error)
    assert not (tmp_path / "run").exists()


def test_the_look_leaves_the_generator_and_the_training_as_they_were(tmp_path):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    run = train(BIJECTION, Counts, steps=2, batch=4, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.grad is None for weight in run.models[0].parameters())
