"""The reliability table and the strata of entropy, against tables computed by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.fidelity.toys import Reads, Shown, tempered
from windtunnel.fidelity.calibration import ENTROPY_BINS, RELIABILITY_BINS, entropy_stratum, reliability_bin
from windtunnel.fidelity.evaluate import evaluate


@dataclass(frozen=True)
class Coin(Shown):
    """Every belief is (0.7, 0.3); at readout 0 a point mass."""

    classes: int = 2
    readouts: int = 3

    def draw(self, source):
        latent = super().draw(source)
        belief = torch.tensor([[1.0, 0.0], [0.7, 0.3], [0.7, 0.3]], dtype=torch.float64)
        return latent | {"belief": belief.expand(len(source.episodes), 3, 2)}


def states(first: float) -> Reads:
    """Always states the same probability of class 0."""
    return Reads(lambda p: torch.tensor([first, 1 - first], dtype=p.dtype).log().expand_as(p))


def test_bins_cover_the_unit_interval():
    q = torch.tensor([0.0, 0.066, 0.067, 0.5, 0.999, 1.0, 1.0 + 1e-12], dtype=torch.float64)
    assert reliability_bin(q).tolist() == [0, 0, 1, 7, 14, 14, 14]


def test_point_masses_are_a_stratum_of_their_own():
    entropy = torch.tensor([0.0, 1e-15, 0.01, 1.0, 1.99, 2.0, 2.0 + 1e-12], dtype=torch.float64)
    assert entropy_stratum(entropy, classes=4).tolist() == [0, 0, 1, 5, 8, 8, 8]


def test_reliability_by_hand():
    """Stated 0.9 and 0.1: at readout 0 the truth is 1 and 0, elsewhere 0.7 and 0.3."""
    calibration = evaluate(states(0.9), Coin(), episodes=50, positions=[0, 1]).calibration
    rows = {round(r["model"], 6): r for r in calibration.rows()}
    assert set(rows) == {0.1, 0.9}
    assert rows[0.9]["count"] == 100
    assert rows[0.9]["exact"] == pytest.approx(0.85)
    assert rows[0.1]["exact"] == pytest.approx(0.15)
    assert rows[0.9]["low"] <= 0.9 < rows[0.9]["high"]
    assert calibration.expected_error == pytest.approx(0.05)


def test_the_exact_belief_is_calibrated_and_sharper_ones_are_not():
    sharp, blunt = (evaluate(tempered(power), Shown(), episodes=2000).calibration for power in (2.0, 0.5))
    assert evaluate(Reads(), Shown(), episodes=2000).calibration.expected_error < 1e-15
    top, bottom = sharp.model[0] > 0.8, sharp.model[0] < 0.1
    assert (sharp.exact[0][top] < sharp.model[0][top]).all()  # overconfident: says more than it should when sure …
    assert (sharp.exact[0][bottom] > sharp.model[0][bottom]).all()  # … and less when it rules out
    top = blunt.model[0] > 0.6
    assert (blunt.exact[0][top] > blunt.model[0][top]).all()


def test_opposite_faults_of_two_networks_do_not_cancel():
    """0.72 is 0.02 too high and 0.68 as much too low, in one bin: pooled, the pair would look perfect."""
    calibration = evaluate([states(0.72), states(0.68)], Coin(), episodes=10, positions=[1, 2]).calibration
    assert calibration.expected_error_per_seed == pytest.approx([0.02, 0.02])
    assert calibration.expected_error == pytest.approx(0.02)
    for row in calibration.rows():
        assert row["model"] == pytest.approx(row["exact"])


def test_strata_by_hand():
    by_entropy = evaluate(states(0.5), Coin(), episodes=40).by_entropy
    certain, coin = by_entropy.rows()
    half_entropy = -0.7 * math.log2(0.7) - 0.3 * math.log2(0.3)
    assert (certain["share"], coin["share"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (certain["low_bits"], certain["high_bits"]) == (0.0, 0.0)
    assert coin["low_bits"] <= half_entropy < coin["high_bits"]
    assert (certain["kl_bits"], certain["entropy_mae_bits"], certain["tv"]) == pytest.approx((1.0, 1.0, 0.5))
    assert (coin["kl_bits"], coin["entropy_mae_bits"]) == pytest.approx((1 - half_entropy, 1 - half_entropy))
    assert coin["tv"] == pytest.approx(0.2)


def test_strata_add_up_to_the_score():
    score = evaluate([tempered(0.5), tempered(1.5)], Shown(), episodes=500, where="sure")
    for name in ("kl_bits", "entropy_mae_bits", "tv"):
        per_seed = np.nansum(score.by_entropy.share * getattr(score.by_entropy, name), axis=1)
        assert per_seed == pytest.approx(getattr(score, name).per_seed, rel=1e-12)
    assert score.by_entropy.kl_bits.shape == (2, 1 + ENTROPY_BINS)
    assert score.calibration.count.shape == (2, RELIABILITY_BINS)
