"""Counter-based randomness: episode i of (seed, stream) is a pure function of those three.

The generator is Philox4x32-10 in integer operations (`philox.py`), so that CPU, GPU and a compiled or captured graph
give the same bits:

    key     = (seed, stream)                       32 bits each
    counter = (block, site, episode low, high)     32 bits each, four words per block

A *site* names one purpose of a draw (the transition matrix, the states, …).  Every tunnel numbers its own
sites, so adding a draw never shifts another one.  Nothing here keeps state: batch size, chunking and order
cannot matter, streams cannot overlap, and resuming means remembering one number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int8, Int64
from torch import Tensor

from windtunnel.errors import require, require_choice, require_int, require_number, whole_number
from windtunnel.tunnels.philox import MASK, philox4x32, philox_on_cpu

STREAMS = ("train", "validation", "test")
CONCENTRATIONS = (1e-300, 1e30)
"""Of Dirichlet rows: beyond them numbers overflow."""


def on_plain_cpu(tensor: Tensor) -> bool:
    """Is this memory that NumPy may work on: a CPU tensor, outside of code being compiled?"""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def require_concentration(value: Any) -> None:
    """Raise unless it is a concentration a whose Dirichlet rows and beliefs are proper.

    Gammas are drawn as logarithms down to −23 / a, which overflow near 1e-307: rows would be NaN.  Beliefs divide by
    a times the number of classes, which overflows float32 above 1e36: they would be 0.
    """
    require_number("concentration", value, 0, above=True)
    low, high = CONCENTRATIONS
    require(low <= value <= high, "concentration", value, f"from {low:g} to {high:g}: beyond, rows or beliefs overflow")


def whole_seed(seed: object, field: str = "seed") -> int:
    """The seed as a plain int; it fills one 32-bit key word."""
    return whole_number(field, seed, 0, MASK)


def check_seed(seed: object, field: str = "seed") -> None:
    """Raise unless it is such a seed, and a plain int already."""
    require_int(field, seed, 0, MASK)


@dataclass(frozen=True)
class Source:
    """The random numbers of a batch of episodes.  Every draw has shape (…, n): episodes come last, so that
    each elementwise operation runs over contiguous memory on a CPU and coalesced memory on a GPU.

    seed      key word 0: an int, or an int64 tensor that broadcasts against `episodes` (several seeds at once)
    stream    key word 1: index into STREAMS
    episodes  (n,) int64 episode numbers, on the device where the draws are wanted
    """

    seed: int | Int64[Tensor, "..."]
    stream: int
    episodes: Int64[Tensor, " n"]

    @classmethod
    def open(cls, seed: int, stream: str, count: int, *, start: int = 0, device: str | torch.device = "cpu") -> Source:
        """Episodes start … start + count − 1 of a named stream."""
        seed = whole_seed(seed)
        require_choice("stream", stream, STREAMS)
        episodes = torch.arange(count, device=device, dtype=torch.int64) + start
        return cls(seed, STREAMS.index(stream), episodes)

    def bits(self, site: int, count: int) -> Int64[Tensor, "count n"]:
        """`count` independent words, uniform on [0, 2^32), per episode."""
        blocks = -(-count // 4)
        if isinstance(self.seed, int) and on_plain_cpu(self.episodes):
            return philox_on_cpu(blocks, site, self.episodes, self.seed, self.stream)[:count]
        episodes = self.episodes[None, :]
        # A compiler may narrow a plain arange to 32 bits; a zero that it must load as int64 forbids it.
        block = torch.arange(blocks, device=episodes.device)[:, None] + (episodes[:, :1] & 0)
        words = philox4x32((block, site, episodes & MASK, (episodes >> 32) & MASK), (self.seed, self.stream))
        return torch.stack(words, dim=1).flatten(0, 1)[:count]

    def uniform(self, site: int, *shape: int) -> Float64[Tensor, "*shape n"]:
        """Uniform on the open interval (0, 1), on a grid of 2^-32."""
        bits = self.bits(site, math.prod(shape))
        return _shaped(bits.double().add_(0.5).mul_(2.0**-32), shape)

    def integers(self, site: int, high: int, *shape: int) -> Int64[Tensor, "*shape n"]:
        """Uniform on 0 … high − 1 (multiply and shift: no value is favoured by more than high / 2^32)."""
        if not torch.compiler.is_compiling():
            high = whole_number("high", high, 1, 2**31)  # a word times more would not fit int64
        return _shaped((self.bits(site, math.prod(shape)) * high) >> 32, shape)

    def permutation(self, site: int, size: int) -> Int64[Tensor, "size n"]:
        """A uniform random permutation of 0 … size − 1: the order of random sort keys.

        The index sits in the low bits of each key, so ties (probability below size² / 2^33) are broken the
        same way everywhere and no stable sort is needed.
        """
        shift = max(1, (size - 1).bit_length())
        index = torch.arange(size, device=self.episodes.device, dtype=torch.int64)[:, None]
        keys = (self.bits(site, size) << shift) | index
        if not torch.compiler.is_compiling():
            return order_by_sort(keys)
        # No sort inside compiled kernels: a compiled Bijection sampler failed on a GPU with an index beyond 19 (torch
        # 2.11, triton 3.6).  The fused sort is the suspect; it was not isolated.
        return order_by_rank(keys) if size <= _RANKED else torch.compiler.disable(order_by_sort)(keys)  # type: ignore

    def dirichlet(self, site: int, concentration: float, *shape: int) -> Float64[Tensor, "*shape n"]:
        """Symmetric Dirichlet rows; the category axis is the last of `shape`.

        Concentration 1 normalises exponentials (the same law as spacings of sorted uniforms, without the sort);
        other concentrations normalise gammas in log space, so tiny concentrations do not underflow.
        """
        if not torch.compiler.is_compiling():
            require_concentration(concentration)
        axis = len(shape) - 1
        if concentration == 1.0:
            weights = self.uniform(site, *shape).log_().neg_()
        else:
            logs = self._log_gamma_variates(site, concentration, *shape)
            weights = torch.exp(logs - logs.amax(axis, keepdim=True))
        return weights.div_(add_up(weights, axis).unsqueeze(axis))

    def _log_gamma_variates(self, site: int, shape_parameter: float, *shape: int) -> Float64[Tensor, "*shape n"]:
        """Logarithm of Gamma(a, 1) draws by Marsaglia and Tsang (2000), with a fixed number of attempts.

        An attempt fails with probability under 0.05, so twelve in a row fail with probability under 3e-16.
        For a < 1: Gamma(a) = Gamma(a + 1) · U^(1/a).
        """
        attempts = 12
        boosted = shape_parameter < 1.0
        d = shape_parameter + (1.0 if boosted else 0.0) - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        u = self.uniform(site, 3, attempts, *shape)
        normal = torch.sqrt(-2.0 * torch.log(u[0])) * torch.cos(2.0 * math.pi * u[1])
        v = (1.0 + c * normal) ** 3
        log_v = torch.log(v.clamp_min(1e-300))
        accepted = (v > 0) & (torch.log(u[2]) < 0.5 * normal**2 + d - d * v + d * log_v)
        first = accepted.to(torch.uint8).argmax(0, keepdim=True)
        log_gamma = math.log(d) + log_v.gather(0, first)[0]
        if boosted:
            log_gamma = log_gamma + torch.log(self.uniform(site + _BOOST_SITE, *shape)) / shape_parameter
        return log_gamma


def _shaped(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(count, n) as (*shape, n); without a shape there is one number for each episode, (n,)."""
    return rows.unflatten(0, shape) if shape else rows[0]


_RANKED = 64  # keys up to which counting smaller ones beats a sort inside a fused kernel


def order_by_sort(keys: Int64[Tensor, "size n"]) -> Int64[Tensor, "size n"]:
    """The order that sorts each column of different keys."""
    return torch.sort(keys, dim=0).indices


def order_by_rank(keys: Int64[Tensor, "size n"]) -> Int64[Tensor, "size n"]:
    """The same without a sort: key i goes to the place given by the number of smaller keys."""
    rank = (keys[None] < keys[:, None]).sum(1)
    index = torch.arange(len(keys), device=keys.device)[:, None].expand_as(keys)
    return torch.zeros_like(keys).scatter(0, rank, index)


_BOOST_SITE = 1 << 16  # sites below this belong to tunnels; the gamma boost of site s draws from s + 2^16


def add_up(tensor: Tensor, axis: int) -> Tensor:
    """Sum over a short axis in a fixed order.

    A library sum may group its terms by memory position; then an episode's last bit would depend on its neighbours.
    """
    first, *rest = tensor.unbind(axis)
    for term in rest:
        first = first + term
    return first


def categorical(cumulative: Float64[Tensor, "R C n"], uniform: Float64[Tensor, "K n"]) -> Int8[Tensor, "K R n"]:
    """Inverse-CDF draws: for each of K uniforms, one from each of R distributions (cumulative along the middle axis).

    The last cumulative value is taken as 1, whatever rounding made of it.  At most 127 categories.
    """
    if on_plain_cpu(uniform):
        return _categorical_on_cpu(cumulative.numpy(), uniform.numpy())
    return add_up((uniform[:, None, None] > cumulative[:, :-1]).to(torch.int8), 2)


def _categorical_on_cpu(cumulative: np.ndarray, uniform: np.ndarray) -> Int8[Tensor, "K R n"]:
    """The same with NumPy, one category after the other: its comparisons are three times faster than torch's."""
    uniform = uniform[:, None]
    passed = np.empty((len(uniform), *cumulative[:, 0].shape), np.bool_)
    draws = np.zeros(passed.shape, np.int8)
    for edge in range(cumulative.shape[1] - 1):
        np.greater(uniform, cumulative[:, edge], out=passed)
        draws += passed.view(np.int8)
    return torch.from_numpy(draws)
