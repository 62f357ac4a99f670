"""The learning rate of every step, and the ladder, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from windtunnel.training import Schedule
from windtunnel.training.schedule import ladder_steps, rate_table


def rates(steps: int, **options) -> list[float]:
    return rate_table(Schedule(**options), steps).tolist()


def test_warm_up_rises_in_a_line_and_is_over_at_step_warmup():
    assert rates(6, warmup=3, decay="none") == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_no_warm_up_starts_at_the_peak():
    assert rates(3, warmup=0, decay="none") == [1.0, 1.0, 1.0]


def test_linear_fall_over_all_steps():
    assert rates(4, warmup=0, decay="linear") == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_linear_fall_over_the_last_half_down_to_a_floor():
    expected = [1, 1, 1, 1, 1, 0.8, 0.6, 0.4]  # falls over steps 4 to 8 towards 0.2
    assert rates(8, warmup=0, decay="linear", decay_share=0.5, floor=0.2) == pytest.approx(expected)


def test_cosine_fall():
    expected = [0.5 * (1 + math.cos(math.pi * step / 8)) for step in range(8)]
    assert rates(8, warmup=0, decay="cosine") == pytest.approx(expected)
    assert rates(8, warmup=0, decay="cosine", floor=0.1)[4] == pytest.approx(0.1 + 0.9 * 0.5)


def test_warm_up_and_fall_multiply():
    assert rates(4, warmup=1, decay="linear") == pytest.approx([0.5, 0.75, 0.5, 0.25])


def test_a_share_of_zero_never_falls():
    assert rates(3, warmup=0, decay="cosine", decay_share=0.0) == [1.0, 1.0, 1.0]


def test_one_step_is_taken_at_the_peak():
    assert rates(1, warmup=0, decay="linear") == [1.0]
    assert rates(1, warmup=0, decay="cosine", decay_share=0.1) == [1.0]


def test_no_step_is_wasted_at_rate_zero_and_the_table_is_float32():
    table = rate_table(Schedule(warmup=100, decay="linear"), 1000)
    assert table.dtype == torch.float32 and table.shape == (1000,)
    assert float(table.min()) > 0 and float(table.max()) <= 1


@pytest.mark.parametrize(
    ("steps", "rungs", "expected"),
    [
        (1000, 4, [1, 10, 100, 1000]),
        (1000, 2, [1, 1000]),
        (1000, 1, [1000]),
        (1000, 0, [1000]),
        (1, 12, [1]),
        (3, 12, [1, 2, 3]),
        (100, 5, [1, 3, 10, 32, 100]),
    ],
)
def test_ladder(steps, rungs, expected):
    assert ladder_steps(steps, rungs) == expected


@pytest.mark.parametrize("steps", [7, 999, 6000, 123_457])
@pytest.mark.parametrize("rungs", [2, 12, 50])
def test_a_ladder_is_sorted_ends_at_the_last_step_and_has_no_step_twice(steps, rungs):
    found = ladder_steps(steps, rungs)
    assert found == sorted(set(found)) and found[0] == 1 and found[-1] == steps and len(found) <= rungs
