"""Where one role alone does the Bayesian step, that role is found necessary, at its place, and no other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.mechanism.planted import Exact, Module, noise, planted
from windtunnel.geometry import Measurement, Missing
from windtunnel.mechanism.chance import DRAWS, rotation
from windtunnel.mechanism.losses import TURNED, UNTRAINED
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.models import touch
from windtunnel.tunnels import HMM, Inputs
from windtunnel.tunnels.filtering import likelihoods, push

PARTS = {"routing": "attention.out", "update": "ff.out", "carry": "residual"}
WORLD = HMM(states=3, symbols=3, length=5, dynamics="sticky")  # slow to move: what came before is worth carrying
EPISODES = WORLD.sample(32)

Place = tuple[str, int | str, str]
"""(role, layer, site), as the instrument names them."""


class OneRole(Module):
    """Two layers of one tensor per role, all noise but one, which holds the log-belief in a random subspace (D, C).

    routing, update  the last layer's holds the present belief, and the answer is read from it there and then
    carry            the first layer's stream holds the belief of each step, and the next step starts from it: transport
                     and likelihood are applied to what it finds one position back

    Every tensor is read by `leak` beside, the first stream one position back; so an untrained network (role None) has
    something to lose as well.
    """

    def __init__(self, tunnel: HMM, *, role: str | None, leak: float = 0.0, width: int = 24, seed: int = 0) -> None:
        super().__init__(tunnel)
        self.role, self.leak, self.seed = role, leak, seed
        self.layer = 0 if role == "carry" else 1
        self.basis = rotation(width, 55, seed)[:, : tunnel.classes]

    def forward(self, tokens, features, readout, tap=None):
        inputs = Inputs(tokens, features, readout)
        n, length, width = len(tokens), tokens.shape[1], len(self.basis)
        said = torch.zeros(n, length, self.tunnel.classes, dtype=torch.float64)
        answer = said
        touch(tap, "embed", torch.zeros(n, length, width, dtype=torch.float64))
        for layer in range(2):
            for index, (role, part) in enumerate(PARTS.items()):
                own = (role, layer) == (self.role, self.layer)
                x = noise(inputs, width, 100 * (1 + 10 * self.seed + 3 * layer + index))
                x = self.filtered(inputs) @ self.basis.T if own else x
                read = touch(tap, f"blocks.{layer}.{part}", x) @ self.basis
                if (role, layer) == ("carry", 0):
                    read = F.pad(read, (0, 0, 1, 0))[:, :-1]  # one position back
                if own:
                    answer = self.next_step(inputs, read) if role == "carry" else read
                else:
                    said = said + self.leak * read
        return touch(tap, "logits", (answer + said)[:, readout])

    def filtered(self, inputs: Inputs) -> Tensor:
        """(n, T, C) centred exact log-belief at every observation, 0 in the header."""
        log = Exact(self.tunnel).hmm(inputs).log()
        return F.pad(log - log.mean(-1, keepdim=True), (0, 0, self.tunnel.header_positions, 0))

    def next_step(self, inputs: Inputs, before: Tensor) -> Tensor:
        """One step of the forward algorithm from each log-belief `before` (n, T, C)."""
        transition, emission, shown = self.tunnel.read(inputs)
        transition, emission = transition.double().permute(1, 2, 0), emission.double().permute(1, 2, 0)
        header, after = self.tunnel.header_positions, torch.zeros_like(before)
        for t, seen in enumerate(likelihoods(emission, shown.T)):
            prior = before[:, header + t].softmax(-1).T
            after[:, header + t] = ((push(prior, transition) if t else prior) * seen).T.log().log_softmax(-1)
        return after


def table(network, untrained) -> dict[Place, Measurement]:
    found = INSTRUMENTS["roles"](network, WORLD, EPISODES, untrained)
    assert [one.name for one in found if isinstance(one, Missing)] == ["role: memory"]
    return {tuple(m.where[w] for w in ("role", "layer", "site")): m for m in found if isinstance(m, Measurement)}


UNTRAINED_NETWORKS = [planted(OneRole, WORLD, role=None, leak=0.3, seed=seed) for seed in range(1, 6)]
NEEDED: dict[str, set[Place]] = {
    "routing": {("routing", 1, "at it"), ("routing", "all", "at it")},
    "update": {("update", 1, "at it"), ("update", "all", "at it")},
    "carry": {("carry", 0, "before it"), ("carry", 0, "evidence before it")},
}


@pytest.mark.parametrize("role", NEEDED)
def test_the_one_role_that_is_needed_is_found(role):
    by = table(planted(OneRole, WORLD, role=role, leak=0.01), UNTRAINED_NETWORKS)
    assert NEEDED[role] < set(by) and len(by) == 2 * 3 + 2 * 3 + 3 * 2
    for place in NEEDED[role]:
        m = by[place]
        assert m.low > 0.1 and m.p_value is not None and m.p_value <= 0.05, place
        assert len(m.nulls[TURNED]) == DRAWS and len(m.nulls[UNTRAINED]) == len(UNTRAINED_NETWORKS)
        assert max(m.nulls[TURNED].max(), m.nulls[UNTRAINED].max()) < 0.7 * m.value, place
    for place in set(by) - NEEDED[role]:
        assert abs(by[place].value) < 0.01, place


@pytest.mark.parametrize("role", NEEDED)
def test_without_a_leak_the_other_roles_cost_exactly_nothing(role):
    by = table(planted(OneRole, WORLD, role=role), [])
    idle = [m for place, m in by.items() if place not in NEEDED[role]]
    assert all(m.value == 0.0 == np.abs(m.nulls[TURNED]).max() and m.p_value == 1.0 for m in idle)


def test_what_is_lost_with_the_needed_role_is_all_that_was_known():
    """Only the mean over episodes is left of the answer: the loss is that of answering with the mean log-belief."""
    by = table(planted(OneRole, WORLD, role="routing"), [])
    belief = EPISODES.posterior[:, WORLD.readouts // 2]
    log = belief.log() - belief.log().mean(-1, keepdim=True)
    blunt = log.mean(0).log_softmax(-1)
    lost = (belief * (belief.log() - blunt)).sum(-1).mean() / np.log(2)
    assert by["routing", 1, "at it"].value == pytest.approx(float(lost), rel=1e-6)
