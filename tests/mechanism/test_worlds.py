"""Edited worlds change what they say and nothing else."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.mechanism.planted import AGAIN, NOISY, ONCE, RECALL, TINY, URN, Recurrent, planted
from windtunnel.errors import InputError
from windtunnel.mechanism import evidence_flip, exchangeability, patch, roles
from windtunnel.mechanism.worlds import exchange, flip
from windtunnel.tunnels import HMM, Bijection


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, RECALL, NOISY, URN], ids=str)
def test_exchanged_worlds_have_the_same_belief_and_other_inputs(tunnel):
    episodes = tunnel.sample(20)
    step = tunnel.readouts // 2 + 1 if tunnel.readouts > 3 else 1
    edited = exchange(tunnel, episodes, step)
    moved = edited.episodes.posterior
    if edited.rename is not None:
        moved = moved.gather(2, edited.rename[:, None, :].expand_as(moved))
        assert not torch.allclose(edited.episodes.posterior, episodes.posterior, atol=1e-3)
    chosen = edited.lag >= 0
    assert torch.allclose(moved[chosen], episodes.posterior[chosen], atol=1e-12) and chosen.any()
    same_features = episodes.inputs.features is None or torch.equal(
        episodes.inputs.features, edited.episodes.inputs.features
    )
    assert not (same_features and torch.equal(episodes.inputs.tokens, edited.episodes.inputs.tokens))


@pytest.mark.parametrize("tunnel", [TINY, ONCE, AGAIN, RECALL, NOISY, URN], ids=str)
def test_a_flip_changes_only_what_it_says(tunnel):
    episodes = tunnel.sample(20)
    edited = flip(tunnel, episodes, 1)
    before, after = episodes.inputs.tokens, edited.episodes.inputs.tokens
    differ, chosen = before != after, edited.lag >= 0
    assert differ.any(1).all() and chosen.any()
    if tunnel.readouts > 2:
        for i in range(20):  # what lies before the first compared readout's evidence is untouched
            last = int(edited.episodes.inputs.readout[chosen[i].nonzero().max()]) if chosen[i].any() else 0
            kind = int(differ[i, : last + 1].sum())
            assert kind == 1 or (tunnel == AGAIN and kind >= 1) or not chosen[i].any()
    assert torch.equal(edited.episodes.posterior, tunnel.episodes(edited.episodes.latent).posterior)
    changed = (edited.episodes.posterior - episodes.posterior).abs().sum(-1) > 1e-9
    assert changed[chosen].any() and (tunnel != TINY or not changed[:, 0].any())
    if isinstance(tunnel, Bijection):
        assert (edited.episodes.latent["permutation"].sort(1).values == torch.arange(tunnel.symbols)).all()


def test_a_flip_is_followed_only_until_a_second_thing_differs():
    tunnel = Bijection(symbols=3, length=7, replacement=True)  # every key comes up, so the partner does too
    episodes = tunnel.sample(40)
    edited = flip(tunnel, episodes, 0)
    keys, shown = episodes.latent["keys"], episodes.latent["values"] != edited.episodes.latent["values"]
    for i, k in (edited.lag >= 0).nonzero().tolist():
        assert set(keys[i, :k][shown[i, :k]].tolist()) == {int(keys[i, 0])}
    assert ((edited.lag[:, 1:] < 0).any(1) & (edited.lag[:, 1:] >= 0).any(1)).any()


def test_a_tunnel_without_edits_says_so():
    fixed = HMM(states=2, symbols=2, length=3, header=None, transition=((0.5, 0.5),) * 2, emission=((0.5, 0.5),) * 2)
    with pytest.raises(InputError, match="header = None"):
        exchange(fixed, fixed.sample(2), 1)
    with pytest.raises(InputError, match="no evidence flip is defined"):
        flip(object(), fixed.sample(2), 1)


@pytest.mark.parametrize("step", [-1, 5, 1.5, "last"])
def test_a_step_that_there_is_not_is_refused(step):
    model, drawn = planted(Recurrent), TINY.sample(4)
    for ask in (
        partial(evidence_flip, steps=[step]),
        *(partial(f, step=step) for f in (exchangeability, patch, roles)),
    ):
        with pytest.raises(InputError, match=r"step = .*: must be a whole number from 0 to 4"):
            ask(model, TINY, drawn, [])
