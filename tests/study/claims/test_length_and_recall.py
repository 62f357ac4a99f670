"""Length and recall: what a test of theirs says when a control, a budget or a seed fails."""

from __future__ import annotations

import pytest

from tests.study.planted import Planted, around, values
from tests.study.plants import (
    PLANTS,
    accuracy,
    capacity,
    late_off,
    length,
    mamba_recall,
    no_recall,
    slowly,
)
from windtunnel.study.claims import claim
from windtunnel.study.verdict import INCONCLUSIVE, NOT, REPRODUCED


def test_late_attention_off_fails_where_a_uniform_guess_does():
    """Complete failure, a uniform guess, is failure, though the published number is far above it."""
    p = Planted()
    late_off(50, "above", 0.26)(p, "yes")
    found = claim("late-off-50").judge(p.evidence())
    assert found.outcome == REPRODUCED and found.line == pytest.approx(0.26)
    told = " | ".join(found.reasons)
    assert "layers 7 and 8 (the top 2 of 9) off" in told and "against the published 1.79 bits: not reproduced" in told


def test_how_far_other_networks_filter_is_told_beside():
    p = Planted()
    PLANTS["length-200"](p, "no")
    p.score("hmm-mamba", "entropy_mae_bits", values(0.029, "below", "yes"), "length-200-beyond")
    assert claim("length-200").judge(p.evidence()).reasons[0].startswith("hmm-transformer, ")
    assert claim("length-200").judge_elsewhere(p.evidence())["hmm-mamba"].outcome == REPRODUCED


def test_positions_beyond_the_trained_length_are_a_claim_of_their_own():
    p = Planted()
    length(50, 0.029)(p, "yes")
    length(50, 0.029, "-beyond")(p, "no")
    assert claim("length-50").judge(p.evidence()).outcome == REPRODUCED
    assert claim("length-50-alone").judge(p.evidence()).outcome == NOT


@pytest.mark.parametrize(("name", "which"), [("length-50", ""), ("length-50-alone", "-beyond")])
def test_learned_positions_are_a_control(name, which):
    p = Planted()
    length(50, 0.029, which)(p, "yes")
    p.score("hmm-transformer-9x256-learned", "entropy_mae_bits", values(0.029, "below", "no"), f"length-50{which}")
    assert claim(name).judge(p.evidence()).words == "reproduced only without a position embedding"


def test_late_attention_of_a_smaller_network_where_that_of_the_shape_was_not_looked_at():
    p = Planted()
    late_off(50, "above", 0.26)(p, "yes")
    p.cells["hmm-transformer"] = p.cells.pop("hmm-transformer-9x256")
    found = claim("late-off-50").judge(p.evidence())
    assert found.outcome == REPRODUCED and found.reasons[-1] == "the paper's network has 9 layers"


def test_a_control_that_fails_at_home_tells_nothing_about_length():
    p = Planted()
    length(50, 0.029)(p, "yes")
    del p.cells["hmm-transformer-9x256-learned"]
    p.score("hmm-transformer-paper", "entropy_mae_bits", values(0.029, "below", "no"), "home", "length-50")
    assert claim("length-50").judge(p.evidence()).words.endswith("our budget is too short to tell")


def test_failing_to_recall_at_one_budget_leaves_it_open_until_more_was_tried():
    p = Planted()
    accuracy("recall-mamba", "above", 0.95)(p, "no")
    found = claim("recall-mamba-accuracy").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and "was not tried" in found.reasons[-1]
    mamba_recall(p, "no")
    accuracy("recall-mamba-long", "above", 0.95)(p, "yes")
    assert (
        claim("recall-mamba-accuracy").judge(p.evidence()).words.endswith("with 4 times the training that is compared")
    )


def test_an_lstm_that_learnt_nothing_shows_nothing_about_recall():
    p = Planted()
    no_recall(p, "no")
    p.share("recall-lstm", "binding", around(-0.3, 0.001))
    found = claim("recall-lstm-accuracy").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and "cannot be distinguished from failed training" in found.reasons[-1]


def test_seeds_that_never_learn_recall_are_counted_and_leave_its_speed_open():
    p = Planted()
    slowly(p, "yes")
    for step in p.cells["recall-mamba-long"]["history"]["3"]:
        step[1] = 8.0
    found = claim("recall-mamba-slowly").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and "in 4 of 5 seeds, after 800 to 800 steps" in " ".join(found.reasons)


def test_a_seed_that_does_not_recall_the_most_pairs_never_got_there_whatever_validation_says():
    """Validation mixes few and many pairs."""
    p = Planted()
    slowly(p, "yes")
    p.score("recall-mamba-long", "accuracy", [0.999, 0.999, 0.37, 0.999, 0.999], scale="linear")
    found = claim("recall-mamba-slowly").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and "in 4 of 5 seeds, after 800 to 800 steps" in " ".join(found.reasons)


def test_an_accuracy_that_falls_apart_over_seeds_is_told_seed_by_seed():
    p = Planted()
    mamba_recall(p, "no")
    p.score("recall-mamba-long", "accuracy", [0.999, 0.998, 0.37], scale="linear")
    found = claim("recall-mamba-accuracy").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and (found.value.low, found.value.high) == (0.0, 1.0)
    assert "2 of 3 seeds are above 0.95, the median is 0.998" in " ".join(found.reasons)


def test_a_state_that_does_not_hold_few_pairs_tells_nothing_about_many():
    p = Planted()
    capacity(p, "yes")
    p.score("recall-mamba-long", "accuracy", around(0.8), "pairs-8", scale="linear")
    found = claim("recall-capacity").judge(p.evidence())
    assert found.outcome == INCONCLUSIVE and "has not learnt to recall 8 pairs" in found.reasons[-1]
