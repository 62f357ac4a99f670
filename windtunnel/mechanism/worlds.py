"""Edited worlds: the same episode with one thing changed, and its exact belief.

    flip       one past piece of evidence says something else
    exchange   the evidence in another order, or hypotheses renamed: the belief must follow exactly
    shifted    a tunnel whose worlds come from another prior than the one trained on

The tunnel itself recomputes inputs and belief from the edited latent world.  Where a chain has zeros, an edited episode
may be impossible: it has no belief (`Episodes.possible`), and is left out, which a note says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import torch
from torch import Tensor

from windtunnel.errors import InputError, require_int
from windtunnel.mechanism.chance import generator
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn
from windtunnel.tunnels.episodes import Episodes


@dataclass(frozen=True)
class Edited:
    """An edited world.

    episodes  with the exact belief after the edit; NaN where they are not `possible`
    lag       (n, K) int64: readouts since the change; −1 where this readout is not to be compared
    rename    (n, C) int64 or None: class c of the original is class rename[c] of the edited world
    """

    episodes: Episodes
    lag: Tensor
    rename: Tensor | None = None

    def __getitem__(self, kept: Tensor) -> Edited:
        """Some of them, by a mask."""
        return Edited(self.episodes[kept], self.lag[kept], None if self.rename is None else self.rename[kept])

    def differs(self, episodes: Episodes) -> Tensor:
        """(n,) bool: does a predictor see anything else than in these?  An order at random may be the old one."""
        ours, theirs = self.episodes.inputs, episodes.inputs
        found = (ours.tokens != theirs.tokens).any(1)
        if ours.features is not None and theirs.features is not None:
            found |= (ours.features != theirs.features).flatten(1).any(1)
        return found


def middle(tunnel: Tunnel, step: int | None) -> int:
    """The readout an experiment is made at: the one asked for, if there is such a one, else the middle one."""
    if step is None:
        return tunnel.readouts // 2
    require_int("step", step, 0, tunnel.readouts - 1)
    return step


def left_out(possible: Tensor) -> str:
    """The note on changed episodes that cannot happen; `possible` has one truth for each.  Nothing if all can.

    >>> left_out(torch.tensor([True, False, True]))
    '1 of 3 changed episodes left out: impossible under this chain, which has zeros'
    """
    lost, count = int((~possible).sum()), possible.numel()
    return f"{lost} of {count} changed episodes left out: impossible under this chain, which has zeros" if lost else ""


def _refuse(tunnel: Tunnel, what: str, hook: str) -> InputError:
    return InputError(
        f"tunnel = {type(tunnel).__name__}: no {what} is defined for it; "
        f"@windtunnel.mechanism.worlds.{hook}.register does that (examples/new_tunnel.py)"
    )


@singledispatch
def flip(tunnel: Tunnel, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """Change the evidence of readout `step` (recall: of the pair that query `step` asks for)."""
    raise _refuse(tunnel, "evidence flip", "flip")


@singledispatch
def exchange(tunnel: Tunnel, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """Permute what came before readout `step` so that the belief from there on must not change."""
    raise _refuse(tunnel, "exchange", "exchange")


@singledispatch
def shifted(tunnel: Tunnel) -> dict[str, Tunnel]:
    """Tunnels of the same layout under other priors, by name."""
    return {}


def _since(tunnel: Tunnel, episodes: Episodes, step: int, **changed: Tensor) -> Edited:
    """The world with this changed, compared from readout `step` on."""
    lag = (torch.arange(tunnel.readouts, device=episodes.labels.device) - step).clamp_min(-1)
    return Edited(tunnel.episodes(episodes.latent | changed), lag.expand(len(episodes), -1))


# --- hidden Markov models
@flip.register
def _(tunnel: HMM, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """Another symbol at this step, uniform over the others."""
    return _since(
        tunnel, episodes, step, observations=_another(episodes.latent["observations"], step, tunnel.symbols, seed)
    )


@exchange.register
def _(tunnel: HMM, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """Order matters to a filter; the names of the states do not: rename them in the header, and the belief follows."""
    latent = dict(episodes.latent)
    transition, emission = latent["transition"], latent["emission"]
    count, states = transition.shape[:2]
    if tunnel.header is None:
        raise InputError("header = None: states can be renamed only where a header states the matrices")
    keys = torch.rand(count, states, generator=generator(seed))
    order = keys.argsort(1).to(transition.device)  # state order[j] is called j now
    rename = order.argsort(1)
    rows = order[:, :, None]
    transition = transition.gather(1, rows.expand_as(transition))
    latent["transition"] = transition.gather(2, order[:, None, :].expand_as(transition))
    latent["emission"] = emission.gather(1, rows.expand_as(emission))
    latent["states"] = rename.gather(1, latent["states"])
    every = torch.zeros(count, tunnel.readouts, dtype=torch.int64, device=transition.device)
    return Edited(tunnel.episodes(latent), every, rename if tunnel.predict == "state" else None)


@shifted.register
def _(tunnel: HMM) -> dict[str, Tunnel]:
    """None where the matrices are fixed: they have no prior."""
    if tunnel.header is None:
        return {}
    wanted = {
        "concentration 0.3": {"concentration": 0.3},
        "concentration 3": {"concentration": 3.0},
        "rotating": {"dynamics": "rotating", "mixing": None},
        "sticky": {"dynamics": "sticky", "mixing": None},
        "dirichlet": {"dynamics": "dirichlet", "mixing": None, "prior": "dirichlet"},
    }
    return _others(tunnel, wanted)


# --- bijection
@flip.register
def _(tunnel: Bijection, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """The key of this step trades its value with another key: one not shown at all if there is one, else the one that
    is first shown last.  Readouts after the step and up to that first showing are compared."""
    latent = dict(episodes.latent)
    keys, permutation = latent["keys"], latent["permutation"].clone()
    count, length = keys.shape
    first = torch.full((count, tunnel.symbols), length, dtype=torch.int64, device=keys.device)
    steps = torch.arange(length, device=keys.device).expand(count, -1)
    first.scatter_reduce_(1, keys, steps, "amin")  # when each key is first shown
    mine = keys[:, step : step + 1]
    score = first.double() + torch.rand(first.shape, generator=generator(seed, step)).to(first.device)
    other = score.scatter(1, mine, -1.0).argmax(1, keepdim=True)
    a, b = permutation.gather(1, mine), permutation.gather(1, other)
    latent["permutation"] = permutation.scatter(1, mine, b).scatter(1, other, a)
    until, start = first.gather(1, other), first.gather(1, mine)
    lag = torch.where((steps > start) & (steps <= until), steps - start, -1)
    return Edited(tunnel.episodes(latent), lag)


@exchange.register
def _(tunnel: Bijection, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """The pairs before this step in another order."""
    return _since(tunnel, episodes, step, keys=_reordered(episodes.latent["keys"], step, seed))


@shifted.register
def _(tunnel: Bijection) -> dict[str, Tunnel]:
    name = "without replacement" if tunnel.replacement else "with replacement"
    return _others(tunnel, {name: {"replacement": not tunnel.replacement}})


# --- recall
@flip.register
def _(tunnel: Recall, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """The pair that query `step` asks for gets another value, in every showing; one that is not stored, if there is."""
    latent = dict(episodes.latent)
    pair = (latent["keys"] == latent["queries"][:, step : step + 1]).int().argmax(1, keepdim=True)
    score = torch.rand(len(pair), tunnel.values, generator=generator(seed, step)).to(pair.device) + 1.0
    score = score.scatter(1, latent["shown"], 0.0).scatter(1, latent["values"].gather(1, pair), -1.0)
    new = score.argmax(1, keepdim=True)
    latent["shown"] = torch.where(latent["order"] == pair, new, latent["shown"])
    latent["values"] = latent["values"].scatter(1, pair, new)
    asked = torch.arange(tunnel.readouts, device=pair.device) == step
    latent["answers"] = torch.where(asked, new, latent["answers"])
    return Edited(tunnel.episodes(latent), torch.where(asked, 0, -1).expand(len(pair), -1))


@exchange.register
def _(tunnel: Recall, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """The store slots in another order."""
    latent = dict(episodes.latent)
    order = torch.rand(latent["order"].shape, generator=generator(seed)).argsort(1).to(latent["order"].device)
    latent["order"], latent["shown"] = latent["order"].gather(1, order), latent["shown"].gather(1, order)
    every = torch.zeros(len(order), tunnel.readouts, dtype=torch.int64, device=order.device)
    return Edited(tunnel.episodes(latent), every)


@shifted.register
def _(tunnel: Recall) -> dict[str, Tunnel]:
    return _others(tunnel, {"noise 0.2": {"noise": 0.2}, "no noise": {"noise": 0.0}})


# --- urn
@flip.register
def _(tunnel: Urn, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """Another colour at this draw, uniform over the others."""
    return _since(tunnel, episodes, step, draws=_another(episodes.latent["draws"], step, tunnel.symbols, seed))


@exchange.register
def _(tunnel: Urn, episodes: Episodes, step: int, *, seed: int = 0) -> Edited:
    """The draws before this one in another order."""
    return _since(tunnel, episodes, step, draws=_reordered(episodes.latent["draws"], step, seed))


@shifted.register
def _(tunnel: Urn) -> dict[str, Tunnel]:
    return _others(tunnel, {f"concentration {one:g}": {"concentration": one} for one in (0.05, 0.2, 1.0)})


def _another(evidence: Tensor, step: int, kinds: int, seed: int) -> Tensor:
    """(n, K) with another of so many kinds at this step, uniform over the others."""
    other = torch.randint(1, kinds, (len(evidence),), generator=generator(seed, step)).to(evidence.device)
    changed = evidence.clone()
    changed[:, step] = (changed[:, step] + other) % kinds
    return changed


def _reordered(evidence: Tensor, step: int, seed: int) -> Tensor:
    """(n, K) with what stands before this step in another order, each row in its own."""
    order = torch.rand(len(evidence), step, generator=generator(seed)).argsort(1).to(evidence.device)
    changed = evidence.clone()
    changed[:, :step] = changed[:, :step].gather(1, order)
    return changed


def _others(tunnel, wanted: dict[str, dict]) -> dict[str, Tunnel]:
    """Those of the wanted variations that differ from home and exist."""
    found = {}
    for name, changes in wanted.items():
        try:
            other = replace(tunnel, **changes)
        except InputError:
            continue
        if other != tunnel and all(getattr(other, part) == getattr(tunnel, part) for part in ("vocabulary", "classes")):
            found[name] = other
    return found
