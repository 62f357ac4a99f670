"""Memory of a training step: measured on a GPU, counted on a CPU."""

from __future__ import annotations

import gc

import torch
from torch import Tensor

from windtunnel.training.network import Network

COUNTED = "weights, optimiser and what the backward pass keeps, counted"
MEASURED = "peak memory held on the GPU, minus what was held before, in the allocator's pieces of 2 MiB and more"


def start_measuring(device: str) -> int:
    """Forget peaks, let go of what nothing refers to any more, and return the bytes that are still held on a GPU.

    A captured step keeps its memory until its engine is collected, and engines refer to themselves.
    """
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_reserved(device)


def held_since(before: int, device: str) -> int:
    """Bytes that a GPU had to hold at most since `start_measuring` returned `before`.

    Held, not in use: what is free for one branch of a captured step is not free for another, so several seeds side by
    side each hold room of their own, although no two of them are recorded at the same moment.
    """
    return torch.cuda.max_memory_reserved(device) - before


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
