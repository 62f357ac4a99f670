"""Which readouts count: named subsets, positions, functions, and several selections in one pass."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from tests.fidelity.toys import ESTIMATES, Shown, tempered
from windtunnel.errors import InputError
from windtunnel.fidelity import evaluate, evaluate_parts
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.tunnels import HMM, Bijection


def test_a_named_subset_and_positions_restrict_the_averages():
    tunnel = Shown()
    score = evaluate(tempered(0.5), tunnel, episodes=200, where="sure", positions=slice(2, 5))
    episodes = tunnel.sample(200, seed=1, stream="test")
    kl = kl_bits(episodes.posterior, torch.log_softmax(0.5 * episodes.posterior.log(), -1))[:, 2:5]
    sure = tunnel.subsets(episodes)["sure"][:, 2:5]
    assert score.kl_bits.mean == pytest.approx(kl[sure].mean().item(), rel=1e-12)  # every selected readout counts once
    assert score.kl_bits.per_position[3] == pytest.approx(kl[:, 1][sure[:, 1]].mean().item(), rel=1e-12)
    assert np.isnan(score.kl_bits.per_position).tolist() == [True, True, False, False, False, True]
    assert np.isnan(score.exact_entropy_curve).tolist() == [True, True, False, False, False, True]
    assert score.subset == "where sure, readouts 2–4"


@pytest.mark.parametrize("positions", [slice(2, 5), (4, 3, 2, 2), range(2, 5), [-4, -3, -2], np.arange(2, 5)])
def test_positions_in_every_form(positions):
    assert evaluate(tempered(0.5), Shown(), episodes=10, positions=positions).positions == (2, 3, 4)


@pytest.mark.parametrize("form", [list, tuple, iter, torch.tensor, np.array])
def test_a_mask_is_no_list_of_positions(form):
    """As numbers its True and False would be the readouts 1 and 0."""
    told = r"^positions = .*: must be a slice or indices that select some of the 6 readouts, 0 to 5, not a mask$"
    for mask in ([True] * 6, [False, False, True, False, False, True]):
        with pytest.raises(InputError, match=told):
            evaluate(tempered(0.5), Shown(), episodes=10, positions=form(mask))
    with pytest.raises(InputError, match=told):
        evaluate(tempered(0.5), Shown(), episodes=10, positions=[2, True])
    assert evaluate(tempered(0.5), Shown(), episodes=10, positions=form([4, 2])).positions == (2, 4)


class Skewed:
    """The same skewed guess everywhere."""

    def __init__(self, classes: int, share: float) -> None:
        self.row = torch.tensor([share, *[(1 - share) / (classes - 1)] * (classes - 1)], dtype=torch.float64).log()

    def log_probs(self, inputs):
        return self.row.expand(len(inputs), len(inputs.readout), -1)


def test_several_selections_in_one_pass_are_the_same_as_one_by_one():
    tunnel, reads = Bijection(symbols=5, length=5, replacement=True), []

    class Counting(Uniform):
        def log_probs(self, inputs):
            reads.append(len(inputs))
            return super().log_probs(inputs)

    subjects = {"alone": Counting(5), "two": [Skewed(5, 0.3), Skewed(5, 0.6)]}
    options = {"episodes": 40, "seed": 3, "chunk": 16, "where": "seen"}
    parts = {"all": None, "late": slice(3, None), "some": [1, 4]}
    found = evaluate_parts(subjects, tunnel, parts, **options)
    assert reads == [16, 16, 8]  # each predictor reads once, however many selections there are
    for part, positions in parts.items():
        for name, subject in subjects.items():
            alone = evaluate(subject, tunnel, positions=positions, **options)
            assert found[part][name].to_dict() == alone.to_dict()
    with pytest.raises(InputError, match=r"positions = \[9\]"):
        evaluate_parts(subjects, tunnel, {"all": None, "none": [9]}, **options)


def test_a_watch_sees_every_chunk_and_what_each_predictor_says_of_it():
    tunnel, seen = Bijection(symbols=5, length=5), []

    class Sees:
        def begin(self, batch):
            self.batch = batch

        def add(self, subject, index, log_q):
            kl = kl_bits(self.batch.posterior, log_q).mean().item()
            seen.append((subject, index, len(self.batch), pytest.approx(kl, abs=1e-12)))

    subjects = {"alone": Uniform(5), "two": [Skewed(5, 0.3), Skewed(5, 0.6)]}
    options = {"episodes": 24, "seed": 3, "chunk": 16}
    assert evaluate_parts(subjects, tunnel, {}, **options, watch=Sees()) == {}  # nothing is scored that nobody asks for
    kl = [evaluate(p, tunnel, episodes=16, seed=3).kl_bits.mean for p in (subjects["alone"], *subjects["two"])]
    who = [("alone", 0), ("two", 0), ("two", 1)]
    assert seen[:3] == [(*one, 16, bits) for one, bits in zip(who, kl)]
    assert [one[:3] for one in seen[3:]] == [(*one, 8) for one in who]


def test_a_function_can_select():
    by_name = evaluate(tempered(0.5), Shown(), episodes=200, where="unsure")
    by_function = evaluate(tempered(0.5), Shown(), episodes=200, where=lambda e: e.posterior.amax(-1) <= 0.5)
    assert by_function.kl_bits.mean == by_name.kl_bits.mean
    assert by_name.kl_bits.mean != evaluate(tempered(0.5), Shown(), episodes=200).kl_bits.mean


def test_a_readout_that_nothing_selects_poisons_no_mean():
    """The first key of a bijection can never have been seen."""
    score = evaluate(Uniform(5), Bijection(symbols=5, length=5, replacement=True), episodes=500, where="seen")
    assert math.isnan(score.kl_bits.per_position[0])
    for name in ESTIMATES:
        estimate = getattr(score, name)
        assert math.isfinite(estimate.mean) and math.isfinite(estimate.low) and math.isfinite(estimate.high)
    assert score.kl_bits.mean == pytest.approx(math.log2(5))
    assert score.curve_mae_bits.mean == pytest.approx(math.log2(5))
    assert score.by_entropy.share[0] == 1.0


@pytest.mark.parametrize("chunk", [30, 7])
def test_a_selection_of_one_sequence_has_no_interval(chunk):
    """It has no spread: all bootstrap replicates that draw it (over a third do not) say the same.  Two have one."""
    for chosen in ([4], [4, 20]):
        numbers = iter(torch.arange(30).split(chunk))

        def some(e, chosen=chosen, numbers=numbers):
            return torch.isin(next(numbers), torch.tensor(chosen))[:, None] & (e.posterior.amax(-1) > 0.3)

        score = evaluate(tempered(0.5), Shown(), episodes=30, where=some, chunk=chunk)
        for name in ESTIMATES:
            estimate = getattr(score, name)
            assert math.isfinite(estimate.mean)
            assert (str(estimate).endswith("(no interval)"), math.isnan(estimate.high)) == (len(chosen) == 1,) * 2
    assert "1 test episode, " in str(evaluate(tempered(0.5), Shown(), episodes=1))


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda mask: mask[:, 0], "torch.bool (6,)"),  # as many episodes as readouts: it would broadcast unseen
        (lambda mask: mask[:, :1], "torch.bool (6, 1)"),
        (lambda mask: mask.long(), "torch.int64 (6, 6)"),
        (lambda mask: mask.numpy(), "ndarray"),
    ],
)
def test_a_subset_that_is_no_mask_is_refused(wrong, found):
    class Own(Shown):
        def subsets(self, episodes):
            return {"sure": wrong(super().subsets(episodes)["sure"])}

    told = rf"^Own\.subsets\(…\)\['sure'\] = '{re.escape(found)}': must be a bool tensor of shape \(6, 6\) \(n, K\)$"
    with pytest.raises(InputError, match=told):
        evaluate(tempered(0.5), Own(), episodes=6, where="sure")


def test_a_tunnel_without_subsets_says_so():
    with pytest.raises(InputError, match="names no subsets"):
        evaluate(Uniform(5), HMM(length=4), episodes=10, where="seen")
