"""Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), in two forms with equal bits.

philox4x32      int64 tensor operations: any device, inside compiled and captured graphs too
philox_on_cpu   the same rounds in place with NumPy, on tiles that stay in a core's cache: about twice as fast there
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

MASK = 0xFFFFFFFF
"""The largest word."""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_TILE = 12_288  # counters at a time on a CPU: six buffers of them fit a cache of 1 MiB, and calls stay few


def philox4x32(counter: tuple, key: tuple) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds of Philox4x32: four counter words and two key words in [0, 2^32), int64 tensors or ints.

    Words of different shapes broadcast as late as they can, so what is constant along an axis costs nothing there.
    """
    for _ in range(_ROUNDS):
        counter, key = _round(counter, key)
    c0, c1, c2, c3 = counter
    return c0, c1 & MASK, c2, c3 & MASK


def _round(counter: tuple, key: tuple) -> tuple[tuple, tuple]:
    """One round: the next counter and key.

    A 32 × 32 bit product fills 64 bits; int64 wraps, so its bits are right even where its sign is not.  The odd words
    are the low halves of such products: they are only xored, never multiplied, before the next mask, so their high
    bits may stay until the end.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
    mixed = ((p1 >> 32) ^ (c1 ^ k0)) & MASK, p1, ((p0 >> 32) ^ (c3 ^ k1)) & MASK, p0
    return mixed, _next_key(k0, k1)


def _next_key(k0: Any, k1: Any) -> tuple:
    return (k0 + _WEYL[0]) & MASK, (k1 + _WEYL[1]) & MASK


def philox_on_cpu(
    blocks: int, site: int, episodes: Int64[Tensor, " n"], seed: int, stream: int
) -> Int64[Tensor, "4*blocks n"]:
    """The words of counters (block, site, episode low, episode high) under key (seed, stream), four to a block."""
    numbers = episodes.numpy().view(np.uint64)  # unsigned: its shifts are faster, its bits the same
    block = np.arange(blocks, dtype=np.uint64)[:, None]
    words = np.empty((blocks, 4, len(numbers)), np.uint64)
    width = max(1, _TILE // max(1, blocks))
    for first in range(0, len(numbers), width):
        tile = numbers[None, first : first + width]
        _fill(words[:, :, first : first + width], (block, site, tile & MASK, tile >> 32), (seed, stream))
    return torch.from_numpy(words.view(np.int64)).flatten(0, 1)


def _fill(words: np.ndarray, counter: tuple, key: tuple) -> None:
    """Philox of one tile into `words` (blocks, 4, width).

    Two rounds broadcast: then all words but c3 are full arrays of their own.  The other rounds write only to six.
    """
    for _ in range(2):
        counter, key = _round(counter, key)
    (c0, low1, c2, c3), (k0, k1) = counter, key
    low0 = np.broadcast_to(c3, c0.shape).copy()
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(2, _ROUNDS):
        np.multiply(c0, _MULTIPLIERS[0], out=p0)
        np.multiply(c2, _MULTIPLIERS[1], out=p1)
        for word, product, low, k in ((c0, p1, low1, k0), (c2, p0, low0, k1)):
            np.right_shift(product, 32, out=word)
            low ^= k
            word ^= low
            word &= MASK
        low0, p0, low1, p1 = p0, low0, p1, low1
        k0, k1 = _next_key(k0, k1)
    words[:, 0], words[:, 2] = c0, c2
    np.bitwise_and(low1, MASK, out=words[:, 1])
    np.bitwise_and(low0, MASK, out=words[:, 3])
