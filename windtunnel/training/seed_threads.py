"""On a CPU several seeds train side by side, each on a thread of its own.

A seed's numbers are those it would have alone, to the last bit: no operation is split over threads, and a batch is
worked on in halves either way (`batch_halves.py`).  Where there are not two threads for every seed, its halves follow
one another.  Two seeds on two cores then meet a few times per second instead of twice per step; and five seeds on
many cores take little longer than one.

Threads rather than processes: nothing has to be sent to and fro, and the user's script need not bear being imported
by its own children.  Two threads cannot run Python at the same time, but that is a small share of a step: torch lets go
of the interpreter during its operations.  `windtunnel reproduce` has processes for its cells, which do much besides
training.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

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
            _together(company, steps)
        finally:
            torch.set_num_threads(threads)  # a thread's own setting is the default of those that come after it


def _together(networks: Sequence[Network], steps: int) -> None:
    over, errors = threading.Event(), list[BaseException]()

    def work(network: Network) -> None:
        try:
            for _ in range(steps):
                if over.is_set():
                    return
                network.advance()
        except BaseException as error:
            errors.append(error)

    crew = [threading.Thread(target=work, args=(network,), name="seed") for network in networks]
    try:
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
    finally:
        over.set()  # a second Ctrl-C ends the wait: nobody takes another step
    if errors:
        raise errors[0]
