"""Large batches on a CPU: blocks that fit the caches, one thread per core.

Each block runs its operations on one thread.  Left to itself torch would split every small operation over all cores,
and the threads would spend their time waiting for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from windtunnel.tunnels.episodes import Episodes, Inputs

CPU_BLOCK = 4096
"""Episodes per block."""


def in_blocks(part: Callable[[int, int], Episodes], count: int) -> Episodes:
    """Episodes 0 … count − 1, made by `part(first, size)` block by block and written into their place."""
    begin = part(0, CPU_BLOCK)
    whole = Episodes(
        Inputs(_room(begin.inputs.tokens, count), _room(begin.inputs.features, count), begin.inputs.readout),
        _room(begin.labels, count),
        _room(begin.posterior, count),
        {name: _room(value, count) for name, value in begin.latent.items()},
    )
    _put(begin, whole, 0)

    def fill(first: int) -> None:
        _put(part(first, min(CPU_BLOCK, count - first)), whole, first)

    threads = torch.get_num_threads()
    # The setting is the worker thread's own: the caller's operations keep their threads.
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(fill, range(CPU_BLOCK, count, CPU_BLOCK)))
    return whole


def _room(block: Tensor | None, count: int) -> Tensor | None:
    return None if block is None else block.new_empty(count, *block.shape[1:])


def _put(block: Episodes, whole: Episodes, first: int) -> None:
    place = slice(first, first + len(block))
    whole.inputs.tokens[place] = block.inputs.tokens
    if whole.inputs.features is not None:
        whole.inputs.features[place] = block.inputs.features
    whole.labels[place] = block.labels
    whole.posterior[place] = block.posterior
    for name, value in block.latent.items():
        whole.latent[name][place] = value
