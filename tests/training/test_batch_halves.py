"""A batch in two halves: the same gradient as the whole, the same bits on any number of cores, and no thread lost."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from tests.training.cases import SMALL_HMM, VARIANTS, Counts, same, tiny
from windtunnel.training.batch_halves import SMALLEST, in_halves, one_thread, worth_halving
from windtunnel.training.network import Network
from windtunnel.tunnels import HMM

LARGE = -(-SMALLEST // SMALL_HMM.positions)  # the smallest batch that is halved; odd halves too


def network(variant: str = "transformer", **options) -> Network:
    return Network(tiny(SMALL_HMM, variant, batch=LARGE, **options), 0, "cpu")


@pytest.mark.parametrize("supervision", ["labels", "posterior"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_halves_have_the_gradient_of_the_whole(variant, supervision):
    whole, halved = (network(variant, supervision=supervision) for _ in range(2))
    assert halved._halved
    loss, other = whole._backward(), halved._backward_in_halves()
    torch.testing.assert_close(other, loss, rtol=1e-6, atol=1e-7)
    for a, b in zip(whole.parameters, halved.parameters, strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-6)


def test_odd_batches_weigh_every_episode_the_same():
    recipe = tiny(SMALL_HMM, "mlp-full", batch=LARGE + LARGE % 2 + 1)
    whole, halved = (Network(recipe, 0, "cpu") for _ in range(2))
    torch.testing.assert_close(halved._backward_in_halves(), whole._backward(), rtol=1e-6, atol=1e-7)


def test_weights_do_not_depend_on_the_number_of_cores(threads):
    """Large enough that torch would split its operations over four threads, as it would not those of a tiny one."""
    recipe = tiny(HMM(), batch=128, model_options={"depth": 1, "width": 64, "heads": 2})
    states = []
    for count in (1, 2, 3, 4, 8):
        threads(count)
        trained = Network(recipe, 0, "cpu")
        for _ in range(2):
            trained.advance()
        assert torch.get_num_threads() == count
        states.append((trained.state(), trained.validate()))
    assert all(same(state, states[0][0]) and scores == states[0][1] for state, scores in states)


def test_a_restored_network_goes_on_bit_for_bit():
    through, stopped = network(), network()
    for _ in range(4):
        through.advance()
    for _ in range(2):
        stopped.advance()
    going_on = network()
    going_on.restore({name: value.clone() for name, value in stopped.state().items()})
    for _ in range(2):
        going_on.advance()
    assert same(through.state(), going_on.state())


def test_small_batches_own_modules_and_compiled_networks_stay_whole():
    assert worth_halving(LARGE, SMALL_HMM.positions) and not worth_halving(1, 10_000)
    assert not Network(tiny(SMALL_HMM, batch=LARGE - 1), 0, "cpu")._halved
    recipe = tiny(batch=SMALLEST, optimiser="adamw", model_options={})
    assert not Network(recipe, 0, "cpu", Counts)._halved  # it may draw random numbers, which two threads would share
    compiled = network()
    compiled.compile()
    assert not compiled._halved


@pytest.mark.parametrize("threads", [1, 2])
def test_both_halves_run_and_a_failure_in_either_is_told(threads):
    assert in_halves(lambda part: list(range(7))[part], 7, threads) == ([0, 1, 2], [3, 4, 5, 6])

    def fail(at: int):
        def work(part: slice) -> int:
            if part.start == at:
                raise ValueError(f"at {at}")
            return part.start

        return work

    for at in (0, 3):
        with pytest.raises(ValueError, match=f"at {at}"):
            in_halves(fail(at), 7, threads)


def test_a_second_thread_is_taken_only_where_it_is_allowed():
    names = [in_halves(lambda part: threading.current_thread().name, 2, threads) for threads in (1, 2)]
    assert names[0] == ("MainThread", "MainThread")
    assert names[1][0] == "MainThread" and names[1][1].startswith("halves")


def test_threads_are_put_back_also_after_an_error(threads):
    threads(4)
    with one_thread():
        assert torch.get_num_threads() == 1
    with pytest.raises(ValueError), one_thread():
        raise ValueError
    assert torch.get_num_threads() == 4


def test_a_forked_process_gets_a_thread_of_its_own():
    in_halves(lambda part: part.start, 2)  # the parent's thread exists now
    child = os.fork()
    if child == 0:
        os._exit(in_halves(lambda part: part.start, 2)[1])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
