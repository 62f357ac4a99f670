"""Each architecture can represent and reach the exact belief on one batch; the one that must not, does not."""

from __future__ import annotations

import pytest
import torch

from tests.models.cases import TUNNELS, VARIANTS, every_device, every_tunnel
from windtunnel import models
from windtunnel.tunnels import Episodes
from windtunnel.tunnels.information import BITS_PER_NAT

GOAL_BITS = 1e-3


def kl_bits(model, episodes: Episodes) -> torch.Tensor:
    p = episodes.posterior
    return (torch.special.xlogy(p, p) - p * model.log_probs(episodes.inputs)).sum(-1).mean() * BITS_PER_NAT


def fit(model, episodes: Episodes, *, steps: int, lr: float, goal: float = GOAL_BITS) -> float:
    """Adam on the soft targets until the goal or the last step; the KL reached, in bits."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    reached = float("inf")
    for _ in range(steps):
        loss = kl_bits(model, episodes)
        reached = float(loss.detach())
        if reached < goal:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return reached


@every_device
@every_tunnel
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "mlp-position"])
def test_overfits_one_batch(variant, tunnel, device):
    name, options = VARIANTS[variant]
    model = models.build(name, tunnel, depth=2, width=32, **options).to(device)
    episodes = tunnel.sample(8, dtype=torch.float32).to(device)
    assert fit(model, episodes, steps=2000, lr=3e-3 if "transformer" in variant else 1e-2) < GOAL_BITS


def best_without_context(episodes: Episodes) -> float:
    """KL in bits of the best predictor that sees one position: the mean belief of readouts that look alike."""
    inputs, p = episodes.inputs, episodes.posterior
    alike: dict[tuple, list] = {}
    for i in range(len(inputs)):
        for k, position in enumerate(inputs.readout.tolist()):
            look = (position, int(inputs.tokens[i, position]))
            look += () if inputs.features is None else tuple(inputs.features[i, position].tolist())
            alike.setdefault(look, []).append(p[i, k])
    total = 0.0
    for beliefs in alike.values():
        belief = torch.stack(beliefs)
        total += float((torch.special.xlogy(belief, belief) - torch.special.xlogy(belief, belief.mean(0))).sum())
    return total / p.shape[:2].numel() * BITS_PER_NAT


@every_device
@every_tunnel
def test_per_position_mlp_stops_at_its_baseline(tunnel, device):
    model = models.build("mlp", tunnel, context="position", depth=2, width=32).to(device)
    episodes = tunnel.sample(24, dtype=torch.float32)
    floor = best_without_context(episodes)
    assert floor > 0.1  # there is something it cannot know
    reached = fit(model, episodes.to(device), steps=600, lr=1e-2, goal=floor + 1e-3)
    assert floor - 1e-5 <= reached <= floor + 0.01


def test_context_is_all_that_separates_the_two_mlps():
    """The same batch, the other MLP: well below the floor of a single position."""
    tunnel = TUNNELS["bijection-replacement"]
    episodes = tunnel.sample(24, dtype=torch.float32)
    model = models.build("mlp", tunnel, context="full", depth=2, width=32)
    assert fit(model, episodes, steps=2000, lr=1e-2) < GOAL_BITS < best_without_context(episodes)
