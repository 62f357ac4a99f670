"""Seeds side by side on a CPU: the numbers that each has alone, no more threads than allowed, no error lost."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch

from tests.training.cases import SMALL_HMM, VARIANTS, Counts, contents, on_cpu, tiny
from windtunnel.errors import InputError
from windtunnel.training import sitting, train
from windtunnel.training.batch_halves import SMALLEST
from windtunnel.training.engine import Engine
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.seed_threads import advance_beside
from windtunnel.tunnels import Bijection, Source

LARGE = -(-SMALLEST // SMALL_HMM.positions)  # the smallest batch that is halved


@pytest.fixture
def at_work(monkeypatch):
    """For every loss that is computed: of which seed, by which kind of thread, and how many torch uses there."""
    seen: list[tuple[int, str, int]] = []
    loss = Network._loss

    def watched(self, batch, part=slice(None)):
        name = threading.current_thread().name
        kind = "main" if name == "MainThread" else name.split("_")[0]
        seen.append((self.seed, kind, torch.get_num_threads()))
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
    assert {count for *_, count in at_work} == {1}  # no operation is split


@pytest.mark.parametrize(("count", "kinds"), [(1, {"main"}), (2, {"seed"}), (3, {"seed"}), (4, {"seed", "halves"})])
def test_no_more_threads_are_at_work_than_are_allowed(tmp_path, threads, at_work, count, kinds):
    threads(count)
    on_cpu(tiny(SMALL_HMM, seeds=(0, 1), batch=LARGE), tmp_path)
    assert {name for _, name, _ in at_work} == kinds


def test_networks_that_have_no_thread_wait(threads):
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
        time.sleep(0.02)
        with lock:
            together -= 1

    for network in networks:
        network.advance = lambda network=network: step(network)
    advance_beside(networks, 2)
    assert most == 2


def test_later_threads_have_the_number_that_this_one_has(threads):
    threads(3)
    Engine([Network(tiny(), seed, "cpu") for seed in range(2)]).advance(1)
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [3]


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


def test_a_seed_that_breaks_is_told_when_the_others_have_come_to_their_end(tmp_path, threads, monkeypatch):
    threads(3)
    recipe, loss = tiny(seeds=(0, 1, 2)), Network._loss
    on_cpu(recipe, tmp_path / "whole")

    def broken(self, batch, part=slice(None)):
        return loss(self, batch, part) * (torch.nan if self.seed == 1 and int(self.step) == 3 else 1)

    with monkeypatch.context() as patch:
        patch.setattr(Network, "_loss", broken)
        with pytest.raises(
            InputError, match=r"^seed 1: the loss was not finite at step 3; the last good checkpoint is step 2"
        ):
            on_cpu(recipe, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert [folder.seed(seed).last_step() for seed in recipe.seeds] == [6, 2, 6]
    on_cpu(recipe, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_second_wish_to_stop_does_not_wait_for_the_steps_that_were_begun(threads):
    """A KeyboardInterrupt in the thread that waits: nobody takes another step."""
    threads(2)
    networks = [Network(tiny(steps=10_000), seed, "cpu") for seed in range(2)]
    begun = threading.Event()
    for network in networks:
        network.advance = lambda: (begun.set(), time.sleep(0.01))
    waits = threading.get_ident()
    threading.Thread(target=lambda: (begun.wait(), signal.pthread_kill(waits, signal.SIGINT))).start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        advance_beside(networks, 2000)
    assert time.monotonic() - before < 10  # of twenty seconds
    deadline = time.monotonic() + 10
    while any(thread.name == "seed" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_modules_of_the_user_s_own_go_one_by_one(threads, at_work):
    """They may draw random numbers, which threads would share."""
    threads(3)
    train(SMALL_HMM, Counts, steps=4, batch=8, seeds=3, preset="quick", device="cpu", validation_episodes=8)
    assert [seed for seed, *_ in at_work] == [0] * 4 + [1] * 4 + [2] * 4
    assert {name for _, name, _ in at_work} == {"main"}


@dataclass(frozen=True)
class Shuffled(Bijection):
    """Keeps every promise of a tunnel, but shuffles with torch's generator, started anew for each episode."""

    def draw(self, source: Source) -> dict[str, torch.Tensor]:
        latent = super().draw(source)
        order = []
        for start in source.bits(900, 1)[0].tolist():
            torch.manual_seed(start)
            order.append(torch.randperm(self.symbols))
        permutation = torch.stack(order)
        return latent | {"permutation": permutation, "values": permutation.gather(1, latent["keys"])}


def test_seeds_in_a_tunnel_of_the_user_s_own_go_one_by_one(threads, at_work):
    threads(3)
    options = {"steps": 3, "batch": 8, "seeds": 2, "params": 2000, "validation_episodes": 8}
    train(Shuffled(4, 4), "transformer", preset="quick", device="cpu", **options)
    assert [seed for seed, *_ in at_work] == [0] * 3 + [1] * 3


def test_a_stop_is_asked_for_about_once_a_second_however_long_a_step_takes(tmp_path, threads, monkeypatch):
    """The first step shows how long one takes; from then on as many are taken at once as fit, however they change."""
    threads(2)
    chunks: list[int] = []
    advance = Engine.advance

    def watched(self, steps):
        chunks.append(steps)
        advance(self, steps)

    @contextmanager
    def stepping(self):
        """A step takes 2/7 of the time between two looks, and from step 11 on twice that."""
        yield
        taken = chunks[-1]
        self.last_s = sitting._LOOK_S * taken / (3.5 if sum(chunks) < 11 else 1.75)
        self.all_step_s += self.last_s

    monkeypatch.setattr(Engine, "advance", watched)
    monkeypatch.setattr(sitting.Stopwatch, "stepping", stepping)
    recipe = tiny(seeds=(0, 1), steps=20, validate_every=20, checkpoint_every=20, ladder=1)
    on_cpu(recipe, tmp_path)
    assert chunks == [1, 3, 3, 3, 3, *[1] * 7]
