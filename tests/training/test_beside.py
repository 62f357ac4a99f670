"""Seeds side by side on a CPU: the numbers that each has alone, no more threads than allowed, no error lost."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.training.cases import SMALL_HMM, VARIANTS, Counts, contents, on_cpu, tiny
from windtunnel.errors import InputError
from windtunnel.training import sitting, train
from windtunnel.training.beside import advance_beside
from windtunnel.training.engine import Engine
from windtunnel.training.halves import SMALLEST
from windtunnel.training.network import Network

LARGE = -(-SMALLEST // SMALL_HMM.positions)  # the smallest batch that is halved


@pytest.fixture
def at_work(monkeypatch):
    """For every step of any network: its seed, the names of the threads that computed a loss, and torch's threads."""
    seen: list[tuple[int, str, int]] = []
    loss = Network._loss

    def watched(self, batch, part=slice(None)):
        seen.append((self.seed, threading.current_thread().name.split("_")[0], torch.get_num_threads()))
        return loss(self, batch, part)

    monkeypatch.setattr(Network, "_loss", watched)
    return seen


@pytest.mark.parametrize("batch", [8, LARGE])
@pytest.mark.parametrize("variant", VARIANTS)
def test_seeds_side_by_side_leave_the_files_they_would_leave_alone(tmp_path, threads, at_work, variant, batch):
    recipe = tiny(SMALL_HMM, variant, seeds=(0, 1, 2), batch=batch, validate_every=2)
    for count in (1, 2, 7):  # one by one; two and one; all three, each with two threads
        threads(count)
        on_cpu(recipe, tmp_path / str(count))
        assert torch.get_num_threads() == count
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "7")
    names = {name for _, name, _ in at_work}
    assert names == {"MainThread", "seed"} | ({"halves"} if batch == LARGE else set())
    assert {count for *_, count in at_work} == {1}  # no operation is split


def test_no_more_are_at_work_than_there_are_threads(threads):
    networks = [Network(tiny(), seed, "cpu") for seed in range(5)]
    threads(2)
    together, most, lock = 0, 0, threading.Lock()
    meet = threading.Barrier(2, timeout=30)  # the first two really are at work at the same time

    def step(network: Network) -> None:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        if network.seed < 2:
            meet.wait()
        with lock:
            together -= 1

    for network in networks:
        network.advance = lambda network=network: step(network)
    advance_beside(networks, 1)
    assert most == 2


@pytest.mark.parametrize(
    ("count", "each"), [(8, [1, 1, 1, 1, 1]), (2, [1, 1, 1, 1, 2]), (12, [2, 2, 2, 2, 2]), (1, [1, 1, 1, 1, 1])]
)
def test_threads_are_shared_out(threads, count, each):
    threads(count)
    networks = [Network(tiny(), seed, "cpu") for seed in range(5)]
    Engine(networks).advance(1)
    assert [network.threads for network in networks] == each
    assert [int(network.step) for network in networks] == [1] * 5


def test_an_error_of_one_is_raised_when_all_have_ended(threads):
    threads(3)
    networks = [Network(tiny(), seed, "cpu") for seed in range(3)]

    def fail() -> None:
        raise ValueError("of seed 1")

    networks[1].advance = fail
    with pytest.raises(ValueError, match="of seed 1"):
        Engine(networks).advance(4)
    assert [int(network.step) for network in networks] == [4, 0, 4]
    assert torch.get_num_threads() == 3


def test_a_seed_that_breaks_is_named_and_the_others_can_go_on(tmp_path, threads, monkeypatch):
    """By the seed whose loss is no number; the other has saved what it had."""
    threads(2)
    recipe, loss = tiny(seeds=(0, 1)), Network._loss
    on_cpu(recipe, tmp_path / "whole")

    def broken(self, batch, part=slice(None)):
        return loss(self, batch, part) * (torch.nan if self.seed == 1 and int(self.step) == 3 else 1)

    with monkeypatch.context() as patch:
        patch.setattr(Network, "_loss", broken)
        with pytest.raises(
            InputError, match=r"^seed 1: the loss was not finite at step 3; the last good checkpoint is step 2; "
        ):
            on_cpu(recipe, tmp_path / "run")
    on_cpu(recipe, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_modules_of_the_user_s_own_go_one_by_one(threads, at_work):
    """They may draw random numbers, which threads would share."""
    threads(3)
    train(SMALL_HMM, Counts, steps=4, batch=8, seeds=3, preset="quick", device="cpu", validation_episodes=8)
    assert [seed for seed, *_ in at_work] == [0] * 4 + [1] * 4 + [2] * 4
    assert {name for _, name, _ in at_work} == {"MainThread"}


def test_a_stop_is_asked_for_about_once_a_second_however_long_a_step_takes(tmp_path, threads, monkeypatch):
    """The first step shows how long one takes; from then on as many are taken at once as fit."""
    threads(2)
    chunks: list[int] = []
    advance = Engine.advance

    def watched(self, steps):
        chunks.append(steps)
        advance(self, steps)

    monkeypatch.setattr(Engine, "advance", watched)
    monkeypatch.setattr(sitting.Stopwatch, "seconds_per_step", lambda self, step: sitting._LOOK_S / 3.5)
    recipe = tiny(seeds=(0, 1), steps=20, validate_every=20, checkpoint_every=20, ladder=1)
    on_cpu(recipe, tmp_path)
    assert chunks == [1, *[3] * 6, 1]
