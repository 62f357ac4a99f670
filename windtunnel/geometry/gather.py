"""Activations as plain arrays: which tensors a network names, and their values where it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.models import SequenceModel, from_spec, has_taps, trace
from windtunnel.models.device import device_of
from windtunnel.models.taps import Record
from windtunnel.tunnels.episodes import Episodes

CHUNK = 32  # episodes per forward pass
TWIN_SEED = 1_000_003  # of the first untrained twin
_HEADS_FIRST = ("q", "k", "v", "scores", "pattern", "head_out", "read", "beta", "decay")
_LEAVING = ("final", "logits")  # after the last block, at the readouts alone: (n, K, …)


@torch.no_grad()
def named(model: nn.Module, episodes: Episodes) -> list[str]:
    """The names of all tensors a model hands to a tap, in order of the forward pass; none if it has no taps."""
    if not has_taps(model):
        return []
    record, one = Record(), episodes.inputs[:1].to(device_of(model, episodes.inputs.tokens))
    model(one.tokens, one.features, one.readout, record)
    return list(record.seen)


def ending(names: Sequence[str], suffix: str) -> list[str]:
    """Names of one kind, a layer each: those that end with `suffix`.

    >>> ending(["embed", "blocks.0.residual", "blocks.0.residual_mid"], ".residual")
    ['blocks.0.residual']
    """
    return [name for name in names if name.endswith(suffix)]


def layer_of(name: str) -> int | str:
    """The number of a block, or the name of what stands outside the blocks.

    >>> layer_of("blocks.3.residual"), layer_of("embed")
    (3, 'embed')
    """
    found = re.match(r"blocks\.(\d+)\.", name)
    return int(found.group(1)) if found else name


def heads_first(name: str) -> bool:
    """Whether a tensor is (n, H, T, …) rather than (n, T, …)."""
    return ".attention." in name and name.rpartition(".")[2] in _HEADS_FIRST


def entrance(names: Iterable[str]) -> str | None:
    """The stream that enters the first block: the last tensor handed over before it; None where there is none.

    >>> entrance(["embed", "positioned", "blocks.0.residual", "logits"]), entrance(["blocks.0.residual", "logits"])
    ('positioned', None)
    """
    before = takewhile(lambda name: not name.startswith("blocks."), names)
    return next(iter([name for name in before if name not in _LEAVING][::-1]), None)


def residual_names(model: nn.Module, episodes: Episodes) -> list[str]:
    """The stream before the blocks, where a network names it, and after each of them."""
    names = named(model, episodes)
    blocks = ending(names, ".residual")
    if not blocks:
        raise InputError(f"{label(model)} hands no residual stream to its taps")
    return [*filter(None, [entrance(names)]), *blocks]


def at_readout(model: nn.Module, episodes: Episodes, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Name to (n, K, D) float64: the tensors at the readout positions, heads laid side by side."""
    kept: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for first in range(0, len(episodes), CHUNK):
        part = episodes[first : first + CHUNK]
        for name, value in trace(model, part, list(names), chunk=CHUNK).items():
            kept[name].append(_read(name, value, part.inputs.readout.cpu()).double().numpy())
    return {name: np.concatenate(parts) for name, parts in kept.items()}


def _read(name: str, value: Tensor, readout: Tensor) -> Tensor:
    if name in _LEAVING:
        return value
    if heads_first(name):
        return value.index_select(2, readout).transpose(1, 2).flatten(2)
    return value.index_select(1, readout).flatten(2)


def label(model: nn.Module) -> str:
    """What to call a model in a sentence."""
    return str(getattr(model, "name", type(model).__name__))


def untrained_twins(model: nn.Module, count: int) -> list[nn.Module]:
    """The same network with fresh weights, from seeds that no training run uses.  None for a foreign module."""
    if not isinstance(model, SequenceModel):
        return []
    return [from_spec(model.spec, seed=TWIN_SEED + index).to(device_of(model)).eval() for index in range(count)]
