"""Large batches on a CPU: blocks that fit the caches, one thread per core.

Each block runs its operations on one thread.  Left to itself torch would split every small operation over all cores,
and the threads would spend their time waiting for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from windtunnel.tunnels.episodes import Episodes

CPU_BLOCK = 4096
"""Episodes per block."""


def in_blocks(part: Callable[[int, int], Episodes], count: int) -> Episodes:
    """Episodes 0 … count − 1, made by `part(first, size)` block by block and written into their place.

    They carry no gradients, also where a world of somebody's own takes its belief from weights that do.
    """
    with torch.inference_mode(False):  # it holds for this thread only: the others may not write to what is made in it
        whole = part(0, 1).map(lambda one: _room(one, count))

    def fill(first: int) -> None:
        block = part(first, min(CPU_BLOCK, count - first))
        for source, target in zip(block.tensors(), whole.tensors(), strict=True):
            target[first : first + len(block)] = source.detach()

    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(fill, range(0, count, CPU_BLOCK)))
    finally:
        torch.set_num_threads(threads)  # a worker's setting holds for itself, and for every thread begun after it
    return whole


def _room(one: Tensor, count: int) -> Tensor:
    """Memory for `count` episodes like this one.  NumPy's: it asks for huge pages, which cost a quarter to map."""
    shape = (count, *one.shape[1:])
    try:
        return torch.from_numpy(np.empty(shape, one.detach().numpy().dtype))
    except TypeError:  # a type that NumPy lacks, such as bfloat16 in somebody's latent world
        return one.new_empty(shape)
