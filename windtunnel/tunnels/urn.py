"""Urn: draws from a hidden distribution over colours; predict the next one.

    sequence   START o_1 … o_K      colours drawn independently from the urn, put back each time
    read at    every draw
    belief     P(o_{t+1} = v | o_1 … o_t) = (α + c_v) / (V α + t),   c_v the times v was drawn so far

The urn's shares are drawn from Dirichlet(α) anew for every episode, so the counts are all there is to know: the purest
case of *accumulation*.  Order, dynamics and keys play no part.

START is there for attention without positions: softmax averages what it sees, so on an urn of one colour the second
draw would look like the tenth; next to one START token, the share of that colour tells them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from windtunnel.errors import keep_number, keep_whole_number
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.random import Source, categorical, require_concentration

_SHARES, _DRAWS = 0, 1  # sites of the random stream


@dataclass(frozen=True)
class Urn(Tunnel):
    """An urn with `symbols` colours whose shares come from a symmetric Dirichlet prior, new for every episode.

    latent: shares (n, V), draws (n, K + 1); the last draw is what the last readout predicts.
    """

    symbols: int = 10
    """V: number of colours."""
    length: int = 20
    """K: draws shown."""
    concentration: float = 0.2
    """α of the Dirichlet prior. If small, a few colours dominate, and counts say far more than the last draw."""

    summary: ClassVar[str] = "draws from a hidden distribution; belief about the next one by counting"

    def __post_init__(self) -> None:
        keep_whole_number(self, "symbols", 2, 127)
        keep_whole_number(self, "length", 1)
        keep_number(self, "concentration", 0, above=True)
        require_concentration(self.concentration)

    @property
    def vocabulary(self) -> int:
        return self.symbols + 1

    @property
    def feature_width(self) -> int:
        return 0

    @property
    def classes(self) -> int:
        return self.symbols

    @property
    def positions(self) -> int:
        return self.length + 1

    @property
    def readouts(self) -> int:
        return self.length

    @property
    def primitives(self) -> tuple[str, ...]:
        return ("accumulation",)

    @property
    def hypotheses_log2(self) -> float:
        """Shares are real numbers."""
        return math.inf

    def draw(self, source: Source) -> dict[str, Tensor]:
        shares = source.dirichlet(_SHARES, self.concentration, self.symbols)
        draws = categorical(shares.cumsum(0)[None], source.uniform(_DRAWS, self.length + 1))[:, 0]
        return {"shares": shares.T, "draws": draws.long().T}

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        """The draws decide everything; the shares are never seen."""
        draws = latent["draws"]
        shown = draws[:, : self.length]
        tokens = torch.cat([torch.full_like(draws[:, :1], self.symbols), shown], 1)
        readout = torch.arange(1, self.positions, device=draws.device)
        belief = predictive(torch.nn.functional.one_hot(shown, self.symbols).cumsum(1), self.concentration, dtype)
        return Episodes(Inputs(tokens, None, readout), draws[:, 1:], belief, dict(latent))

    def read(self, inputs: Inputs) -> Tensor:
        """What the inputs state: the draws (n, K)."""
        return inputs.tokens[:, 1:]

    def token_names(self) -> list[str]:
        return [*(f"c{i}" for i in range(self.symbols)), "START"]


def predictive(counts: Tensor, concentration: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """(…, V) posterior predictive (α + c_v) / Σ_u (α + c_u) from counts (…, V)."""
    weights = counts.to(dtype) + concentration
    return weights / (concentration * counts.shape[-1] + counts.sum(-1, keepdim=True).to(dtype))
