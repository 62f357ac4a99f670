"""The sweep looks beyond its edge, never at the test stream, and never with a final seed."""

from __future__ import annotations

import math

import pytest

from tests.training.cases import tiny
from windtunnel.study.paper_plan import paper
from windtunnel.study.running import sweep
from windtunnel.training import Diverged, Run

GUESS = 8.0


def search(landscape) -> dict[int, float]:
    tried: dict[int, float] = {}
    while (k := sweep.following(tried, GUESS)) is not None:
        assert k not in tried
        tried[k] = landscape(k)
    return tried


def test_a_best_rate_inside_needs_three_trials():
    assert set(search(lambda k: 4.0 ** (abs(k) - 4))) == {-1, 0, 1}


@pytest.mark.parametrize("best", [-3, -2, 2, 3])
def test_a_best_rate_at_the_edge_is_followed(best):
    tried = search(lambda k: 4.0 ** (abs(k - best) - 6))
    assert sweep.choose(tried, GUESS) == best and max(map(abs, tried)) <= sweep.FARTHEST
    if abs(best) < sweep.FARTHEST:
        assert {best - 1, best + 1} <= set(tried)


def test_divergence_loses():
    assert sweep.choose(search(lambda k: math.inf if k >= 0 else 1.0), GUESS) < 0
    assert sweep.choose(search(lambda k: math.inf), GUESS) == 0


def test_rates_and_budget():
    recipe = tiny(steps=5000, lr=1e-3, muon_lr=0.01, warmup=3000, seeds=(0, 1))
    fast = sweep.at_rate(recipe, 1)
    assert fast.optimiser.lr == pytest.approx(3e-3) and fast.optimiser.muon_lr == pytest.approx(0.03)
    brief = sweep.short(recipe)
    assert (brief.steps, brief.schedule.warmup, brief.seeds) == (500, 100, (sweep.SEED,))  # warm-up: at most a fifth


@pytest.mark.parametrize(("steps", "trial"), [(50, 50), (1000, 200), (4000, 400)])
def test_a_trial_is_a_tenth_but_long_enough_to_tell_something(steps, trial):
    recipe = tiny(steps=steps, warmup=steps // 10)
    assert (sweep.short(recipe).steps, sweep.short(recipe).schedule.warmup) == (trial, trial // 10)


def test_rates_that_noise_alone_tells_apart_leave_the_recipe_its_own():
    assert search(lambda k: 8.0 - 0.01 * k) == {0: 8.0, -1: 8.01, 1: 7.99}
    assert sweep.choose({0: 8.0, -1: 8.01, 1: 7.99}, GUESS) == 0


def test_the_lowest_is_followed_beyond_the_edge_though_it_does_not_pay():
    tried = search(lambda k: 0.05 * 0.9**k)
    assert set(tried) == {-1, 0, 1, 2, 3} and sweep.choose(tried, GUESS) == 0


def test_begun_is_measured_from_the_guess_not_from_the_worst_trial():
    """All three have learnt: the price of a step up stands."""
    assert sweep.choose({0: 0.0046, -1: 0.0051, 1: 0.0040}, GUESS) == 0
    assert sweep.choose({0: 7.7, -1: 8.0, 1: 6.3}, GUESS) == 1


def test_a_higher_rate_must_win_clearly():
    """What short trials said of the residual LSTM on the HMM, whose higher rate then did worse."""
    assert sweep.choose({0: 0.0467, -1: 0.0551, 1: 0.0327, 2: 0.0588}, GUESS) == 0
    assert sweep.choose({0: 0.0467, -1: 0.0551, 1: 0.0300, 2: 0.0588}, GUESS) == 1
    assert sweep.choose({0: 0.0101, -1: 0.0097, 1: 0.0487, -2: 0.0388}, GUESS) == -1


def test_the_sweep_reads_the_validation_stream_of_a_seed_that_no_final_run_has():
    recipe, asked = tiny(steps=4000), []

    def spy(recipe, device):
        asked.append(recipe)
        return Run(
            recipe, weights={}, history={sweep.SEED: [{"step": 0, "kl_bits": 9.0}, {"step": 400, "kl_bits": 0.5}]}
        )

    assert sweep.try_rate(recipe, 1, "cpu", spy) == 0.5
    assert asked[0].seeds == (sweep.SEED,) and asked[0].steps == 400
    assert all(sweep.SEED not in cell.recipe.seeds for cell in paper().cells)


def test_a_model_that_gives_no_numbers_from_the_start_is_refused_at_the_first_rate():
    def broken(**options) -> Run:
        raise Diverged("seed 1000: the predictions were not finite before any step", 1000, at_once=True)

    with pytest.raises(Diverged, match="before any step"):
        sweep.try_rate(tiny(steps=10), 0, "cpu", train=broken)


def test_a_diverged_rate_is_infinite():
    def diverge(recipe, device):
        raise Diverged("seed 1000: the loss was not finite", 1000)

    assert sweep.try_rate(tiny(), 0, "cpu", diverge) == math.inf
