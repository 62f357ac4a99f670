"""Memory of a training step: measured on a GPU, counted on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from windtunnel.training.network import Network

COUNTED = "weights, optimiser and what the backward pass keeps, counted"
MEASURED = "peak of the allocator"


def counted_bytes(network: Network) -> int:
    """Bytes of a network's state and of all tensors that one forward pass keeps for the backward pass.

    A process's own size says little on a CPU (allocators keep what they were given); this is exact and repeatable.
    """
    state = {value.data_ptr(): value.nbytes for value in network.state().values()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in state:
            kept[storage.data_ptr()] = storage.nbytes()  # views of one storage are counted once
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = network.loss()
    del loss
    return sum(state.values()) + sum(kept.values())
