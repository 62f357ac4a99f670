"""On a CPU several seeds train side by side, each on a thread of its own.

A seed's numbers are those it would have alone, to the last bit: no operation is split over threads, and a batch is
worked on in halves either way (`halves.py`).  Where there are not two threads for every seed, its halves follow one
another.  Two seeds on two cores then meet a few times per second instead of twice per step; and five seeds on
many cores take little longer than one.

Threads rather than processes: nothing has to be sent to and fro, and a function that builds a model need not be
importable.  What they cannot do at the same time is Python's own work, as torch lets go of the interpreter during its
operations.  `windtunnel reproduce` has processes for its cells, which do much besides training.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from windtunnel.training.network import Network


def share_threads(networks: Sequence[Network]) -> None:
    """Let each network know how many threads are left for it when all of them are at work."""
    for network in networks:
        network.threads = max(1, torch.get_num_threads() // len(networks))


def advance_beside(networks: Sequence[Network], steps: int) -> None:
    """That many steps of every network.  As many are at work at a time as torch may use threads; an error of one is
    raised when all have come to an end."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(min(threads, len(networks)), "seed", torch.set_num_threads, (1,)) as pool:
            for done in [pool.submit(_advance, network, steps) for network in networks]:
                done.result()
    finally:
        torch.set_num_threads(threads)  # a new thread's setting is the default of those that come after it


def _advance(network: Network, steps: int) -> None:
    for _ in range(steps):
        network.advance()
