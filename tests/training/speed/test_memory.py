"""Memory of a step on a GPU is what the card has to hold, not what was in use at one moment."""

from __future__ import annotations

import pytest
import torch

from windtunnel.training.speed.memory import held_since, start_measuring

ROOM = 64 * 2**20


class Card:
    """An allocator that never gives one stream what another has let go of, as torch's."""

    def __init__(self, held: int) -> None:
        self.held = self.most = held

    def take(self, size: int) -> None:
        self.held += size
        self.most = max(self.most, self.held)

    def plant(self, monkeypatch) -> None:
        plants = {
            "empty_cache": lambda: None,
            "reset_peak_memory_stats": lambda device: setattr(self, "most", self.held),
            "memory_reserved": lambda device: self.held,
            "max_memory_reserved": lambda device: self.most,
        }
        for name, function in plants.items():
            monkeypatch.setattr(torch.cuda, name, function)


def test_earlier_peaks_and_what_was_held_before_do_not_count(monkeypatch):
    card = Card(held=100)
    card.plant(monkeypatch)
    card.take(900)
    card.held = 100  # let go again
    before = start_measuring("cuda")
    card.take(30)
    card.take(30)
    assert held_since(before, "cuda") == 60


@pytest.mark.gpu
def test_branches_hold_room_of_their_own():
    before, in_use = start_measuring("cuda"), torch.cuda.memory_allocated()
    graph, main = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=main):
        for _ in range(2):
            branch = torch.cuda.Stream()
            branch.wait_stream(main)
            with torch.cuda.stream(branch):
                torch.zeros(ROOM, dtype=torch.uint8, device="cuda")  # free again at once
            main.wait_stream(branch)
    assert held_since(before, "cuda") >= 2 * ROOM
    assert torch.cuda.max_memory_allocated() - in_use < 2 * ROOM  # what is in use at one moment does not show it
