"""Synthetic ladders with known times, and a real one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.cases import tiny
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.geometry import Measurement, Missing
from windtunnel.geometry import dynamics as pure
from windtunnel.geometry.gather import CHUNK
from windtunnel.geometry.ladder_survey import _dissociation, dynamics
from windtunnel.mechanism import inspect
from windtunnel.training import Run, train
from windtunnel.tunnels import Bijection

STEPS = np.concatenate([[0], np.unique(np.logspace(0, 5, 60).astype(int))])


def rising(half_time: float) -> np.ndarray:
    """Starts at 0.2, reaches half way after `half_time` steps, 95% after 19 times that."""
    return 0.2 + 0.8 * STEPS / (STEPS + half_time) * (STEPS[-1] + half_time) / STEPS[-1]


@pytest.mark.parametrize("half_time", [10.0, 100.0, 700.0])
def test_settling_time_of_a_known_curve(half_time):
    share = 0.95 * STEPS[-1] / (STEPS[-1] + half_time)  # progress is normalised to 1 at the last rung
    wanted = half_time * share / (1 - share)
    assert pure.settling_step(STEPS, rising(half_time)) == pytest.approx(wanted, rel=0.05)
    assert pure.settling_step(STEPS, 5.0 - rising(half_time)) == pytest.approx(wanted, rel=0.05)  # falling, as KL does


def test_a_curve_that_comes_early_and_leaves_again_has_not_settled():
    curve = np.array([0.0, 0.99, 0.2, 1.0])
    assert 100 < pure.settling_step(np.array([0, 10, 100, 1000]), curve) < 1000


def test_interpolation_between_rungs_is_linear_in_log_steps():
    found = pure.settling_step(np.array([9, 99, 999]), np.array([0.0, 0.9, 1.0]))
    assert math.log10(found + 1) == pytest.approx(2.5)


def test_what_never_moved_has_no_time():
    assert math.isnan(pure.settling_step(np.array([0, 1, 2]), np.ones(3)))


def test_a_planted_dissociation_is_measured_and_an_absent_one_is_not():
    attention = np.array([[pure.settling_step(STEPS, rising(h)) for h in (20, 22, 25, 18)] for _ in range(9)])
    values = np.array([[pure.settling_step(STEPS, rising(h)) for h in (200, 190, 230, 240)] for _ in range(9)])
    apart = _dissociation(attention, values)
    assert apart.value == pytest.approx(1.0, abs=0.1) and apart.over == "seeds"
    assert apart.p_value is not None and apart.p_value < 0.03
    few = _dissociation(attention[:3], values[:3])  # 12 layers, but three networks: eight ways to exchange the names
    assert few.p_value is not None and few.p_value > 0.15
    together = _dissociation(attention, attention[:, ::-1])
    assert abs(together.value) < 1e-12 and together.p_value is not None and together.p_value > 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path: Path = tmp_path_factory.mktemp("runs") / "run"
    return train(recipe=tiny(Bijection(symbols=4, length=4), steps=8, ladder=4, seeds=(0, 1)), out=path, device="cpu")


def test_a_run_has_a_time_for_each_part_and_a_dissociation(run):
    records = {record.name: record for record in dynamics(run, run.tunnel.sample(16, stream="test"))}
    for kind in ("attention", "values", "residual", "KL"):
        found = records[f"{kind} settled at 95%"]
        assert isinstance(found, Measurement) and found.over in ("seeds", "one seed")
        assert 0 <= found.value <= 8
        curve = found.arrays["curve, seed 0"]
        if kind != "KL":
            assert curve.shape == (2, len(run.ladder(0)))
            np.testing.assert_allclose(curve[:, -1], 1.0)  # the last rung is like itself
            assert curve[:, 0].max() < 0.9999
    assert "frame–precision dissociation" in records


def test_the_kl_of_a_rung_passes_the_door_of_all_predictions(run, monkeypatch):
    """In passes of a few episodes; and what is no distribution is refused, not scored."""
    asked, whole = [], models.SequenceModel.log_probs

    def counted(self, inputs, tap=None):
        asked.append(len(inputs))
        return whole(self, inputs, tap)

    monkeypatch.setattr(models.SequenceModel, "log_probs", counted)
    episodes = run.tunnel.sample(2 * CHUNK + 1, stream="test")
    (found,) = [one for one in dynamics(run, episodes) if one.name == "KL settled at 95%"]
    assert isinstance(found, Measurement) and max(asked) == CHUNK
    with torch.no_grad():
        at_once = kl_bits(episodes.posterior, run.model(0).log_probs(episodes.inputs).double()).mean()
    assert found.arrays["curve, seed 0"][0, -1] == pytest.approx(float(at_once), rel=1e-5)
    monkeypatch.setattr(models.SequenceModel, "log_probs", lambda self, inputs: whole(self, inputs) + 1)
    with pytest.raises(InputError, match="logsumexp is off by 1"):
        dynamics(run, episodes)


def test_runs_without_a_ladder_say_so(run):
    episodes = run.tunnel.sample(4)
    (found,) = dynamics(train(recipe=tiny(steps=2), device="cpu"), episodes)
    assert isinstance(found, Missing) and "out=" in found.reason
    bare = train(recipe=tiny(steps=2, ladder=0), out=run.path.parent / "bare", device="cpu")
    (found,) = dynamics(bare, episodes)
    assert isinstance(found, Missing) and "at least 3" in found.reason


def test_a_survey_of_a_run_names_its_seeds(run):
    found = inspect(run, episodes=8, untrained=2, only=["lens", "dynamics"])
    assert {entry.seed for entry, _ in found.measurements("lens")} == {0, 1}
    assert any("settled" in measured.name for _, measured in found.measurements("dynamics"))
