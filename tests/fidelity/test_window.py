"""How long a memory an exact filter would need to be as far off."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.fidelity.toys import Shown
from windtunnel.errors import InputError
from windtunnel.fidelity import equivalent_window, evaluate, window
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.tunnels import HMM, Bijection


def test_equivalent_window_of_windows_and_of_what_lies_between():
    tunnel = HMM(states=3, symbols=3, length=10)

    def found(predictor, **options) -> float:
        return equivalent_window(evaluate(predictor, tunnel, episodes=300, **options))

    assert found(WindowFilter(tunnel, 2)) == pytest.approx(2.0)
    assert found(WindowFilter(tunnel, 2), seed=5, positions=slice(4, None)) == pytest.approx(2.0)
    assert 4.0 < found(WindowFilter(tunnel, 6)) < 8.0
    assert 2.0 < found(WindowFilter(tunnel, 2, "marginal")) < 4.0
    assert found(Uniform(3)) == 0.0
    assert found(WindowFilter(tunnel, 10)) == math.inf


def test_equivalent_window_interpolates_in_log_kl():
    tunnel = HMM(states=3, symbols=3, length=6)
    ladder = evaluate([WindowFilter(tunnel, w) for w in (2, 3)], tunnel, episodes=300).kl_bits.per_seed
    score = evaluate(WindowFilter(tunnel, 2), tunnel, episodes=300)
    halfway = replace(score, kl_bits=replace(score.kl_bits, mean=math.sqrt(ladder[0] * ladder[1])))
    assert equivalent_window(halfway) == pytest.approx(2.5)


def test_what_is_known_of_a_window_is_not_scored_again(monkeypatch):
    tunnel, asked = HMM(states=3, symbols=3, length=14), {"episodes": 300, "seed": 3, "positions": slice(5, None)}
    known = {0: Uniform(3)} | {window: WindowFilter(tunnel, window) for window in (1, 2, 3, 4, 8)}
    scores = {window: evaluate(one, tunnel, **asked) for window, one in known.items()}
    score = evaluate(WindowFilter(tunnel, 9), tunnel, **asked)
    wanted, tried = equivalent_window(score), []

    def counted(filters, *args, **options):
        tried.extend(one.window for one in filters)
        return evaluate(filters, *args, **options)

    monkeypatch.setattr(window, "evaluate", counted)
    assert 8.0 < wanted < 12.0 and equivalent_window(score, scores) == wanted and tried == [12]
    assert equivalent_window(score, scores | {12: evaluate(WindowFilter(tunnel, 12), tunnel, **asked)}) == wanted
    assert tried == [12]
    with pytest.raises(InputError, match=r"^known\[2\] = .*: must be on the score's own episodes$"):
        equivalent_window(score, {2: evaluate(WindowFilter(tunnel, 2), tunnel, episodes=300, seed=4)})


def test_equivalent_window_needs_an_hmm():
    with pytest.raises(InputError, match="must be an HMM"):
        equivalent_window(evaluate(Uniform(4), Shown(), episodes=10))


@pytest.mark.parametrize("other", [3, HMM(), Uniform(4)], ids=lambda value: type(value).__name__)
def test_equivalent_window_needs_a_score(other):
    with pytest.raises(InputError, match=r"^score = .*: must be a score, from wt\.evaluate$"):
        equivalent_window(other)


class Tilted:
    """The exact filter, made over- or underconfident by the parity of the episode: its entropy gaps nearly cancel."""

    def __init__(self, tunnel):
        self.filter = WindowFilter(tunnel, tunnel.length)

    def log_probs(self, inputs):
        power = torch.where(inputs.tokens.sum(1) % 2 == 0, 1.02, 1 / 1.02)[:, None, None]
        return (self.filter.log_probs(inputs) * power).log_softmax(-1)


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_of_the_curve_error_holds_its_value_near_the_floor(seed):
    tunnel = HMM(length=4)
    curve = evaluate(Tilted(tunnel), tunnel, episodes=1500, seed=seed).curve_mae_bits
    assert curve.mean < 3 * curve.floor  # near the floor, where a replicate's second bias would push the interval off
    assert curve.low <= curve.mean <= curve.high


def test_one_sequence_has_no_interval():
    kl = evaluate(Uniform(5), HMM(length=3), episodes=1).kl_bits
    assert kl.mean > 0 and math.isnan(kl.low) and math.isnan(kl.high)
    assert f"{kl}" == f"{kl.mean:#.3g} (no interval)"


def test_a_network_built_for_other_sizes_is_refused_in_one_line():
    from windtunnel import models

    model = models.build("mlp", Bijection(4, 4), depth=1, width=8)
    with pytest.raises(InputError, match="the model's vocabulary = 8: must be the tunnel's 16"):
        evaluate(model, Bijection(8, 4), episodes=4)
