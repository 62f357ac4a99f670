"""Run a model and keep its named tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require, whole_number
from windtunnel.fidelity.predictor import evaluation_mode, full_precision
from windtunnel.models.base import Sizes
from windtunnel.models.device import device_of
from windtunnel.models.taps import Record, require_matched
from windtunnel.tunnels.episodes import Episodes, Inputs


@torch.no_grad()
def trace(
    model: nn.Module,
    episodes: Episodes | Inputs,
    names: str | Iterable[str] | None = None,
    *,
    chunk: int = 256,
    device: str | torch.device = "cpu",
) -> dict[str, Tensor]:
    """Named tensors (n, …) of a forward pass, in its order.

    names   glob patterns such as "blocks.*.residual"; all tensors if None.  Only what matches is kept.
    chunk   episodes per forward pass: peak memory is that of one chunk plus what is kept
    device  where the result goes; the model runs where it is
    """
    chunk = whole_number("chunk", chunk, 1)
    patterns = None if names is None else [names] if isinstance(names, str) else list(names)
    require(all(isinstance(one, str) for one in patterns or ()), "names", names, "a glob pattern, or a list of them")
    if not has_taps(model):
        raise InputError(f"model {getattr(model, 'name', type(model).__name__)} has no taps: nothing to trace")
    inputs = episodes.inputs if isinstance(episodes, Episodes) else episodes
    require(isinstance(inputs, Inputs), "episodes", episodes, "episodes, or their inputs")
    require_device(str(device))
    _require_fit(model, inputs, episodes)
    kept: dict[str, Tensor] = {}
    with evaluation_mode([model]), full_precision():  # as where it is scored: what is recorded may be replayed there
        for first in range(0, max(1, len(inputs)), chunk):  # once for no episodes: names are looked at, and have shapes
            record = Record(patterns)
            part = inputs[first : first + chunk].to(device_of(model, inputs.tokens))
            model(part.tokens, part.features, part.readout, record)
            require_matched(patterns or (), record.seen, lambda: tap_names(model))
            for name, value in record.tensors().items():
                if name not in kept:
                    kept[name] = torch.empty(len(inputs), *value.shape[1:], dtype=value.dtype, device=device)
                kept[name][first : first + len(value)] = value
    return kept


def _require_fit(model: nn.Module, inputs: Inputs, episodes: Episodes | Inputs) -> None:
    """Raise where a network that says for which sizes it was built (`models.Sizes`) is shown episodes of others."""
    sizes = getattr(model, "sizes", None)
    if not isinstance(sizes, Sizes):
        return
    found = {"feature_width": 0 if inputs.features is None else inputs.features.shape[-1]}
    if isinstance(episodes, Episodes):
        found["classes"] = episodes.posterior.shape[-1]
    for name, value in found.items():
        built = getattr(sizes, name)
        require(built == value, f"the model's {name}", built, f"the episodes' {value}")
    last = int(inputs.tokens.max()) if inputs.tokens.numel() else 0
    room = last < sizes.vocabulary
    require(room, "the model's vocabulary", sizes.vocabulary, f"above the episodes' token {last}")


def has_taps(model: nn.Module) -> bool:
    """Whether the model passes named tensors to a tap.  A model that does not can still be scored."""
    return bool(getattr(model, "has_taps", hasattr(model, "taps")))


def tap_names(model: nn.Module) -> list[str]:
    """The names of a model's taps, in order (none for a model without); `model.taps()` has their shapes too."""
    return list(model.taps()) if has_taps(model) else []  # pyright: ignore[reportCallIssue]
