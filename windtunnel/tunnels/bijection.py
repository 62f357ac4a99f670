"""Bijection elimination: a hidden random permutation, revealed one key–value pair at a time.

    sequence   k_1 v_1 k_2 v_2 … k_K          layout "plain"
               k_1 v_1 SEP k_2 v_2 SEP … k_K  layout "paper"
    read at    every key k_t
    belief     key seen before:  a point mass on its value
               otherwise:        uniform over the V − d values not yet shown (d distinct values so far)

Without replacement every key is new, the key is irrelevant, and entropy is log2(V − t + 1), a function of position
alone.  With replacement keys repeat: a seen key must be *bound* to its value, and position no longer fixes the entropy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from windtunnel.errors import keep_truth, keep_whole_number, require, require_choice
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.random import Source

_PERMUTATION, _KEYS = 0, 1  # sites of the random stream


@dataclass(frozen=True)
class Bijection(Tunnel):
    """A uniform random permutation of `symbols`, new for every episode, shown through `length` keys.

    latent: keys (n, K), values (n, K), permutation (n, V) with permutation[key] = value.
    """

    symbols: int = 20
    """V: number of keys, and of values."""
    length: int = 20
    """K: number of keys shown; at most `symbols` without replacement."""
    replacement: bool = False
    """Draw keys with replacement, so that keys may repeat."""
    layout: Literal["plain", "paper"] = "plain"
    """`plain` is k v k v …; `paper` puts a separator after each pair."""

    summary: ClassVar[str] = "a hidden permutation, revealed pair by pair; belief is uniform over the values left"

    def __post_init__(self) -> None:
        keep_whole_number(self, "symbols", 2)
        keep_whole_number(self, "length", 1)
        require_choice("layout", self.layout, ("plain", "paper"))
        keep_truth(self, "replacement")
        require(
            self.replacement or self.length <= self.symbols,
            "length",
            self.length,
            f"at most symbols = {self.symbols} when keys are drawn without replacement",
        )

    @property
    def vocabulary(self) -> int:
        return 2 * self.symbols + (self.layout == "paper")

    @property
    def feature_width(self) -> int:
        return 0

    @property
    def classes(self) -> int:
        return self.symbols

    @property
    def _stride(self) -> int:
        return 3 if self.layout == "paper" else 2

    @property
    def positions(self) -> int:
        return self._stride * (self.length - 1) + 1

    @property
    def readouts(self) -> int:
        return self.length

    @property
    def primitives(self) -> tuple[str, ...]:
        return ("accumulation", "binding") if self.replacement else ("accumulation",)

    @property
    def hypotheses_log2(self) -> float:
        """log2(V!): 61.1 bits for V = 20."""
        return math.lgamma(self.symbols + 1) / math.log(2.0)

    def draw(self, source: Source) -> dict[str, Tensor]:
        permutation = source.permutation(_PERMUTATION, self.symbols).T
        if self.replacement:
            keys = source.integers(_KEYS, self.symbols, self.length).T
        else:
            keys = source.permutation(_KEYS, self.symbols)[: self.length].T
        return {"keys": keys, "values": permutation.gather(1, keys), "permutation": permutation}

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        """Keys and permutation decide the rest; `values` is derived from them."""
        keys, permutation = latent["keys"], latent["permutation"]
        values = permutation.gather(1, keys)
        count, device = len(keys), keys.device

        tokens = torch.full((count, self.positions), 2 * self.symbols, device=device)  # SEP where nothing else
        tokens[:, :: self._stride] = keys
        tokens[:, 1 :: self._stride] = values[:, :-1] + self.symbols
        readout = torch.arange(0, self.positions, self._stride, device=device)

        truth = torch.nn.functional.one_hot(values, self.symbols)
        shown = (truth.cumsum(1) - truth) > 0  # (n, K, V): value already shown before step k
        left = (~shown).to(dtype)
        elimination = left / left.sum(-1, keepdim=True).clamp_min(1.0)  # no value left only if every key was seen
        seen = shown.gather(2, values[..., None])  # a bijection: the key was seen exactly if its value was shown
        posterior = torch.where(seen, truth.to(dtype), elimination)
        inputs = Inputs(tokens, None, readout)
        return Episodes(inputs, values, posterior, {"keys": keys, "values": values, "permutation": permutation})

    def subsets(self, episodes: Episodes) -> dict[str, Tensor]:
        """`seen`: the key was shown before; `unseen`: it was not."""
        seen = repeats_earlier(episodes.latent["keys"])
        return {"seen": seen, "unseen": ~seen}

    def token_names(self) -> list[str]:
        names = [f"k{i}" for i in range(self.symbols)] + [f"v{i}" for i in range(self.symbols)]
        return names + ["|"] * (self.layout == "paper")


def repeats_earlier(keys: Tensor) -> Tensor:
    """(n, K) bool: does this key already stand at an earlier step of its row?"""
    return (keys[:, :, None] == keys[:, None, :]).tril(-1).any(-1)
