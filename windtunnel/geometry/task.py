"""Each tunnel in the words of the instruments: its hypotheses' tokens, its belief, and where attention should go.

For your own tunnel, `token_groups`, `window_belief` and `attention_targets` can be registered from outside the package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
import torch

from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.tunnels import HMM, Bijection, Episodes, Recall, Tunnel
from windtunnel.tunnels.filtering import forward_filter, likelihoods, predict_symbols


@singledispatch
def token_groups(tunnel: Tunnel) -> dict[str, np.ndarray]:
    """Sets of tokens that stand for rival hypotheses: name -> token numbers.

    Add yours with `@token_groups.register`.
    """
    return {}


@token_groups.register
def _(tunnel: Bijection) -> dict[str, np.ndarray]:
    return {"keys": np.arange(tunnel.symbols), "values": tunnel.symbols + np.arange(tunnel.symbols)}


@token_groups.register
def _(tunnel: Recall) -> dict[str, np.ndarray]:
    return {"keys": np.arange(tunnel.keys), "values": tunnel.keys + np.arange(tunnel.values)}


@token_groups.register
def _(tunnel: HMM) -> dict[str, np.ndarray]:
    groups = {"symbols": np.arange(tunnel.symbols)}
    if tunnel.header == "rows":
        first = tunnel.symbols + np.arange(tunnel.states)
        groups |= {"transition rows": first, "emission rows": first + tunnel.states}
    return groups


def exact_belief(tunnel: Tunnel, episodes: Episodes) -> np.ndarray:
    """(n, K, C) the belief that a network must carry: about hidden states in an HMM, also if it predicts symbols."""
    if isinstance(tunnel, HMM) and tunnel.predict == "symbol":
        return _hmm_filter(tunnel, episodes).permute(2, 0, 1).cpu().numpy()
    return episodes.posterior.double().cpu().numpy()


def next_token(tunnel: Tunnel, episodes: Episodes) -> np.ndarray | None:
    """(n, K, M) exact probability of the next observation; None where that *is* the belief."""
    if not isinstance(tunnel, HMM):
        return None
    transition, emission, _ = _matrices(tunnel, episodes)
    return predict_symbols(_hmm_filter(tunnel, episodes), transition, emission).permute(2, 0, 1).cpu().numpy()


@singledispatch
def window_belief(tunnel: Tunnel, episodes: Episodes, window: int) -> np.ndarray | None:
    """(n, K, C) the belief given only the last `window` observations; None where that is not defined.

    Add yours with `@window_belief.register`.
    """
    return None


@window_belief.register
def _(tunnel: HMM, episodes: Episodes, window: int) -> np.ndarray:
    log_probs = WindowFilter(replace(tunnel, predict="state"), window).log_probs(episodes.inputs)
    return log_probs.exp().cpu().numpy()


@window_belief.register
def _(tunnel: Bijection, episodes: Episodes, window: int) -> np.ndarray:
    """Of the last pairs."""
    keys, values = (episodes.latent[name].cpu().numpy() for name in ("keys", "values"))
    return _bijection_window(keys, values, tunnel.symbols, window)


def _bijection_window(keys: np.ndarray, values: np.ndarray, symbols: int, window: int) -> np.ndarray:
    count, steps = keys.shape
    belief = np.empty((count, steps, symbols))
    for step in range(steps):
        recent = slice(max(0, step - window), step)
        left = ~(values[:, recent, None] == np.arange(symbols)).any(1)
        seen = (keys[:, recent] == keys[:, step, None]).any(1)
        truth = values[:, step, None] == np.arange(symbols)
        belief[:, step] = np.where(seen[:, None], truth, left / np.maximum(left.sum(1, keepdims=True), 1))
    return belief


def _matrices(tunnel: HMM, episodes: Episodes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    transition, emission = (episodes.latent[name].double().permute(1, 2, 0) for name in ("transition", "emission"))
    return transition, emission, episodes.latent["observations"][:, : tunnel.length].T


def _hmm_filter(tunnel: HMM, episodes: Episodes) -> torch.Tensor:
    transition, emission, observations = _matrices(tunnel, episodes)
    return forward_filter(transition, likelihoods(emission, observations))


@dataclass(frozen=True)
class Target:
    """Positions that matter to a readout.

    mask    (n, K, T) bool; a readout whose row is empty is left out
    fixed   the same in every episode, so that another episode's positions are no control
    """

    mask: np.ndarray
    fixed: bool


@singledispatch
def attention_targets(tunnel: Tunnel, episodes: Episodes) -> dict[str, Target]:
    """Where attention should go, in terms of the task: name -> positions.

    Add yours with `@attention_targets.register`.
    """
    return {}


@attention_targets.register
def _(tunnel: Bijection, episodes: Episodes) -> dict[str, Target]:
    tokens, readout, position = _layout(episodes)
    is_value = np.isin(position, readout[:-1] + 1)
    found = {"spent values": _fixed(is_value & (position < readout[:, None]), len(tokens))}
    if tunnel.replacement:
        found |= _matching(tokens, readout, memory=np.isin(position, readout), offset=1)
    return found


@attention_targets.register
def _(tunnel: Recall, episodes: Episodes) -> dict[str, Target]:
    tokens, readout, position = _layout(episodes)
    memory = (position < 4 * tunnel.slots) & (position % 4 == 1)
    return _matching(tokens, readout, memory, offset=2)


@attention_targets.register
def _(tunnel: HMM, episodes: Episodes) -> dict[str, Target]:
    tokens, readout, position = _layout(episodes)
    start, lag = tunnel.header_positions, readout[:, None] - position
    seen, before = (position >= start) & (lag >= 0), np.broadcast_to(position < start, lag.shape)
    found = {f"lag {k}": seen & (lag == k) for k in range(3) if k < len(readout)}
    if len(readout) > 3:
        found["lag 3 or more"] = seen & (lag >= 3)
    if tunnel.header == "rows":
        found["transition rows"] = before & (position < tunnel.states)
        found["emission rows"] = before & (position >= tunnel.states)
    elif start:
        found["header"] = before
    return {name: _fixed(mask, len(tokens)) for name, mask in found.items()}


def _layout(episodes: Episodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens (n, T), readouts (K,) and positions (T,)."""
    tokens = episodes.inputs.tokens.cpu().numpy()
    return tokens, episodes.inputs.readout.cpu().numpy(), np.arange(tokens.shape[1])


def _fixed(mask: np.ndarray, count: int) -> Target:
    """The same positions (K, T) for so many episodes."""
    return Target(np.broadcast_to(mask, (count, *mask.shape)), True)


def _matching(tokens: np.ndarray, readout: np.ndarray, memory: np.ndarray, offset: int) -> dict[str, Target]:
    """Earlier places where the key that is asked for stands, and the value that belongs to it `offset` later."""
    same = tokens[:, readout, None] == tokens[:, None, :]
    key = same & memory & (np.arange(tokens.shape[1]) < readout[:, None])
    value = np.zeros_like(key)
    value[..., offset:] = key[..., :-offset]
    return {"matching key": Target(key, False), "matching value": Target(value, False)}
