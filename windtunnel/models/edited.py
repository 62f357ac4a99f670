"""A network with some of its tensors changed: an ablation or a patch that can be scored like any network.

wt.evaluate(wt.edited(model, {"blocks.0.attention.out": torch.zeros_like}), tunnel)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from windtunnel.accidents import accident
from windtunnel.errors import InputError, one_of_kind, require
from windtunnel.models.taps import Edit, require_matched
from windtunnel.models.trace import has_taps, tap_names
from windtunnel.tunnels.episodes import Inputs


def edited(model: nn.Module, edits: Mapping[str, Callable[..., Tensor]]) -> Edited:
    """The network with changes, as a predictor: `wt.evaluate(wt.edited(model, edits), tunnel)` scores it in bits.

    model  a built-in network or one of your own with taps, as `build`, `run.models[0]` or `zoo.load` give it
    edits  tap name, or glob pattern such as "blocks.*.attention.out", -> a function of the tensor (n, …) that returns
           its replacement, in the same shape; `model.taps()` lists all names with shapes.  The function gets a copy,
           which it may change, and is called for every batch of episodes.  A recurrent tensor is passed one time step
           at a time, without its time axis; a function of two arguments also gets the step (None for a whole tensor).

    A name that matches nothing is refused, because the edit would change nothing and seem to cost nothing.  For an
    exact cost, compare with the same edit with `lambda x: x`, which takes the same path through the network; without a
    tap the last bits of float32 may differ.
    """
    return Edited(model, edits)


class Edited(nn.Module):
    """What `edited` gives: a module, so that it is scored where the network lives and in evaluation mode."""

    def __init__(self, model: nn.Module, edits: Mapping[str, Callable[..., Tensor]]) -> None:
        super().__init__()
        wanted = "one network, e.g. run.models[0]; a module becomes one by models.build(lambda tunnel: net, tunnel)"
        fits = isinstance(model, nn.Module) and hasattr(model, "log_probs")
        require(fits, "model", model, wanted)
        if not has_taps(model):
            raise InputError(f"model {getattr(model, 'name', type(model).__name__)} has no taps: nothing to edit")
        names = isinstance(edits, Mapping) and all(isinstance(name, str) for name in edits)
        require(names, "edits", edits, 'named functions, e.g. {"blocks.0.attention.out": torch.zeros_like}')
        for name, function in edits.items():
            require(callable(function), f"edits[{name!r}]", function, "a function of the tensor")
        require_matched(edits, tap_names(model))
        self.model = model
        self.edits = {name: _guarded(name, function) for name, function in edits.items()}
        self.sizes = getattr(model, "sizes", None)  # `evaluate` refuses a tunnel of others
        self.tunnel = getattr(model, "tunnel", None)  # a network of the zoo brings its own

    def log_probs(self, inputs: Inputs) -> Float[Tensor, "n K C"]:
        """Natural-log probabilities at the readout positions, with the changes."""
        edit = Edit(self.edits)
        found: Any = self.model
        found = found.log_probs(inputs, edit)
        edit.check()
        return found


def _guarded(name: str, function: Callable[..., Tensor]) -> Callable[[Tensor, int | None], Tensor]:
    """The function on a copy, with the step if it asks, moved to where the tensor was; a mistake in it is one line."""
    told = _asks_for_step(function)

    def change(value: Tensor, step: int | None) -> Tensor:
        try:
            found = function(value.clone(), step) if told else function(value.clone())
        except InputError:
            raise
        except Exception as error:  # whatever somebody's function raises, it is told in one line
            raise InputError(f"edits[{name!r}] failed on shape {tuple(value.shape)} ({accident(error)})") from error
        if not isinstance(found, Tensor):
            raise InputError(f"edits[{name!r}] returned {one_of_kind(found)}: must be a tensor {tuple(value.shape)}")
        return found.to(value.device, value.dtype)

    return change


def _asks_for_step(function: Callable) -> bool:
    """Does it need a second argument?  Functions that have no signature, as torch's own, do not."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [one for one in parameters if one.default is one.empty and one.kind in (0, 1)]  # positional
    return len(needed) == 2
