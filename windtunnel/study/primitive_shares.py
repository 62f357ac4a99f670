"""The three primitives, measured: what share of a primitive's worth does a network realise?

    print(wt.primitives(run))                     # of the tunnel it was trained in
    print(wt.primitives([a, b, c], wt.tunnels.Urn()))
    wt.study.shares({"mine": a, "theirs": b}, tunnel)

What a share is: `share.py`; which predictors it is compared with: `trials.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require
from windtunnel.fidelity import evaluate_parts
from windtunnel.fidelity.evaluate import unpack
from windtunnel.models.evaluate import wrapped
from windtunnel.study.share import Share
from windtunnel.study.share_measurement import Sharing
from windtunnel.study.trials import trial, trial_of
from windtunnel.tunnels import Tunnel


def primitives(
    subject: Any,
    tunnel: Tunnel | None = None,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    device: str | torch.device | None = None,
    chunk: int | None = None,
) -> Share:
    """The share of the tunnel's primitive that `subject` realises: 0 is the best predictor without it, 1 is exact.

    subject  a run, a predictor, a module of your own with the forward of `models.adapt`, or a list of these that
             differ by seed
    tunnel   needed unless the subject has one (a run, a network from the zoo).  An urn and a bijection test
             accumulation, rotating HMMs transport, bijections with replacement and recall without noise binding

    The other options are those of `evaluate`.
    """
    if device is not None:
        require_device(str(device))  # before a run loads its networks
    networks, tunnel = unpack(wrapped(subject, tunnel), tunnel)
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "stream": stream, "device": device, "chunk": chunk}
    return shares({"subject": networks}, tunnel, **options)["subject"]


def shares(
    subjects: Mapping[str, Any],
    tunnel: Tunnel,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    device: str | torch.device | None = None,
    chunk: int | None = None,
) -> dict[str, Share]:
    """The share that each of several subjects realises, by name and on the same episodes; all else as `primitives`."""
    require(isinstance(subjects, Mapping), "subjects", subjects, "subjects by name; `primitives` takes one by itself")
    asked = trial_of(tunnel)
    if trial.dispatch(type(tunnel)) is trial.dispatch(object):
        alone = "what it declares as `primitives` alone is not enough (see CONTRIBUTING.md, Add a tunnel, 5)"
        raise InputError(f"tunnel = {tunnel!r}: must have a trial, added by @wt.study.trial.register; {alone}")
    if asked is None:
        known = "Urn, Bijection, HMM(dynamics='rotating'), Recall(noise=0)"
        own = "for your own there is wt.study.trial, see examples/new_tunnel.py"
        raise InputError(f"tunnel = {tunnel!r}: must be one that tests a primitive: {known}; {own}")
    found = Sharing(tunnel, asked)
    subjects = {name: wrapped(subject, tunnel) for name, subject in subjects.items()}
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "stream": stream, "device": device, "chunk": chunk}
    evaluate_parts(subjects, tunnel, {}, **options, watch=found)
    return {name: found.share(name) for name in subjects}


def reference_rows(tunnel: Tunnel, **options: Any) -> dict[str, Share]:
    """The rows of each candidate for B, and of predictors that lack other primitives: the scale, seen to work."""
    asked = trial_of(tunnel)
    if asked is None:
        return {}
    everyone = {f"B: {name}": p for name, p in asked.without.items()}
    return shares(everyone | dict(asked.others), tunnel, **options)
