"""Each tunnel in the words of the instruments: its hypotheses' tokens, its belief, and where attention should go."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.tunnels import HMM, Bijection, Episodes, Recall, Tunnel
from windtunnel.tunnels.filtering import forward_filter, likelihoods, predict_symbols


def token_groups(tunnel: Tunnel) -> dict[str, np.ndarray]:
    """Sets of tokens that stand for rival hypotheses: name -> token numbers."""
    if isinstance(tunnel, Bijection):
        return {"keys": np.arange(tunnel.symbols), "values": tunnel.symbols + np.arange(tunnel.symbols)}
    if isinstance(tunnel, Recall):
        return {"keys": np.arange(tunnel.keys), "values": tunnel.keys + np.arange(tunnel.values)}
    if isinstance(tunnel, HMM):
        groups = {"symbols": np.arange(tunnel.symbols)}
        if tunnel.header == "rows":
            first = tunnel.symbols + np.arange(tunnel.states)
            groups |= {"transition rows": first, "emission rows": first + tunnel.states}
        return groups
    return {}


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


def window_belief(tunnel: Tunnel, episodes: Episodes, window: int) -> np.ndarray | None:
    """(n, K, C) the belief of one who saw only the last `window` observations (pairs, in bijection); None in recall."""
    if isinstance(tunnel, HMM):
        log_probs = WindowFilter(replace(tunnel, predict="state"), window).log_probs(episodes.inputs)
        return log_probs.exp().cpu().numpy()
    if isinstance(tunnel, Bijection):
        keys, values = (episodes.latent[name].cpu().numpy() for name in ("keys", "values"))
        return _bijection_window(keys, values, tunnel.symbols, window)
    return None


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


def attention_targets(tunnel: Tunnel, episodes: Episodes) -> dict[str, Target]:
    """Where attention should go, in terms of the task: name -> positions."""
    readout = episodes.inputs.readout.cpu().numpy()
    tokens = episodes.inputs.tokens.cpu().numpy()
    position = np.arange(tokens.shape[1])
    count, reads, length = len(tokens), len(readout), tokens.shape[1]

    def fixed(mask: np.ndarray) -> Target:
        return Target(np.broadcast_to(mask, (count, reads, length)), True)

    if isinstance(tunnel, Bijection):
        is_value = np.isin(position, readout[:-1] + 1)
        found = {"spent values": fixed(is_value & (position < readout[:, None]))}
        if tunnel.replacement:
            found |= _matching(tokens, readout, memory=np.isin(position, readout), offset=1)
        return found
    if isinstance(tunnel, Recall):
        memory = (position < 4 * tunnel.slots) & (position % 4 == 1)
        return _matching(tokens, readout, memory, offset=2)
    if isinstance(tunnel, HMM):
        start = tunnel.header_positions
        lag = readout[:, None] - position
        seen = (position >= start) & (lag >= 0)
        found = {f"lag {k}": fixed(seen & (lag == k)) for k in range(3) if k < reads}
        if reads > 3:
            found["lag 3 or more"] = fixed(seen & (lag >= 3))
        if tunnel.header == "rows":
            header = np.broadcast_to(position < start, (reads, length))
            found["transition rows"] = fixed(header & (position < tunnel.states))
            found["emission rows"] = fixed(header & (position >= tunnel.states))
        elif start:
            found["header"] = fixed(np.broadcast_to(position < start, (reads, length)))
        return found
    return {}


def _matching(tokens: np.ndarray, readout: np.ndarray, memory: np.ndarray, offset: int) -> dict[str, Target]:
    """Earlier places where the key that is asked for stands, and the value that belongs to it `offset` later."""
    same = tokens[:, readout, None] == tokens[:, None, :]
    key = same & memory & (np.arange(tokens.shape[1]) < readout[:, None])
    value = np.zeros_like(key)
    value[..., offset:] = key[..., :-offset]
    return {"matching key": Target(key, False), "matching value": Target(value, False)}
