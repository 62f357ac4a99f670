"""On a CPU a batch is worked on in two halves, each on a thread of its own.

Left to itself torch splits every operation over the cores.  Those of a small network are too short for that: the
threads wait for each other hundreds of times per step, and should another process hold one of the cores, each wait
lasts a time slice.  Two halves meet once per step.

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
from typing import TypeVar

import torch

Result = TypeVar("Result")

SMALLEST = 1024  # positions in a batch; below, a step is mostly calls and little arithmetic

_worker: ThreadPoolExecutor | None = None


def worth_halving(batch: int, positions: int) -> bool:
    """Is a batch of sequences of that many positions large enough?"""
    return batch >= 2 and batch * positions >= SMALLEST


def in_halves(work: Callable[[slice], Result], count: int) -> tuple[Result, Result]:
    """`work` on each half of 0 … count − 1, side by side; to be called within `one_thread`."""
    first, second = slice(0, count // 2), slice(count // 2, count)
    later = _other_thread().submit(work, second)
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


def _other_thread() -> ThreadPoolExecutor:
    global _worker
    if _worker is None:
        _worker = ThreadPoolExecutor(1, "halves", initializer=torch.set_num_threads, initargs=(1,))
    return _worker


def _forget() -> None:
    """A fork copies this module but not the thread."""
    global _worker
    _worker = None


os.register_at_fork(after_in_child=_forget)
