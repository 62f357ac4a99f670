"""Who moves which weight: AdamW as torch has it; Muon for the matrices inside blocks; decay for weights alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.cases import BIJECTION, SMALL_HMM, VARIANTS, Counts
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.training import Optimiser
from windtunnel.training.adamw import AdamW
from windtunnel.training.optimiser import Stepper, matrices_of

# The last part of the module's name, then the parameter's; everything not listed is moved by AdamW without decay.
MATRICES = {
    "transformer": {"qkv.weight", "out.weight", "up.weight", "down.weight"},
    "mamba": {"in_proj.weight", "x_proj.weight", "dt_proj.weight", "out_proj.weight"},
    "lstm-residual": {"lstm.weight_ih_l0", "lstm.weight_hh_l0", "up.weight", "down.weight"},
    "lstm-stacked": {"lstm.weight_ih_l0", "lstm.weight_hh_l0"},
    "mlp-full": {"up.weight", "down.weight"},
    "mlp-position": {"up.weight", "down.weight"},
    "linear-attention": {"qkv.weight", "out.weight", "beta.weight", "decay.weight", "up.weight", "down.weight"},
}
ENDS = {"embedding.weight", "features.weight", "head.weight"}
NEVER = {"bias", "norm", "conv", "A_log", "D", "position", "mixing"}


def short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def build(variant: str, tunnel=SMALL_HMM) -> nn.Module:
    name, options = VARIANTS[variant]
    return models.build(name, tunnel, **options)


@pytest.mark.parametrize("variant", VARIANTS)
def test_muon_takes_the_matrices_inside_the_blocks(variant):
    network = build(variant)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    taken = [names[id(matrix)] for matrix in matrices_of(network)]
    assert {short(name) for name in taken} == MATRICES[variant]
    assert all(name.startswith("blocks.") for name in taken)
    assert len(taken) == len(set(taken)) == 2 * len(MATRICES[variant])  # two blocks
    assert all(matrix.ndim == 2 for matrix in matrices_of(network))


def test_matrices_of_a_module_of_ones_own():
    """Those of any recurrent layer and of linear maps, but for one that is called head."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.out, self.head = nn.GRU(4, 6), nn.Linear(6, 5), nn.Linear(5, 3)

    own = Own()
    names = {id(parameter): name for name, parameter in own.named_parameters()}
    assert [names[id(matrix)] for matrix in matrices_of(own)] == ["mix.weight_ih_l0", "mix.weight_hh_l0", "out.weight"]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_only_weights_of_linear_maps_embeddings_and_lstms_decay(variant, kind):
    """With gradient zero only decay moves a weight."""
    network = build(variant)
    stepper = Stepper(network, Optimiser(kind=kind, lr=0.1, muon_lr=0.1, weight_decay=0.5))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    stepper.step(1.0)
    decayed = set()
    for name, parameter in network.named_parameters():
        if not torch.equal(parameter, before[name]):
            torch.testing.assert_close(parameter.detach(), before[name] * (1 - 0.1 * 0.5))
            decayed.add(name)
    assert {short(name) for name in decayed} == MATRICES[variant] | ENDS
    assert not any(word in NEVER for name in decayed for word in name.split("."))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_is_moved_exactly_once(variant):
    network = build(variant)
    stepper = Stepper(network, Optimiser(kind="muon", lr=0.1, muon_lr=0.1, weight_decay=0.0, clip=0.0))
    by_adamw = [parameter for parameters, _ in stepper.adamw.groups for parameter in parameters]
    by_muon = [matrix for group in stepper.muon.groups for matrix in group]
    assert sorted(map(id, by_adamw + by_muon)) == sorted(map(id, network.parameters()))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)
    stepper.step(1.0)
    assert not [name for name, parameter in network.named_parameters() if torch.equal(parameter, before[name])]


def gradients(network: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in network.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_equals_torch(clip, weight_decay):
    ours, theirs = build("transformer"), build("transformer")
    options = Optimiser(lr=3e-3, betas=(0.8, 0.95), weight_decay=weight_decay, clip=clip)
    stepper = Stepper(ours, options)
    weights = [p for name, p in theirs.named_parameters() if short(name) in MATRICES["transformer"] | ENDS]
    rest = [p for p in theirs.parameters() if all(p is not weight for weight in weights)]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=3e-3, betas=(0.8, 0.95))
    for step, share in enumerate([0.5, 1.0, 0.7, 0.1, 1.0]):
        gradients(ours, step)
        gradients(theirs, step)
        stepper.step(share)
        for group in adamw.param_groups:
            group["lr"] = share * 3e-3
        if clip:
            nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        adamw.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7, msg=lambda text, name=name: f"{name}: {text}")


def test_the_share_scales_both_learning_rates():
    moved = {}
    for share in (1.0, 0.25):
        network = build("transformer")
        before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
        stepper = Stepper(network, Optimiser(kind="muon", weight_decay=0.0))
        gradients(network, 0)
        stepper.step(share)
        moved[share] = {name: (p.detach() - before[name]).norm() for name, p in network.named_parameters()}
    for name in moved[1.0]:
        assert float(moved[0.25][name] / moved[1.0][name]) == pytest.approx(0.25, rel=1e-3), name


def test_state_is_complete_before_the_first_step_and_live_afterwards():
    """So that a state can be restored into a fresh network."""
    network = build("mamba")
    stepper = Stepper(network, Optimiser(kind="muon"))
    fresh = stepper.state()
    assert all(float(value.abs().sum()) == 0 for value in fresh.values())
    gradients(network, 0)
    stepper.step(1.0)
    used = stepper.state()
    assert fresh.keys() == used.keys()
    assert all(fresh[name] is used[name] for name in fresh)
    assert all(float(value.abs().sum()) > 0 for value in used.values())


def test_tied_matrices_are_moved_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

    assert len(matrices_of(Tied())) == 1


def test_frozen_parameters_are_left_alone():
    network = Counts(BIJECTION)
    network.mix.weight.requires_grad_(False)
    before = network.mix.weight.detach().clone()
    stepper = Stepper(network, Optimiser(kind="muon", weight_decay=0.5))
    gradients(network, 0)
    stepper.step(1.0)
    assert torch.equal(network.mix.weight, before)


def test_a_network_with_nothing_to_train_is_told_in_one_line():
    with pytest.raises(InputError, match="model Identity: must have parameters to train"):
        Stepper(nn.Identity(), Optimiser())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_is_torch_s_fused_one_to_the_last_bit(weight_decay):
    ours, theirs = build("lstm-residual"), build("lstm-residual")
    mine = AdamW([(list(ours.parameters()), weight_decay)], (0.8, 0.95))
    yours = torch.optim.AdamW(theirs.parameters(), lr=1.0, betas=(0.8, 0.95), weight_decay=weight_decay, fused=True)
    for step, lr in enumerate([3e-3, 1e-2, 1e-3]):
        gradients(ours, step)
        gradients(theirs, step)
        if step == 1:  # a weight that the loss does not reach stays, in both
            for network in (ours, theirs):
                next(network.parameters()).grad = None
        mine.step(lr)
        yours.param_groups[0]["lr"] = lr
        yours.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
        assert all(torch.equal(mine.state[a][name], yours.state[b][name]) for name in ("step", "exp_avg", "exp_avg_sq"))
