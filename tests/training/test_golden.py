"""Golden losses: a change that is not meant to alter training must not.  `make_golden.py` says when to renew them."""

from __future__ import annotations

import json

import pytest

from tests.training.make_golden import CASES, GOLDEN, STEPS, first_losses, golden_recipe

RECORD = json.loads(GOLDEN.read_text())


def test_every_case_has_its_golden_losses():
    assert RECORD.keys() == CASES.keys()
    assert {len(losses) for losses in RECORD.values()} == {STEPS}


@pytest.mark.parametrize("case", CASES)
def test_the_first_losses_are_golden(case):
    assert first_losses(golden_recipe(case)) == pytest.approx(RECORD[case], rel=1e-3)


def test_golden_losses_see_a_slightly_different_training():
    """A learning rate 5% higher is told apart; otherwise the guard would sleep."""
    changed = first_losses(golden_recipe("mlp-full", lr=5.25e-3))
    assert changed != pytest.approx(RECORD["mlp-full"], rel=1e-3)
