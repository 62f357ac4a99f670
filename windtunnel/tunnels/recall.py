"""Associative recall: store key–value pairs, wait, then answer for some of the keys.

sequence   (STORE k SEP v) × pairs × repeats, shuffled;  FILLER × filler;  (QUERY k) × queries
read at    the key of every query; answers never appear in the input
belief     noise 0:    a point mass on the stored value (values are distinct)
           noise p>0:  values are independent and uniform, each shown `repeats` times through a channel that with
                       probability p replaces it by a uniform draw from all V values.  With c_v the times v was
                       shown for the key,  P(v) = ρ^{c_v} / Σ_u ρ^{c_u},  ρ = 1 + V(1 − p)/p,
                       the likelihood ratio (1 − p + p/V) / (p/V) of one showing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from windtunnel.errors import keep_number, keep_truth, keep_whole_number, require
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.random import Source

_KEYS, _VALUES, _QUERIES, _ORDER, _FLIP, _SUBSTITUTE, _DISTINCT = range(7)  # sites of the random stream


@dataclass(frozen=True)
class Recall(Tunnel):
    """`pairs` key–value pairs, drawn anew for every episode.

    latent: keys (n, N), values (n, N) the true value of each key; order (n, N·repeats) which pair each store slot
    shows; shown (n, N·repeats) the value it shows; queries (n, M) the keys asked for, answers (n, M) their true values.
    """

    pairs: int = 64
    """N: pairs stored."""
    queries: int = 3
    """M: keys asked for, in random order, all different (where `mixed` leaves enough of them)."""
    filler: int = 32
    """Idle positions between the last store and the first query."""
    keys: int = 256
    """Number of possible keys."""
    values: int = 256
    """V: number of possible values."""
    noise: float = 0.0
    """Probability that a shown value is replaced by a uniform draw."""
    repeats: int = 1
    """How often each pair is shown."""
    mixed: bool = False
    """Store a random 1, 2, 4 … or `pairs` pairs, repeated to fill all slots: easier to learn, still exact."""

    summary: ClassVar[str] = "key–value pairs to store and look up; a point mass, or with noise a graded belief"

    def __post_init__(self) -> None:
        keep_whole_number(self, "pairs", 1)
        keep_whole_number(self, "queries", 1)
        keep_whole_number(self, "filler", 0)
        keep_whole_number(self, "keys", 1)
        keep_whole_number(self, "values", 2)
        keep_whole_number(self, "repeats", 1)
        keep_truth(self, "mixed")
        keep_number(self, "noise", 0, 1, below=True)
        require(self.pairs <= self.keys, "pairs", self.pairs, f"at most keys = {self.keys}")
        require(self.queries <= self.pairs, "queries", self.queries, f"at most pairs = {self.pairs}")
        distinct_ok = self.noise > 0 or self.pairs <= self.values
        require(distinct_ok, "pairs", self.pairs, f"at most values = {self.values} without noise (values are distinct)")

    @property
    def slots(self) -> int:
        """Number of store slots."""
        return self.pairs * self.repeats

    @property
    def vocabulary(self) -> int:
        return self.keys + self.values + 4

    @property
    def feature_width(self) -> int:
        return 0

    @property
    def classes(self) -> int:
        return self.values

    @property
    def positions(self) -> int:
        return 4 * self.slots + self.filler + 2 * self.queries

    @property
    def readouts(self) -> int:
        return self.queries

    @property
    def primitives(self) -> tuple[str, ...]:
        """Where a pair may have several noisy showings, they have to be combined."""
        several = self.repeats > 1 or (self.mixed and self.pairs > 1)
        return ("binding", "accumulation") if self.noise > 0 and several else ("binding",)

    @property
    def hypotheses_log2(self) -> float:
        """Key sets times value assignments: C(keys, N) · V!/(V − N)!, or · V^N with noise.  `mixed`: of the largest."""
        sets = _log2_factorial(self.keys) - _log2_factorial(self.pairs) - _log2_factorial(self.keys - self.pairs)
        if self.noise > 0:
            return sets + self.pairs * math.log2(self.values)
        return sets + _log2_factorial(self.values) - _log2_factorial(self.values - self.pairs)

    def draw(self, source: Source) -> dict[str, Tensor]:
        keys = source.permutation(_KEYS, self.keys)[: self.pairs].T
        distinct = self._draw_distinct(source)
        order = source.permutation(_ORDER, self.slots).T % distinct
        if self.noise > 0:
            values = source.integers(_VALUES, self.values, self.pairs).T
            shown = values.gather(1, order)
            flipped = source.uniform(_FLIP, self.slots).T < self.noise
            shown = torch.where(flipped, source.integers(_SUBSTITUTE, self.values, self.slots).T, shown)
        else:
            values = source.permutation(_VALUES, self.values)[: self.pairs].T
            shown = values.gather(1, order)
        asked = source.permutation(_QUERIES, self.pairs)[: self.queries].T % distinct
        queries, answers = keys.gather(1, asked), values.gather(1, asked)
        return {"keys": keys, "values": values, "order": order, "shown": shown, "queries": queries, "answers": answers}

    def _draw_distinct(self, source: Source) -> int | Tensor:
        """How many different pairs an episode stores: N, or (n, 1) powers of two up to N."""
        if not self.mixed:
            return self.pairs
        levels = (self.pairs - 1).bit_length() + 1
        return (1 << source.integers(_DISTINCT, levels, 1).T).clamp_max(self.pairs)

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        shown, queries = latent["shown"], latent["queries"]
        stored = latent["keys"].gather(1, latent["order"])
        counts = value_counts(stored, shown, queries, self.values, dtype)
        if self.noise > 0:
            log_ratio = math.log(self.noise + self.values * (1.0 - self.noise)) - math.log(self.noise)
            posterior = torch.softmax(counts * log_ratio, -1)
        else:
            posterior = counts / counts.sum(-1, keepdim=True)
        return Episodes(self._encode(stored, shown, queries), latent["answers"], posterior, dict(latent))

    def _encode(self, stored: Tensor, shown: Tensor, queries: Tensor) -> Inputs:
        store, separator, query, filler = range(self.keys + self.values, self.vocabulary)
        count, device = len(stored), stored.device
        memory = torch.stack(
            [torch.full_like(stored, store), stored, torch.full_like(stored, separator), shown + self.keys], -1
        )
        idle = torch.full((count, self.filler), filler, device=device)
        questions = torch.stack([torch.full_like(queries, query), queries], -1)
        tokens = torch.cat([memory.flatten(1), idle, questions.flatten(1)], 1)
        readout = torch.arange(self.positions - 2 * self.queries + 1, self.positions, 2, device=device)
        return Inputs(tokens, None, readout)

    def read(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """What the inputs state: stored keys (n, slots), shown values (n, slots), queries (n, M)."""
        memory = inputs.tokens[:, : 4 * self.slots]
        return memory[:, 1::4], memory[:, 3::4] - self.keys, inputs.tokens[:, inputs.readout]

    def token_names(self) -> list[str]:
        names = [f"k{i}" for i in range(self.keys)] + [f"v{i}" for i in range(self.values)]
        return [*names, "STORE", "SEP", "QUERY", "·"]


def value_counts(stored: Tensor, shown: Tensor, queries: Tensor, values: int, dtype: torch.dtype) -> Tensor:
    """(n, M, V): how often each value was shown for each query's key.  stored, shown (n, slots); queries (n, M)."""
    match = (queries[:, :, None] == stored[:, None, :]).to(dtype)
    counts = torch.zeros(*queries.shape, values, dtype=dtype, device=shown.device)
    return counts.scatter_add_(2, shown[:, None, :].expand_as(match), match)


def _log2_factorial(count: int) -> float:
    return math.lgamma(count + 1) / math.log(2.0)
