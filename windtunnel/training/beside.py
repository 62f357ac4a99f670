"""On a CPU several seeds train side by side, each on a thread of its own.

A seed's numbers are those it would have alone, to the last bit: no operation is split over threads, and a batch is
worked on in halves either way (`halves.py`).  Where there are not two threads for every seed, its halves follow one
another.  Two seeds on two cores then meet a few times per second instead of twice per step; and five seeds on
many cores take little longer than one.

Threads rather than processes: nothing has to be sent to and fro, and the user's script need not bear being imported
by its own children.  Only Python's share of a step cannot be done by two at the same time: torch lets go of the
interpreter during its operations.  `windtunnel reproduce` has processes for its cells, which do much besides training.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from windtunnel.training.network import Network


def advance_beside(networks: Sequence[Network], steps: int) -> None:
    """That many steps of every network, of as many at a time as torch may use threads.  An error of one is raised when
    those at work with it have come to an end."""
    threads = torch.get_num_threads()
    for first in range(0, len(networks), threads):
        company = networks[first : first + threads]
        for network in company:
            network.threads = threads // len(company)
        try:
            with ThreadPoolExecutor(len(company), "seed", torch.set_num_threads, (1,)) as pool:
                for done in [pool.submit(_advance, network, steps) for network in company]:
                    done.result()
        finally:
            torch.set_num_threads(threads)  # a new thread's setting is the default of those that come after it


def _advance(network: Network, steps: int) -> None:
    for _ in range(steps):
        network.advance()
