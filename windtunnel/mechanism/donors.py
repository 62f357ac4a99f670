"""Donors matched in evidence: the same question under other evidence of the same kind, with its exact belief.

A donor is made by editing the recipient's latent world, so the tunnel itself says what the donor should believe:

    HMM        the same header; observations up to a step from another episode, the recipient's own after it
    bijection  the same keys in the same order; another episode's permutation
    recall     the same keys, order and queries; all values renamed by one shift
    urn        draws up to a step from another episode, the recipient's own after it

A *mismatched* donor is simply another episode, header, keys and all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor

from windtunnel.errors import InputError, require_int
from windtunnel.mechanism.chance import derangement, generator
from windtunnel.mechanism.worlds import left_out
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn
from windtunnel.tunnels.episodes import Episodes


@dataclass(frozen=True)
class Donors:
    """Donor episodes and where they can be compared.

    episodes  the donors' worlds with their exact beliefs, one per recipient; NaN where they are not `possible`
    readouts  (K,) bool: where a prediction that took up the donor's evidence should equal the donor's belief
    """

    episodes: Episodes
    readouts: Tensor


@singledispatch
def donors(tunnel: Tunnel, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    """Donors matched in evidence.

    step  readout at which the donor's tensor will be put; None: at every readout, all evidence is the donor's
    """
    raise InputError(
        f"tunnel = {type(tunnel).__name__}: no matched donors are defined for it; "
        "@windtunnel.mechanism.donors.register does that (examples/new_tunnel.py)"
    )


def matched(tunnel: Tunnel, episodes: Episodes, step: int | None = None) -> tuple[Episodes, Donors, str]:
    """Recipients, their donors, and a note on the pairs left out because the donor cannot happen (see `worlds`)."""
    given = donors(tunnel, episodes, step)
    possible = given.episodes.possible.all(1)
    if possible.all():
        return episodes, given, ""
    note = left_out(possible)
    if possible.sum() < 2:
        raise InputError(f"{note}; at least 2 must remain")
    return episodes[possible], Donors(given.episodes[possible], given.readouts), note


def _readouts(tunnel: Tunnel, step: int | None, later: bool) -> Tensor:
    if step is None:
        return torch.ones(tunnel.readouts, dtype=torch.bool)
    require_int("step", step, 0, tunnel.readouts - 1)
    index = torch.arange(tunnel.readouts)
    return index >= step if later else index == step


@donors.register
def _hmm(tunnel: HMM, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    return _beginning(tunnel, episodes, "observations", step, seed)


@donors.register
def _urn(tunnel: Urn, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    return _beginning(tunnel, episodes, "draws", step, seed)


def _beginning(tunnel: Tunnel, episodes: Episodes, evidence: str, step: int | None, seed: int) -> Donors:
    """Evidence (n, K) of another episode up to and with this step, one's own after it."""
    mixed = episodes.latent[evidence].clone()
    partner, upto = derangement(len(episodes), seed), mixed.shape[1] if step is None else step + 1
    mixed[:, :upto] = mixed[partner.to(mixed.device), :upto]
    return Donors(tunnel.episodes(episodes.latent | {evidence: mixed}), _readouts(tunnel, step, later=True))


@donors.register
def _bijection(tunnel: Bijection, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    latent, partner = dict(episodes.latent), derangement(len(episodes), seed)
    latent["permutation"] = latent["permutation"][partner.to(latent["permutation"].device)]
    return Donors(tunnel.episodes(latent), _readouts(tunnel, step, later=False))


@donors.register
def _recall(tunnel: Recall, episodes: Episodes, step: int | None = None, *, seed: int = 0) -> Donors:
    latent = dict(episodes.latent)
    shift = torch.randint(1, tunnel.values, (len(episodes), 1), generator=generator(seed))
    for name in ("values", "shown", "answers"):
        latent[name] = (latent[name] + shift.to(latent[name].device)) % tunnel.values
    return Donors(tunnel.episodes(latent), _readouts(tunnel, step, later=False))
