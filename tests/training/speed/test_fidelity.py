"""Time to fidelity on a world that is learned in a moment."""

from __future__ import annotations

import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from tests.training.cases import Compiling, broken_compiler
from windtunnel.errors import InputError
from windtunnel.fidelity import evaluate
from windtunnel.models.compiled import CompilationFailed
from windtunnel.training import Optimiser, Recipe, Schedule
from windtunnel.training.network import Network
from windtunnel.training.speed import fidelity
from windtunnel.training.speed.fidelity import time_to_fidelity
from windtunnel.tunnels import Bijection

RECIPE = Recipe(
    Bijection(symbols=2, length=2),
    "mlp",
    {"depth": 1, "width": 8},
    Optimiser(lr=0.03, weight_decay=0.0),
    Schedule(warmup=0, decay="none"),
    batch=32,
    steps=300,
    validation_episodes=64,
)


@pytest.fixture(scope="module")
def found():
    return time_to_fidelity(RECIPE, 0, "cpu", (0.3, 0.03, 1e-9), every_s=0.02, confirm_episodes=256)


def test_targets_are_passed_in_order_and_at_once(found):
    assert list(found["passed"]) == ["0.3", "0.03"]
    loose, strict = found["passed"].values()
    assert 0 < loose["seconds"] <= strict["seconds"] <= found["seconds"] and loose["step"] <= strict["step"]
    for target, passed in found["passed"].items():
        before = [kl for _, step, kl in found["curve"] if step < passed["step"]]
        assert passed["confirmed_kl_bits"] <= float(target) and passed["kl_bits"] < 2 * float(target)
        assert all(kl > float(target) for kl in before)


def test_the_curve_is_dense_and_ends_with_the_recipe(found):
    seconds, steps, _ = zip(*found["curve"], strict=True)
    assert steps[-1] == found["steps"] == RECIPE.steps and seconds[-1] == found["seconds"]
    assert len(steps) >= 5 and list(steps) == sorted(set(steps))


def test_a_look_never_spans_two_sizes_of_a_growing_batch():
    growing = RECIPE.with_options(first_batch=4, steps=90, seeds=(0,))
    found = time_to_fidelity(growing, 0, "cpu", (1e-9,), every_s=10.0, confirm_episodes=256)
    looks = [step for _, step, _ in found["curve"]]
    borders = [stage.first_step for stage in growing.stages[1:]]
    assert borders == [22, 45, 68] and {*borders, 90} <= {*looks}
    gaps = [after - before for before, after in pairwise(looks)]
    assert max(gaps) > 4  # they double, as every look is early


def test_it_stops_at_the_last_target():
    found = time_to_fidelity(RECIPE, 0, "cpu", (0.3,), every_s=0.02, confirm_episodes=256)
    assert list(found["passed"]) == ["0.3"]
    assert found["steps"] == found["passed"]["0.3"]["step"] < RECIPE.steps


def test_set_up_and_validation_are_not_on_the_clock(monkeypatch):
    validate = Network.validate
    monkeypatch.setattr(Network, "validate", lambda self: (time.sleep(0.3), validate(self))[1])
    start = time.perf_counter()
    found = time_to_fidelity(RECIPE.with_options(steps=6), 0, "cpu", (1e-9,), every_s=10.0, confirm_episodes=64)
    assert len(found["curve"]) >= 2
    assert found["seconds"] + 0.3 * len(found["curve"]) <= time.perf_counter() - start


def test_an_attempt_that_should_be_compiled_and_is_not_is_none(monkeypatch):
    monkeypatch.setattr(fidelity, "Engine", Compiling)
    monkeypatch.setattr(torch, "compile", broken_compiler)
    with pytest.raises(CompilationFailed, match=r"^not measured.*: no compiler here$"):
        time_to_fidelity(RECIPE, 0, "cpu", (0.3,), every_s=0.02, confirm_episodes=64)


def test_a_lucky_validation_is_not_believed(monkeypatch):
    """The validation score says 0 from the start; more validation episodes know better."""
    monkeypatch.setattr(Network, "validate", lambda self: {"kl_bits": 0.0})
    found = time_to_fidelity(RECIPE.with_options(steps=4), 0, "cpu", (1e-6,), every_s=0.001, confirm_episodes=64)
    assert found["passed"] == {}


def test_the_confirmed_score_is_that_of_the_averaged_weights():
    recipe = RECIPE.with_options(average=0.9, steps=8)
    found = time_to_fidelity(recipe, 0, "cpu", (10.0,), every_s=10.0, confirm_episodes=128)
    network = Network(recipe, 0, "cpu")
    for _ in range(int(found["passed"]["10"]["step"])):
        network.advance()
    model = Network(recipe, 0, "cpu").model
    model.load_state_dict(network.weights())
    for field, stream in (("kl_bits", "test"), ("confirmed_kl_bits", "validation")):  # both of seed 1
        expected = evaluate(model.eval(), recipe.tunnel, episodes=128, stream=stream, seed=1).kl_bits.mean
        assert found["passed"]["10"][field] == expected


def test_the_test_stream_decides_nothing_and_is_asked_once(monkeypatch):
    """Whatever the test stream says, the same targets are passed at the same step; three passes, one question."""
    asked = []

    def judged(model, tunnel, *, stream, **options):
        asked.append(stream)
        kl = 99.0 if stream == "test" else evaluate(model, tunnel, stream=stream, **options).kl_bits.mean
        return SimpleNamespace(kl_bits=SimpleNamespace(mean=kl))

    monkeypatch.setattr(fidelity, "evaluate", judged)
    found = time_to_fidelity(RECIPE, 0, "cpu", (10.0, 9.0, 8.0), every_s=0.02, confirm_episodes=64)
    assert list(found["passed"]) == ["10", "9", "8"] and asked == ["validation", "test"]
    assert all(passed["kl_bits"] == 99.0 for passed in found["passed"].values())


def test_a_network_that_is_no_longer_a_number_stops():
    found = time_to_fidelity(
        RECIPE.with_options(lr=1e30, clip=0.0), 0, "cpu", (1e-9,), every_s=0.001, confirm_episodes=64
    )
    assert found["diverged"] and found["steps"] < RECIPE.steps and found["passed"] == {}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"targets_bits": ()}, "targets"),
        ({"targets_bits": (1e-3, float("nan"))}, "targets"),
        ({"targets_bits": (1e-3, 0.0)}, "targets"),
        ({"every_s": 0.0}, "every_s"),
    ],
)
def test_bad_input(options, field):
    with pytest.raises(InputError, match=field):
        time_to_fidelity(RECIPE, 0, "cpu", **options)
