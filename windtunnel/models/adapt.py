"""Any module as a predictor.

A module needs one method:

    forward(tokens (n, T) int64, features (n, T, F) or None, readout (K,) int64) -> logits (n, K, C)

where the logits of readout position t may depend only on inputs up to t: a model whose prediction at the first readout
changes with later inputs is refused.  (Fresh weights that make every prediction the same can hide this, so training
tests it again at every validation, and a score says when its accuracy is out of reach.)  If `forward` also takes a
keyword `tap`, the instruments can read what it passes through `windtunnel.models.touch(tap, name, value)`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from windtunnel.accidents import accident, misfit
from windtunnel.errors import InputError, one_of_kind
from windtunnel.fidelity.predictor import evaluation_mode, full_precision
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.device import device_of
from windtunnel.models.taps import Record, Tap
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Inputs, require_inputs

LOOKAHEAD = 1e-4  # share of the largest logit: rounding in float32 stays far below, a glance ahead seldom does
FIRST = slice(1)  # the readout that has the most after it
RULED_OUT = 50.0  # nats below the likeliest class: e^-50 is no prediction that anything depends on
OTHERS = 16  # episodes among which some are found that go on differently
ENDINGS = 4  # of these, how many are tried where a forward fails on one


class Adapted(nn.Module):
    """A foreign module under the interface of the built-in ones."""

    compilable = True  # tried; `compiled` falls back to eager where it fails

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name
        self.has_taps = "tap" in inspect.signature(module.forward).parameters
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.sizes: Sizes | None = None  # of the tunnel it was tried on; `evaluate` refuses one of other sizes

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
        require_inputs(inputs)
        return F.log_softmax(self(inputs.tokens, inputs.features, inputs.readout, tap), dim=-1)


@torch.no_grad()
def adapt(module: nn.Module, tunnel: Tunnel, name: str) -> SequenceModel | Adapted:
    """Wrap a module and try it on two episodes, so that a misfit is found before training starts."""
    if not isinstance(module, nn.Module):
        raise InputError(f"model {name} returned {type(module).__name__}: must be a torch.nn.Module")
    adapted = module if isinstance(module, SequenceModel | Adapted) else Adapted(module, name)
    inputs = tunnel.sample(2, dtype=torch.float32).inputs.to(device_of(module))
    before = copied(inputs)
    record = Record()
    tapped = {"tap": record} if getattr(adapted, "has_taps", False) else {}
    try:
        with evaluation_mode([adapted]):  # a trial must leave running statistics alone
            logits = adapted(inputs.tokens, inputs.features, inputs.readout, **tapped)
    except (InputError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:  # whatever a foreign forward raises, the user is told in one line
        forward = adapted.module.forward if isinstance(adapted, Adapted) else adapted.forward
        if reason := misfit(forward, inputs.tokens, inputs.features, inputs.readout, **tapped):
            raise InputError(f"model {name}: forward must take (tokens, features, readout) ({reason})") from error
        raise InputError(f"model {name}: forward failed on {_told(inputs)} ({accident(error)})") from error
    require_untouched(inputs, before, name)
    wanted = (2, tunnel.readouts, tunnel.classes)
    if not isinstance(logits, Tensor):
        allowed = f"a tensor of logits (n, K, C) = {wanted}"
        raise InputError(f"model {name} returned {one_of_kind(logits)}: must be {allowed}")
    got = tuple(logits.shape)
    if got != wanted:
        raise InputError(f"model {name} returned logits of shape {got}: must be (n, readouts, classes) = {wanted}")
    if _are_probabilities(logits):
        raise InputError(f"model {name} returned probabilities, rows that sum to 1: must be logits, without a softmax")
    require_fair(adapted, tunnel, name)
    if isinstance(adapted, Adapted):
        adapted.sizes = Sizes.of(tunnel)
        adapted.shapes = {label: (1, *value.shape[1:]) for label, value in record.tensors().items()}
    return adapted


def copied(inputs: Inputs) -> list[Tensor]:
    """Its tensors as they are now."""
    return [part.clone() for part in _parts(inputs)]


def require_untouched(inputs: Inputs, before: list[Tensor], name: str) -> None:
    """Raise where a forward has changed what it was given, which others read too."""
    if not all(map(torch.equal, _parts(inputs), before)):
        raise InputError(f"model {name}: forward must leave tokens, features and readout as they are, or copy them")


def _parts(inputs: Inputs) -> list[Tensor]:
    return [part for part in (inputs.tokens, inputs.features, inputs.readout) if part is not None]


def _are_probabilities(logits: Float[Tensor, "n K C"]) -> bool:
    """A softmax of one's own at the end trains, badly, and nothing else would tell.  It gives no zeros; a row that has
    a 1 for one class and 0 for the others is as good a row of logits as any."""
    sums = logits.sum(-1)
    return logits.shape[-1] > 1 and bool((logits > 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def parameter_name(network: nn.Module, name: str) -> str:
    """A parameter's name as the network's maker knows it."""
    return name.removeprefix("module.") if isinstance(network, Adapted) else name


def require_fair(model: SequenceModel | Adapted, tunnel: Tunnel, name: str) -> None:
    """Refuse a model that predicts from what it may not know: later inputs, or other episodes."""
    require_causal(model, tunnel, name)
    require_alone(model, tunnel, name)


@torch.no_grad()
def require_causal(model: SequenceModel | Adapted, tunnel: Tunnel, name: str) -> None:
    """Refuse a model whose prediction at the first readout changes when only later inputs do.

    A causal model computes that prediction from the same numbers again, so it changes by rounding at most.  A model
    that changes when merely asked twice is random, so nothing can be concluded.  A model that reads episodes but fails
    on one put together from two, because it rejects impossible inputs, is accepted with a warning.
    """
    inputs = tunnel.sample(2, dtype=torch.float32).inputs
    first = int(inputs.readout[0])
    same, *others = (x.to(device_of(model)) for x in (inputs, *_going_on_differently(tunnel, inputs, first)))
    failed: BaseException | None = None
    with evaluation_mode([model]), precisions(model) as eps:
        for other in others:
            try:
                asked, again, changed = (model(x.tokens, x.features, x.readout).double() for x in (same, same, other))
            except (Exception, SystemExit) as error:
                failed = error
                continue
            tolerance = max(LOOKAHEAD, 8 * max(eps, default=0.0))
            if _apart(asked, changed, FIRST) > tolerance >= _apart(asked, again, FIRST):
                told = f"its prediction at position {first} changed when only later tokens did"
                raise InputError(f"model {name}: must be causal; {told}")
            return
    if failed is not None:
        told = f"its forward fails on a sequence that continues as another one does ({accident(failed)})"
        warnings.warn(f"model {name}: could not test whether it is causal, as {told}", stacklevel=1)


@torch.no_grad()
def require_alone(model: SequenceModel | Adapted, tunnel: Tunnel, name: str) -> None:
    """Refuse a model whose prediction for an episode depends on the others in its batch: its score would be of the
    batch.  Of one that gives something else when merely asked again nothing can be told; that is warned of."""
    two = tunnel.sample(2, dtype=torch.float32).inputs.to(device_of(model))
    singles = (two[:1], two[1:])
    # In TF32 a batch of another size may be rounded by another kernel, to 10 bits.
    with evaluation_mode([model]), full_precision(), precisions(model) as eps:
        asked, again = (_asked(model, two, f"model {name}: forward failed") for _ in range(2))
        alone = [_asked(model, one, f"model {name}: forward failed on one episode alone") for one in singles]
    wanted = (1, *asked.shape[1:])
    for one in alone:
        if one.shape != wanted:
            told = f"one episode alone gave logits of shape {tuple(one.shape)}: must be {wanted}"
            raise InputError(f"model {name}: {told}")
    tolerance = max(LOOKAHEAD, 8 * max(eps, default=0.0))
    if _apart(asked, again, least=1.0) > tolerance:
        told = "gave something else when it was asked again, so no score of it comes out twice"
        warnings.warn(f"model {name}: {told} (it draws numbers, or keeps state from batch to batch)", stacklevel=1)
    elif _apart(asked, torch.cat(alone), least=1.0) > tolerance:
        told = "what it predicts for an episode changed with the other episodes in the batch: must not depend on them"
        raise InputError(f"model {name}: {told}")


def _asked(model: SequenceModel | Adapted, inputs: Inputs, failing: str) -> Tensor:
    """Logits (n, K, C) in float64; a forward that fails is one line."""
    try:
        return model(inputs.tokens, inputs.features, inputs.readout).double()
    except (InputError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{failing} ({accident(error)})") from error


def _going_on_differently(tunnel: Tunnel, inputs: Inputs, first: int) -> list[Inputs]:
    """The same inputs up to position `first`; then those of another episode: of some, the ones that differ from them
    most come first.

    Taken from an episode, every token is one that may stand at its position: a model may rely on the layout.
    """
    later = slice(first + 1, None)
    others = tunnel.sample(OTHERS, start=len(inputs), dtype=torch.float32).inputs
    unlike = (others.tokens[:, None, later] != inputs.tokens[:, later]).sum((1, 2))
    found = []
    for number in unlike.argsort(descending=True, stable=True)[:ENDINGS].tolist():
        other = others[number]
        tokens, features = inputs.tokens.clone(), None if inputs.features is None else inputs.features.clone()
        tokens[:, later] = other.tokens[:, later]
        if features is not None and other.features is not None:
            features[:, later] = other.features[:, later]
        found.append(Inputs(tokens, features, inputs.readout))
    return found


def _apart(a: Tensor, b: Tensor, readouts: slice = slice(None), least: float = 1e-30) -> float:
    """The largest difference at some readouts, in units of the largest logit of all: a model that mixes all positions
    and takes the later ones out again (by Fourier transform) rounds in proportion to all.

    Classes that both rule out (−∞, or a mask of −1e9) count neither way.

    least  the smallest unit: where all logits are near 0 because terms cancel, batches of other sizes round otherwise
    """
    far_a, far_b = (x < x.amax(-1, keepdim=True) - RULED_OUT for x in (a, b))
    likely = torch.stack([a.masked_fill(far_a, 0.0), b.masked_fill(far_b, 0.0)])
    scale = likely.nan_to_num(0.0, 0.0, 0.0).abs().max().clamp_min(least)
    apart = torch.where((a == b) | (far_a & far_b), 0.0, (a - b).abs())  # infinities may be equal
    return float(apart[:, readouts].max() / scale)


@contextmanager
def precisions(model: nn.Module) -> Iterator[set[float]]:
    """Gathers the relative precisions that the parts of a model compute in; weights alone do not tell (autocast)."""
    seen: set[float] = set()

    def look(module: nn.Module, given: Any, returned: Any) -> None:
        for value in returned if isinstance(returned, tuple) else (returned,):
            if isinstance(value, Tensor) and value.is_floating_point():
                seen.add(torch.finfo(value.dtype).eps)

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _told(inputs: Inputs) -> str:
    """The shapes of the inputs that a forward failed on, and the range of their tokens: it often fails because it was
    built for shorter sequences or fewer tokens."""
    tokens, features = inputs.tokens, inputs.features
    wide = "None" if features is None else tuple(features.shape)
    few = f"tokens {tuple(tokens.shape)} from {int(tokens.min())} to {int(tokens.max())}"
    return f"two episodes of this tunnel, {few}, features {wide}, readout {tuple(inputs.readout.shape)}"


def _dtype(module: nn.Module) -> torch.dtype:
    """The dtype a module computes in: that of its first floating-point parameter."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
