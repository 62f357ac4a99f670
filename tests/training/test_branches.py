"""Work side by side gives what it gives one after another: every piece is run, and what comes later waits for all."""

from __future__ import annotations

import pytest
import torch

from windtunnel.training import muon
from windtunnel.training.branches import side_by_side
from windtunnel.training.muon import Muon, step_together

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SHAPES = [(16, 16), (48, 16), (16, 48), (5, 64), (256, 1024), (1024, 256)]


def test_every_piece_is_run_in_order_on_a_cpu():
    ran: list[int] = []
    side_by_side([lambda i=i: ran.append(i) for i in range(4)], CPU)
    assert ran == [0, 1, 2, 3]


def test_what_fails_is_not_swallowed():
    def fail() -> None:
        raise ValueError("so it is")

    with pytest.raises(ValueError, match="so it is"):
        side_by_side([lambda: None, fail], CPU)


@pytest.mark.gpu
def test_pieces_see_what_came_before_and_are_seen_by_what_comes_after():
    """Long chains of products, so that a wait which is missing would be noticed."""
    start = torch.randn(1024, 1024, device=GPU, dtype=torch.float64) / 40

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = (x @ start).tanh()
        return x

    expected = chain(chain(chain(start)))
    first, found = chain(start), [torch.empty_like(start) for _ in range(3)]
    side_by_side([lambda out=out: out.copy_(chain(first)) for out in found], GPU)
    for value in found:
        assert torch.equal(chain(value), expected)


def stepped(in_turn: bool, captured: bool, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Weights of two networks after four steps of Muon on a GPU."""
    with monkeypatch.context() as patched:
        if in_turn:
            patched.setattr(muon, "side_by_side", lambda pieces, device: [piece() for piece in pieces])
        generator = torch.Generator().manual_seed(0)
        start, gradients = ([torch.randn(*shape, generator=generator).to(GPU) for shape in SHAPES] for _ in range(2))
        networks = [[weight.clone() for weight in start] for _ in range(2)]
        for weights in networks:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient.clone()
        optimisers = [Muon(weights, momentum=0.9, weight_decay=0.1, dtype=torch.bfloat16) for weights in networks]
        rates = [torch.tensor(rate, device=GPU) for rate in (0.01, 0.02)]
        if not captured:
            for _ in range(4):
                step_together(optimisers, rates)
        else:
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                step_together(optimisers, rates)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                step_together(optimisers, rates)
            for _ in range(3):
                graph.replay()
        torch.cuda.synchronize()
    return [weight for weights in networks for weight in weights]


@pytest.mark.gpu
@pytest.mark.parametrize("captured", [False, True], ids=["eager", "captured"])
def test_muon_moves_shapes_side_by_side_as_one_after_another(captured, monkeypatch):
    """To the last bit: no piece reads or writes what another does."""
    beside, in_turn = (stepped(turn, captured, monkeypatch) for turn in (False, True))
    for ours, theirs in zip(beside, in_turn, strict=True):
        assert torch.equal(ours, theirs)
    assert not torch.equal(beside[0], beside[len(SHAPES)])  # the two networks differ in their rates alone
