"""Large batches on a CPU: blocks that fit the caches, one thread per core.

Each block runs its operations on one thread.  Left to itself torch would split every small operation over all cores,
and the threads would spend their time waiting for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from windtunnel.tunnels.episodes import Episodes

CPU_BLOCK = 8192
"""Episodes per block."""


def in_blocks(part: Callable[[int, int], Episodes], count: int) -> Episodes:
    """Episodes 0 … count − 1, made by `part(first, size)` block by block and written into their place."""
    begin = part(0, min(count, CPU_BLOCK))
    whole = begin.map(lambda value: value.new_empty(count, *value.shape[1:]))
    _put(begin, whole, 0)

    def fill(first: int) -> None:
        _put(part(first, min(CPU_BLOCK, count - first)), whole, first)

    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(fill, range(CPU_BLOCK, count, CPU_BLOCK)))
    torch.set_num_threads(threads)  # a worker's setting holds for itself, and for every thread begun after it
    return whole


def _put(block: Episodes, whole: Episodes, first: int) -> None:
    for source, target in zip(block.tensors(), whole.tensors(), strict=True):
        target[first : first + len(block)] = source
