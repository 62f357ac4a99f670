"""Bijection baselines: what can be had without binding a key to its value, or without accumulating."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from windtunnel.errors import require_choice
from windtunnel.fidelity.baselines.common import Baseline, uniform_over
from windtunnel.fidelity.predictor import Predictor
from windtunnel.tunnels.bijection import Bijection, repeats_earlier
from windtunnel.tunnels.episodes import Inputs


@dataclass(frozen=True)
class ValueSets(Baseline):
    """Predictors that accumulate *sets* (values shown, keys shown) but bind no key to a value.

    rule "set-complement": uniform over the values not yet shown, whatever the key.  Exact without replacement; with
    replacement it rules out the truth whenever a key comes back, and its KL is infinite.
    rule "familiarity": that for a new key; for a seen key uniform over the d values shown so far.
    """

    kind: ClassVar = Bijection
    tunnel: Bijection
    rule: Literal["set-complement", "familiarity"]

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("rule", self.rule, ("set-complement", "familiarity"))

    @property
    def reads(self) -> tuple[str, ...]:
        """A rule that is exact without replacement must not be taken for one that is meant for it."""
        return ("replacement",)

    def _predict(self, inputs: Inputs) -> Tensor:
        """(n, K, V) natural log."""
        symbols = self.tunnel.symbols
        keys = inputs.tokens[:, inputs.readout]
        values = inputs.tokens[:, inputs.readout[:-1] + 1] - symbols
        shown = torch.nn.functional.one_hot(values, symbols).cumsum(1) > 0
        shown = torch.cat([torch.zeros_like(keys, dtype=torch.bool)[:, :1, None].expand(-1, -1, symbols), shown], 1)
        left = uniform_over(~shown)
        if self.rule == "set-complement":
            return left
        return torch.where(repeats_earlier(keys)[..., None], uniform_over(shown), left)


@dataclass(frozen=True)
class LastPair(Baseline):
    """The exact belief of one who saw only the last pair (k', v') and the key asked for.

    The same key: its value.  Another: uniform over the V − 1 values it left.  The first key: uniform over all.
    """

    kind: ClassVar = Bijection
    tunnel: Bijection

    @property
    def reads(self) -> tuple[str, ...]:
        """Nothing: one pair tells the same with replacement and without."""
        return ()

    def _predict(self, inputs: Inputs) -> Tensor:
        """(n, K, V) natural log."""
        symbols = self.tunnel.symbols
        keys = inputs.tokens[:, inputs.readout]
        value = torch.nn.functional.one_hot(inputs.tokens[:, inputs.readout[:-1] + 1] - symbols, symbols) > 0
        again = (keys[:, 1:] == keys[:, :-1])[..., None]
        later = uniform_over(torch.where(again, value, ~value))
        return torch.cat(
            [uniform_over(torch.ones_like(keys, dtype=torch.bool)[:, :1, None].expand(-1, -1, symbols)), later], 1
        )


def bijection_baselines(tunnel: Bijection) -> dict[str, Predictor]:
    """Name -> predictor."""
    return {
        "set-complement": ValueSets(tunnel, "set-complement"),
        "familiarity": ValueSets(tunnel, "familiarity"),
        "last-observation": LastPair(tunnel),
    }
