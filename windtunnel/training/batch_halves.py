"""On a CPU a batch is worked on in two halves, each on a thread of its own.

Left to itself torch splits every operation over the cores.  Those of a small network are too short for that: the
threads wait for each other hundreds of times per step, and should another process hold one of the cores, each wait
lasts a time slice.  Two halves meet once per step.  Where a second thread is not to be had, one does both.

Each half has one thread however many cores there are.  The split then depends on the recipe alone, never on the
machine, and so do the weights of every built-in network: with several threads to an operation some gradients (a bias, a
norm's weight) are added up in another order.  On two cores that costs nothing; on many a large network would gain from
more, but that is work for a GPU, and weights that anybody can make again are worth more here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from windtunnel.environment import cores

Result = TypeVar("Result")

SMALLEST = 1024  # positions in a batch; below, a step is mostly calls and little arithmetic


def worth_halving(batch: int, positions: int) -> bool:
    """Is a batch of sequences of that many positions large enough?"""
    return batch >= 2 and batch * positions >= SMALLEST


def in_halves(work: Callable[[slice], Result], count: int, threads: int = 2) -> tuple[Result, Result]:
    """`work` on each half of 0 … count − 1, side by side where there are two threads for it; to be called within
    `one_thread`."""
    first, second = slice(0, count // 2), slice(count // 2, count)
    if threads < 2:
        return work(first), work(second)
    later = _other_threads().submit(work, second)
    try:
        now = work(first)
    finally:
        later.exception()  # whatever happened to the first, the second is over before anything else begins
    return now, later.result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Meanwhile the operations of the calling thread use no other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def _other_threads() -> ThreadPoolExecutor:
    """One for each thread that may ask at the same time; they are started when they are asked for."""
    return ThreadPoolExecutor(cores(), "halves", initializer=torch.set_num_threads, initargs=(1,))


os.register_at_fork(after_in_child=_other_threads.cache_clear)  # a fork copies this module but not its threads
