"""Any module as a predictor.

What is asked of it is one method:

    forward(tokens (n, T) int64, features (n, T, F) or None, readout (K,) int64) -> logits (n, K, C)

where the logits of readout position t may depend on inputs up to t only.  If `forward` also takes a keyword `tap`, it
is handed one, and the instruments can read what it passes through `windtunnel.models.touch(tap, name, value)`.
"""

from __future__ import annotations

import inspect

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.fidelity.predictor import evaluation_mode
from windtunnel.models.base import SequenceModel
from windtunnel.models.taps import Record, Tap
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Inputs


class Adapted(nn.Module):
    """A foreign module under the interface of the built-in ones."""

    compilable = True  # tried; `compiled` falls back to eager where it fails

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name
        self.has_taps = "tap" in inspect.signature(module.forward).parameters
        self.shapes: dict[str, tuple[int, ...]] = {}

    def forward(
        self,
        tokens: Int64[Tensor, "n T"],
        features: Float[Tensor, "n T F"] | None,
        readout: Int64[Tensor, " K"],
        tap: Tap | None = None,
    ) -> Float[Tensor, "n K C"]:
        """Logits at the readout positions, in float32 or better."""
        if features is not None:
            features = features.to(_dtype(self.module))
        if tap is None:
            logits = self.module(tokens, features, readout)
        elif self.has_taps:
            logits = self.module(tokens, features, readout, tap=tap)
        else:
            raise InputError(f"model {self.name} has no taps: its forward must take a keyword `tap`")
        # A wrong return type is told by `adapt`, which tries every model once.
        return logits.to(torch.promote_types(logits.dtype, torch.float32)) if isinstance(logits, Tensor) else logits

    def taps(self) -> dict[str, tuple[int, ...]]:
        """Every tap's name with its shape for one episode, as seen when the model was built."""
        return self.shapes

    def log_probs(self, inputs: Inputs, tap: Tap | None = None) -> Float[Tensor, "n K C"]:
        """Natural-log probabilities at the readout positions."""
        return F.log_softmax(self(inputs.tokens, inputs.features, inputs.readout, tap), dim=-1)


@torch.no_grad()
def adapt(module: nn.Module, tunnel: Tunnel, name: str) -> SequenceModel | Adapted:
    """Wrap a module and try it on two episodes, so that what does not fit is found before training starts."""
    if not isinstance(module, nn.Module):
        raise InputError(f"model {name} returned {type(module).__name__}: must be a torch.nn.Module")
    adapted = module if isinstance(module, SequenceModel | Adapted) else Adapted(module, name)
    inputs = tunnel.sample(2, dtype=torch.float32).inputs
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    inputs = inputs.to(device)
    record = Record()
    try:
        with evaluation_mode([adapted]):  # a trial must leave running statistics alone
            tapped = (record,) if getattr(adapted, "has_taps", False) else ()
            logits = adapted(inputs.tokens, inputs.features, inputs.readout, *tapped)
    except Exception as error:  # whatever a foreign forward raises, the user is told in one line
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"model {name}: forward must take (tokens, features, readout) ({reason})") from error
    wanted = (2, tunnel.readouts, tunnel.classes)
    got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if got != wanted:
        raise InputError(f"model {name} returned logits of shape {got}: must be (n, readouts, classes) = {wanted}")
    if isinstance(adapted, Adapted):
        adapted.shapes = {label: (1, *value.shape[1:]) for label, value in record.tensors().items()}
    return adapted


def _dtype(module: nn.Module) -> torch.dtype:
    """The dtype a module computes in: that of its first floating-point parameter."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
