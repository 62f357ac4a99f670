"""A belief that is a distribution and still wrong is refused in one line; an exact one never is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

import windtunnel as wt
from tests.tunnels.test_checking import belief, faulty
from windtunnel.errors import InputError
from windtunnel.tunnels import HMM, Bijection, Episodes, Inputs, Recall, Source, Tunnel, Urn, truth


@dataclass(frozen=True)
class Dice(Tunnel):
    """One of three dice, each loaded on its own side, thrown a few times: which is it?"""

    length: int = 5
    fault: str = ""

    @property
    def vocabulary(self) -> int:
        return 6

    @property
    def feature_width(self) -> int:
        return 0

    @property
    def classes(self) -> int:
        return 3

    @property
    def positions(self) -> int:
        return self.length

    @property
    def readouts(self) -> int:
        return self.length

    @property
    def primitives(self) -> tuple[str, ...]:
        return ("accumulation",)

    @property
    def hypotheses_log2(self) -> float:
        return math.log2(3)

    def sides(self) -> Tensor:
        return torch.full((3, 6), 0.1, dtype=torch.float64) + 0.4 * torch.eye(3, 6, dtype=torch.float64)

    def draw(self, source: Source) -> dict[str, Tensor]:
        die = source.integers(0, 3)
        chance = source.uniform(1, self.length)
        return {"die": die, "throws": (chance[..., None] > self.sides()[die].cumsum(-1)).sum(-1).clamp_max(5).T}

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        evidence = self.sides().log().T[latent["throws"]]
        found = evidence.cumsum(1)
        if self.fault == "half the evidence":
            found = found / 2
        elif self.fault == "hindsight":
            found = evidence.sum(1, keepdim=True).expand_as(found)
        elif self.fault == "last throw":
            found = evidence
        elif self.fault == "last three throws":
            found = found - found.roll(3, 1) * (torch.arange(self.length) >= 3)[:, None]
        inputs = Inputs(latent["throws"], None, torch.arange(self.length))
        labels = latent["die"][:, None].expand_as(latent["throws"])
        return Episodes(inputs, labels, found.softmax(-1).to(dtype), dict(latent))


FOLLOW = "must be P\\(label \\| inputs up to the readout\\), exactly$"
WRONG = {
    "half the evidence": r"posterior = a belief that labels do not follow at readout \d: a sharper one, its power of "
    rf"2, predicts those of 4,096 episodes better, by 0\.\d+ bits each: {FOLLOW}",
    "hindsight": r"posterior = \[.*\] at readout 0 of episode \d+ and \[.*\] of episode \d+, whose inputs are equal up "
    "to there: must be the same: a belief rests on what has been shown, not on what comes later or is hidden$",
    "last throw": r"posterior = .* at readout 1: adding up the labels of equal inputs predicts those of [\d,]+ "
    rf"episodes better, by 0\.\d+ bits each: {FOLLOW}",
    "last three throws": r"posterior = .* at readout [34]: adding up the labels of equal inputs predicts those of "
    rf"[\d,]+ episodes better, by 0\.\d+ bits each: {FOLLOW}",
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_belief_is_refused_in_one_line(fault):
    with pytest.raises(InputError, match=f"^tunnel Dice: {WRONG[fault]}") as error:
        wt.tunnels.check(Dice(fault=fault))
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"^tunnel Dice: posterior = "):
        wt.train(Dice(fault=fault), "mlp", steps=1, device="cpu", params=2000)


def test_the_right_one_is_taken_and_told():
    told = wt.tunnels.check(Dice())
    assert told.startswith("ok: Dice keeps its promises; labels of 4,096 episodes") and "pairs of equal inputs" in told
    assert "hindsight not tested, as no two inputs are equal" in wt.tunnels.check(HMM())


def test_a_belief_made_of_weights_is_taken():
    weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    assert wt.tunnels.check(faulty(belief(lambda p: weight.to(p.dtype) * p))).startswith("ok")


def squared(p: Tensor) -> Tensor:
    return p**2 / (p**2).sum(-1, keepdim=True)


def leaning(p: Tensor) -> Tensor:
    p = p * torch.where(torch.arange(p.shape[-1]) == 2, 1.5, 1.0).to(p)
    return p / p.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("change", "base", "told"),
    [
        (squared, HMM, "a flatter one, its power of 0.5"),
        (leaning, Urn, "class 2 came up"),
        (lambda p: torch.cat([p[:, :1], p[:, :-1]], 1), HMM, "a flatter one"),
    ],
    ids=["overconfident", "leaning", "a step behind"],
)
def test_where_inputs_never_repeat_too(change, base, told):
    with pytest.raises(InputError, match=f"^tunnel Own: posterior = a belief that labels do not follow at .*{told}"):
        wt.tunnels.check(faulty(belief(change), base))


def test_features_tell_inputs_apart():
    """The header of an HMM is in the features; without them all episodes would look alike up to the first row."""
    seen = truth._seen(HMM(states=2, symbols=2, length=1).sample(50))
    assert truth._same_inputs(seen) == [None]
    assert seen.features is not None
    alike = truth._same_inputs(seen._replace(features=np.zeros_like(seen.features)))
    assert alike[0] is not None and len(np.unique(alike[0])) == 2  # by the one observation


EXTREMES = [
    Urn(length=3, concentration=1e-300),
    Urn(length=3, concentration=1e30),
    Urn(symbols=2, length=1),
    Bijection(symbols=2, length=1),
    Bijection(symbols=3, length=12, replacement=True, layout="paper"),
    Bijection(symbols=100, length=100),
    Recall(pairs=1, queries=1, keys=1, values=2, filler=0),
    Recall(pairs=3, queries=2, keys=5, values=5, noise=1e-6, repeats=2),  # what is never seen to happen
    Recall(pairs=4, queries=2, keys=5, values=5, noise=0.9, mixed=True),
    HMM(states=2, symbols=2, length=4, concentration=1e-300),
    HMM(dynamics="rotating", mixing=(1.0, 1.0), predict="symbol"),
    HMM(prior="released", header="tokens", length=5),
    HMM(
        states=2,
        symbols=2,
        length=6,
        header=None,
        transition=((0.0, 1.0), (1.0, 0.0)),
        emission=((1.0, 0.0), (1e-9, 1 - 1e-9)),
    ),
]


@pytest.mark.parametrize("tunnel", EXTREMES, ids=str)
def test_an_exact_belief_passes_however_extreme(tunnel):
    assert wt.tunnels.check(tunnel).startswith("ok: ")


def test_a_slow_tunnel_is_asked_less(monkeypatch):
    """By time, so that the check stays a matter of a second or two for any tunnel."""
    monkeypatch.setattr(truth, "SECONDS", 0.0)
    assert "labels of 64 episodes" in wt.tunnels.check(Dice())
