"""An accuracy above that of the exact belief is luck or foul play: a score says which it cannot be."""

from __future__ import annotations

import pytest
import torch

from tests.fidelity.toys import Reads, Shown
from windtunnel.fidelity import evaluate
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.score import OUT_OF_REACH
from windtunnel.tunnels import HMM


class Prophet:
    """Sees the labels of the episodes it is scored on, some of the time."""

    def __init__(self, tunnel, knows: float) -> None:
        self.tunnel, self.knows = tunnel, knows

    def log_probs(self, inputs):
        episodes = self.tunnel.sample(len(inputs), seed=1, stream="test")
        told = torch.rand(episodes.labels.shape, generator=torch.Generator().manual_seed(0)) < self.knows
        truth = torch.nn.functional.one_hot(episodes.labels, self.tunnel.classes).double()
        return torch.where(told[..., None], truth, episodes.posterior).clamp_min(1e-9).log().log_softmax(-1)


class Always:
    def __init__(self, q) -> None:
        self.q = q

    def log_probs(self, inputs):
        return self.q.log().expand(len(inputs), len(inputs.readout), -1)


def test_an_accuracy_out_of_reach_is_told():
    tunnel = Shown()
    score = evaluate(Prophet(tunnel, 0.5), tunnel, episodes=500, chunk=500)
    assert score.out_of_reach and str(score).splitlines()[-1].strip() == OUT_OF_REACH
    several = evaluate([Reads(), Prophet(tunnel, 0.5)], tunnel, episodes=500, chunk=500)
    assert several.out_of_reach  # one of them is enough
    for knows, episodes in ((0.0, 500), (0.02, 500), (1.0, 5)):  # chance could do as much
        assert not evaluate(Prophet(tunnel, knows), tunnel, episodes=episodes, chunk=500).out_of_reach
    sure = evaluate(Prophet(tunnel, 1.0), tunnel, episodes=500, chunk=500, where="unsure", positions=[1, 2])
    assert sure.out_of_reach
    lucky = evaluate(
        Uniform(4), tunnel, episodes=500, where=lambda episodes: episodes.posterior.argmax(-1) != episodes.labels
    )
    assert lucky.accuracy.mean > 0.2 and lucky.exact_accuracy == 0.0 and not lucky.out_of_reach
    assert OUT_OF_REACH not in str(lucky)


@pytest.mark.parametrize("seed", range(5))
def test_luck_that_a_whole_sequence_shares_is_within_reach(seed):
    """Nothing is known and nothing moves: a guess is right all along or never, so sequences count, not readouts."""
    still, blind = ((1.0, 0.0), (0.0, 1.0)), ((0.5, 0.5), (0.5, 0.5))
    tunnel = HMM(states=2, symbols=2, length=50, header=None, transition=still, emission=blind)
    guess = [Always(torch.tensor([0.6, 0.4]).double()), Always(torch.tensor([0.4, 0.6]).double())]
    score = evaluate(guess, tunnel, episodes=200, seed=seed)
    assert score.exact_accuracy == 0.5 and not score.out_of_reach
