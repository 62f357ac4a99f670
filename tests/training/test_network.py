"""One step, the average, validation, and what is saved."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.training.cases import BIJECTION, SMALL_HMM, VARIANTS, Counts, same, tiny
from windtunnel import evaluate
from windtunnel.errors import InputError
from windtunnel.models import Sizes
from windtunnel.models.transformer import Transformer
from windtunnel.training.network import Network, finish_step


def network(seed: int = 0, factory=None, **options) -> Network:
    return Network(tiny(**options), seed, "cpu", factory)


def copied(state: dict) -> dict:
    return {name: value.clone() for name, value in state.items()}


@pytest.mark.parametrize("supervision", ["labels", "posterior"])
def test_the_loss_is_the_cross_entropy_of_this_step_s_episodes(supervision):
    """Batch k of a seed is episodes k·batch … of its training stream."""
    net = network(seed=5, tunnel=SMALL_HMM, supervision=supervision)
    for step in range(3):
        episodes = SMALL_HMM.sample(8, 5, "train", start=8 * step, dtype=torch.float32)
        log_q = net.model.log_probs(episodes.inputs)
        if supervision == "labels":
            expected = -log_q.gather(-1, episodes.labels[..., None]).mean()
        else:
            expected = -(episodes.posterior * log_q).sum(-1).mean()
        torch.testing.assert_close(net.loss(), expected)
        net.advance()


def test_the_loss_in_bits_is_the_mean_since_it_was_last_taken():
    net = network()
    expected = []
    for _ in range(4):
        expected.append(float(net.loss().detach()) / math.log(2))
        net.advance()
    assert net.take_loss_bits() == pytest.approx(sum(expected) / 4, rel=1e-6)
    expected = float(net.loss().detach()) / math.log(2)
    net.advance()
    assert net.take_loss_bits() == pytest.approx(expected, rel=1e-6)


def test_bfloat16_changes_the_arithmetic_and_not_the_weights_type():
    plain, half = network(), network(precision="bfloat16")
    a, b = float(plain.loss().detach()), float(half.loss().detach())
    assert a != b and a == pytest.approx(b, rel=0.05)
    half.advance()
    assert {value.dtype for value in half.weights().values()} == {torch.float32}


# --- the average
@pytest.mark.parametrize("average", [0.5, 0.9])
def test_kept_weights_are_the_moving_average(average):
    net = network(average=average, steps=10)
    expected = {name: value.detach().clone() for name, value in net.model.named_parameters()}
    for _ in range(5):
        net.advance()
        for name, value in net.model.named_parameters():
            expected[name] = average * expected[name] + (1 - average) * value.detach()
    kept = net.weights()
    for name, value in expected.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(kept["head.weight"], net.model.head.weight, atol=1e-4)


def test_without_average_the_weights_themselves_are_kept():
    net = network(average=0.0)
    net.advance()
    assert same(net.weights(), dict(net.model.state_dict()))


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_validation_leaves_training_untouched(average):
    """Every bit of the state, the random state and the next steps; and the storage a captured step would hold."""
    watched, alone = network(average=average), network(average=average)
    for _ in range(3):
        watched.advance()
        alone.advance()
        before, random_state = copied(watched.state()), torch.get_rng_state()
        places = [parameter.data_ptr() for parameter in watched.parameters]
        watched.validate()
        watched.weights()
        assert same(copied(watched.state()), before)
        assert torch.equal(torch.get_rng_state(), random_state)
        assert [parameter.data_ptr() for parameter in watched.parameters] == places
    assert same(watched.state(), alone.state())


@pytest.mark.parametrize("average", [0.0, 0.8])
def test_validation_scores_the_weights_that_would_be_kept(average):
    """The same number as the fidelity room gives for them, on the same episodes, in whatever chunks."""
    net = network(average=average, lr=0.05, validation_episodes=2500, steps=20)
    for _ in range(10):
        net.advance()
    twin = network()
    twin.model.load_state_dict(net.weights())
    score = evaluate(twin.model, BIJECTION, episodes=2500, seed=0, stream="validation")
    found = net.validate()
    assert found["kl_bits"] == pytest.approx(score.kl_bits.mean, rel=1e-6)
    assert found["entropy_mae_bits"] == pytest.approx(score.entropy_mae_bits.mean, rel=1e-6)


class Moody(Counts):
    """Drops out and keeps running statistics while training; one part never trains."""

    def __init__(self, tunnel):
        super().__init__(tunnel)
        self.norm, self.frozen = nn.BatchNorm1d(tunnel.positions), nn.Dropout(0.5).eval()

    def forward(self, tokens, features, readout):
        x = self.frozen(F.dropout(self.norm(self.table(tokens).cumsum(1)), 0.5, self.training))
        return self.last(torch.tanh(self.mix(x)))[:, readout]


def test_validation_is_in_evaluation_mode_and_puts_the_modes_back():
    net = network(factory=Moody, model_options={}, average=0.0)
    before = copied(net.state())
    assert net.validate() == net.validate()  # no dropout
    assert same(copied(net.state()), before)  # no running statistics
    modes = {name: module.training for name, module in net.model.named_modules()}
    assert modes["module.norm"] and not modes["module.frozen"]


# --- what is saved
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_restored_network_goes_on_bit_for_bit(variant):
    """Into a network of another seed's weights: nothing that matters may be missing from the state."""
    first = network(tunnel=SMALL_HMM, variant=variant)
    for _ in range(3):
        first.advance()
    second = network(tunnel=SMALL_HMM, variant=variant)
    for parameter in second.parameters:
        parameter.data.fill_(0.5)
    second.restore(copied(first.state()))
    for _ in range(3):
        first.advance()
        second.advance()
    assert same(first.state(), second.state())
    assert same(first.weights(), second.weights())


def test_a_state_of_another_shape_or_kind_is_told_in_one_line():
    net = network()
    with pytest.raises(InputError, match=r"checkpoint field 'average\.0': must be in both the checkpoint"):
        net.restore(network(average=0.0).state())
    with pytest.raises(InputError, match=r"checkpoint field model\S+ has shape \(.*: must be \("):
        net.restore(network(model_options={"depth": 2, "width": 8, "heads": 2}).state())


def test_finite_sees_every_part_of_the_state():
    net = network()
    net.advance()
    assert net.finite()
    for name, value in net.state().items():
        if value.is_floating_point():
            kept = value.flatten()[0].clone()
            value.flatten()[0] = torch.inf
            assert not net.finite(), name
            value.flatten()[0] = kept
    assert net.finite()


def test_a_buffer_need_not_be_finite():
    """That of a causal mask seldom is, and no training ever moves it."""

    class Masked(Counts):
        def __init__(self, tunnel):
            super().__init__(tunnel)
            self.register_buffer("mask", torch.full((8, 8), -torch.inf).triu(1))

    net = network(factory=Masked, model_options={})
    net.advance()
    assert net.finite()


# --- what a model draws while it trains
class Dropped(Transformer):
    """A subclass of ours that is not ours: it draws random numbers."""

    def embed(self, tokens, features, tap):
        return F.dropout(super().embed(tokens, features, tap), 0.5, self.training)


def dropped(tunnel) -> nn.Module:
    return Dropped(Transformer.config_class(depth=1, width=16, heads=2, ff_width=32), Sizes.of(tunnel))


@pytest.mark.parametrize("factory", [Moody, dropped])
def test_a_model_of_one_s_own_draws_the_same_in_every_training(factory):
    """Also where ours would be halved; and the caller's random state stays as it was."""
    options = {"model_options": {}, "batch": 512}
    first, again = network(factory=factory, **options), network(factory=factory, **options)
    for seed, net in enumerate((first, again)):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        for _ in range(2):
            net.advance()
        assert torch.equal(torch.get_rng_state(), before)
    assert same(first.state(), again.state())


def test_a_model_that_also_draws_when_evaluated_has_one_score_and_leaves_the_random_state():
    class Dice(Counts):
        def forward(self, tokens, features, readout):
            return super().forward(tokens, features, readout) + torch.randn(len(tokens), 1, 4)

    net, before = network(factory=Dice, model_options={}), torch.get_rng_state()
    assert net.validate() == net.validate()
    assert torch.equal(torch.get_rng_state(), before)


def test_every_seed_and_step_draws_noise_of_its_own():
    drawn: list[torch.Tensor] = []

    class Noisy(Counts):
        def forward(self, tokens, features, readout):
            if self.training:
                drawn.append(torch.rand(4))
            return super().forward(tokens, features, readout)

    for seed in (0, 1, 2**32 - 1):
        net = network(seed, Noisy, model_options={})
        for _ in range(3):
            net.advance()
    assert len({tuple(noise.tolist()) for noise in drawn}) == len(drawn) == 9


def test_seeds_differ_in_weights_and_data():
    a, b = network(seed=0), network(seed=1)
    assert not torch.equal(a.model.head.weight, b.model.head.weight)
    assert not torch.equal(a._draw(a.step, a.seed)[0], b._draw(b.step, b.seed)[0])


def test_steps_see_fresh_data():
    net = network(batch=64)
    first = net._draw(net.step, net.seed)[0]
    net.advance()
    assert not torch.equal(first, net._draw(net.step, net.seed)[0])


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_step_finished_together_is_each_network_s_own(optimiser):
    """Seeds at different steps, and so at different rates; averages follow."""
    options = {"optimiser": optimiser, "average": 0.9, "steps": 10, "warmup": 4}
    together, alone = ([network(seed, **options) for seed in (0, 1)] for _ in range(2))
    together[1].advance()
    alone[1].advance()
    for net in together:
        net.begin_step()
    finish_step(together)
    for net, other in zip(together, alone, strict=True):
        other.advance()
        assert int(net.step) == int(other.step)
        for name, value in net.state().items():
            torch.testing.assert_close(value, other.state()[name], rtol=1e-5, atol=1e-6, msg=name)
