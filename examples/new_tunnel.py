"""Write your own tunnel: several coins of known bias, one is drawn and tossed.  Which is it?

    P(coin c | tosses 1 … t) ∝ Π over tosses of  bias_c (heads)  or  1 − bias_c (tails)

Only part 1 is required: with it the tunnel can be sampled, checked, trained on and scored.  Each function of the other
parts is optional, and makes something possible:

    part 2   what to compare with                    wt.baselines, windtunnel baselines and evaluate
    part 3   the primitive that it tests             wt.primitives, a line of windtunnel evaluate
    part 4   what the representation may hold        the instruments `beliefs` (beyond a window) and `alignment`
    part 5   interventions with a known answer       `patch`, `dose`, `swap`, `flip`, `exchange`, `shift`

Run:  python examples/new_tunnel.py
Or:   windtunnel --plugin examples.new_tunnel train coins transformer --coins 3 --out runs/coins
"""
# ruff: noqa: E402 (each part imports what it needs, so that it can be left out as it stands)

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

import windtunnel as wt
from windtunnel.errors import require_int, require_number
from windtunnel.tunnels import Episodes, Inputs, Source, Tunnel

# ---------------------------------------------------------------- part 1, required: the world and its exact belief
WHICH, TOSSED = 0, 1  # sites of the random stream: each drawn number has its own, so that none depends on the batch


@dataclass(frozen=True)
class Coins(Tunnel):
    """Coins of evenly spaced bias, all equally likely.  latent: coin (n,), tosses (n, K), 1 for heads."""

    coins: int = 5
    """C: how many."""
    length: int = 12
    """K: tosses shown."""
    fairness: float = 0.0
    """From 0, where the biases are spread out, to 1, where all coins are fair."""

    summary: ClassVar[str] = "which of several coins is tossed; belief by counting heads"

    def __post_init__(self) -> None:
        require_int("coins", self.coins, 2)
        require_int("length", self.length, 1)
        require_number("fairness", self.fairness, 0, 1)

    @property
    def vocabulary(self) -> int:
        return 2

    @property
    def feature_width(self) -> int:
        return 0

    @property
    def classes(self) -> int:
        return self.coins

    @property
    def positions(self) -> int:
        return self.length

    @property
    def readouts(self) -> int:
        return self.length

    @property
    def primitives(self) -> tuple[str, ...]:
        return ("accumulation",)

    @property
    def hypotheses_log2(self) -> float:
        return math.log2(self.coins)

    @property
    def bias(self) -> Tensor:
        """(C,) probability of heads."""
        spread = (torch.arange(self.coins, dtype=torch.float64) + 1) / (self.coins + 1)
        return self.fairness * 0.5 + (1 - self.fairness) * spread

    def evidence(self, tosses: Tensor) -> Tensor:
        """(…, C) log-likelihood of each toss (…) under each coin."""
        bias = self.bias.to(tosses.device)
        return torch.where(tosses[..., None] == 1, bias.log(), (1 - bias).log())

    def draw(self, source: Source) -> dict[str, Tensor]:
        coin = source.integers(WHICH, self.coins)
        heads = source.uniform(TOSSED, self.length) < self.bias.to(coin.device)[coin]
        return {"coin": coin, "tosses": heads.long().T}

    def episodes(self, latent: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Episodes:
        """The tosses decide everything, so an experiment may change them and the belief follows."""
        tosses = latent["tosses"]
        belief = self.evidence(tosses).cumsum(1).softmax(-1).to(dtype)
        readout = torch.arange(self.length, device=tosses.device)
        return Episodes(Inputs(tosses, None, readout), latent["coin"][:, None].expand_as(tosses), belief, dict(latent))


wt.tunnels.register("coins", Coins)


# ---------------------------------------------------------------- part 2: what to compare with
from windtunnel.fidelity import Predictor
from windtunnel.fidelity.baselines import own_baselines


@dataclass(frozen=True)
class LastToss:
    """Exact inference from the last toss alone."""

    tunnel: Coins

    def log_probs(self, inputs: Inputs) -> Tensor:
        return self.tunnel.evidence(inputs.tokens[:, inputs.readout]).log_softmax(-1)


@own_baselines.register
def _(tunnel: Coins) -> dict[str, Predictor]:
    return {"last-toss": LastToss(tunnel)}


# ---------------------------------------------------------------- part 3: what counting adds to the last toss
@wt.study.trial.register
def _(tunnel: Coins) -> wt.study.Trial:
    return wt.study.Trial("accumulation", without={"last-toss": LastToss(tunnel)})


# ---------------------------------------------------------------- part 4: what the representation may hold
# `token_groups`, for `keys`, needs three rival tokens, and a coin has two sides.
from windtunnel.geometry.task import Target, attention_targets, window_belief


@window_belief.register
def _(tunnel: Coins, episodes: Episodes, window: int) -> np.ndarray:
    """For `beliefs` beyond a window: the belief from the last few tosses alone."""
    evidence = tunnel.evidence(episodes.latent["tosses"]).cumsum(1)
    evidence[:, window:] -= evidence[:, :-window].clone()
    return evidence.softmax(-1).cpu().numpy()


@attention_targets.register
def _(tunnel: Coins, episodes: Episodes) -> dict[str, Target]:
    """For `alignment`: the tosses before this one, which count as much as it does."""
    before = np.tri(tunnel.length, k=-1, dtype=bool)  # (K, T)
    return {"tosses before": Target(np.broadcast_to(before, (len(episodes), *before.shape)), fixed=True)}


# ---------------------------------------------------------------- part 5: interventions with a known answer
# The tunnel recomputes the belief of every changed episode.
from windtunnel.mechanism import Donors, donors
from windtunnel.mechanism.chance import derangement
from windtunnel.mechanism.worlds import Edited, exchange, flip, shifted


@donors.register
def _(tunnel: Coins, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    """For `patch`, `dose`, `swap`: another episode's tosses up to a step, the recipient's own after it."""
    tosses, upto = episodes.latent["tosses"].clone(), tunnel.length if step is None else step + 1
    tosses[:, :upto] = tosses[derangement(len(tosses), seed).to(tosses.device), :upto]
    compared = torch.arange(tunnel.length) >= (0 if step is None else step)
    return Donors(tunnel.episodes(episodes.latent | {"tosses": tosses}), compared)


def _since(tunnel: Coins, episodes: Episodes, step: int, tosses: Tensor) -> Edited:
    """Other tosses, compared from a step on."""
    lag = (torch.arange(tunnel.length, device=tosses.device) - step).clamp_min(-1)
    return Edited(tunnel.episodes(episodes.latent | {"tosses": tosses}), lag.expand_as(tosses))


@flip.register
def _(tunnel: Coins, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """For `flip`: one toss falls on the other side."""
    tosses = episodes.latent["tosses"].clone()
    tosses[:, step] = 1 - tosses[:, step]
    return _since(tunnel, episodes, step, tosses)


@exchange.register
def _(tunnel: Coins, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """For `exchange`: the tosses before a step in reverse order, which must change nothing from there on."""
    tosses = episodes.latent["tosses"].clone()
    tosses[:, :step] = tosses[:, :step].flip(1)
    return _since(tunnel, episodes, step, tosses)


@shifted.register
def _(tunnel: Coins) -> dict[str, Tunnel]:
    """For `shift`: coins that are more alike than those of training."""
    return {"fairer coins": replace(tunnel, fairness=0.5)}


# ---------------------------------------------------------------- all of it, run
if __name__ == "__main__":
    tunnel = Coins()
    # Shapes, ranges, and whether labels follow the belief; whether it is exact, only a test can show.
    print(wt.tunnels.check(tunnel))
    run = wt.train(tunnel, "transformer", preset="quick", steps=150, supervision="posterior", device="cpu")
    for name, predictor in {"this run": run, **wt.baselines(tunnel)}.items():
        print(f"{name:12} {wt.evaluate(predictor, tunnel, episodes=2000).kl_bits.mean:.4f} bits from the exact belief")
    print(wt.primitives(run, episodes=1000))
    survey = wt.mechanism.inspect(run, only=["patch", "flip", "exchange", "shift"], episodes=32, untrained=2)
    for entry, found in survey.measurements():
        print(f"{entry.instrument}: {found.name}, {found.where}: {found.value:.3f} {found.unit}")
