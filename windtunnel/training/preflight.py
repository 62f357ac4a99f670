"""A rehearsal: what is to be trained is built and looked at, before there is a folder to leave behind."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn

from windtunnel.accidents import accident
from windtunnel.errors import InputError, require
from windtunnel.models.adapt import copied, parameter_name, require_untouched
from windtunnel.models.base import SequenceModel
from windtunnel.models.build import build, seeded
from windtunnel.models.describe import describe
from windtunnel.models.device import device_of
from windtunnel.models.registry import Factory, find, is_ours, names
from windtunnel.training.optimiser import trainable
from windtunnel.training.recipe import Recipe


class Shape(NamedTuple):
    """What a new run folder keeps of its model.

    spec        the exact shape, of a model that has a name by which it can be built again
    parameters  how many there are, so that nobody has to build the model to tell
    """

    spec: dict[str, Any] | None = None
    parameters: int | None = None


def rehearse(recipe: Recipe, factory: Factory | None) -> Shape:
    """Raise in one line what stands in the way of a training; returns the shape of the model.

    A model of one's own is asked for twice: a function that returns one module again and again would have seeds train
    it in turn (an interval of no width), every rung of a ladder show the same weights, and the next training go on from
    this one.
    """
    network = _built(recipe, factory)
    weights = trainable(network)
    if not is_ours(recipe.model, factory):
        again = {id(weight) for weight in trainable(_built(recipe, factory))}
        shared = any(id(weight) in again for weight in weights)
        allowed = "a function that builds a new module at every call; two calls returned the same weights"
        require(not shared, "model", recipe.model, allowed)
        _require_storable(network, recipe.model)
        _require_room_for_steps(network, recipe.model)
        _require_gradient(network, recipe)
    return Shape(_spec(network), describe(network).params)


def _built(recipe: Recipe, factory: Factory | None) -> nn.Module:
    options = {"seed": recipe.seeds[0], **recipe.model_options}
    return build(factory or recipe.model, recipe.tunnel, **options)


def _require_storable(network: nn.Module, name: str) -> None:
    """Raise unless all of its state can be written as tensors and copied back in place."""
    for field, value in network.state_dict().items():
        if not isinstance(value, Tensor) or field.endswith("_extra_state"):
            told = f"its state has {field}: must be parameters and buffers only (not get_extra_state)"
            raise InputError(f"model {name}: {told}")
        try:
            save({field: torch.empty(0, dtype=value.dtype)})
        except KeyError:
            raise InputError(f"model {name}: {field} is {value.dtype}: must be of a dtype safetensors knows") from None


def _require_room_for_steps(network: nn.Module, name: str) -> None:
    """Raise for trained weights in float16: small gradients are 0 there, large ones infinite, and it would look as if
    the learning rate were to blame."""
    for field, weight in network.named_parameters():
        if weight.requires_grad and weight.dtype == torch.float16:
            called = parameter_name(network, field)
            allowed = "float32, float64 or bfloat16 (precision = bfloat16 computes in half precision by itself)"
            raise InputError(f"model {name}: {called} is float16: weights to be trained must be {allowed}")


def _require_gradient(network: nn.Module, recipe: Recipe) -> None:
    """Raise unless the loss of two episodes can be followed back to the weights.  The network is not used again."""
    name, two = recipe.model, recipe.tunnel.sample(2, dtype=torch.float32)
    inputs = two.inputs.to(device_of(network))
    before = copied(inputs)
    try:
        with torch.enable_grad(), seeded(0):  # dropout draws
            logits = network.train()(inputs.tokens, inputs.features, inputs.readout)
            require_untouched(inputs, before, name)
            if not logits.requires_grad:
                allowed = (
                    "be differentiable: no torch.no_grad(), no detach(), no whole numbers on the way to the logits"
                )
                raise InputError(f"model {name}: its logits have no gradient: forward must {allowed}")
            F.cross_entropy(logits.flatten(0, 1).float(), two.labels.to(logits.device).flatten()).backward()
    except (InputError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:  # whatever a foreign module raises, the user is told in one line
        raise InputError(f"model {name}: a training step failed ({accident(error)})") from error


def _spec(network: nn.Module) -> dict[str, Any] | None:
    """Not of a subclass that has its parent's name: by that, the parent would be built."""
    if not isinstance(network, SequenceModel):
        return None
    name = getattr(network, "name", None)
    return network.spec if name in names() and find(name) is type(network) else None
