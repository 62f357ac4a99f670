"""What fidelity knows about a model: it reads inputs and gives log-probabilities.  Nothing else.

A trained network, a baseline and the exact filter itself all look alike from here, so they are all scored by the same
code.  Predictions enter only through `checked_log_probs`, which refuses those that could not give an honest number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from windtunnel.errors import InputError, one_of_kind
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Inputs

NORMALISATION_TOLERANCE = 1e-3  # |log Σ q| in nats: far above float32 rounding, far below any honest use of logits


@runtime_checkable
class Predictor(Protocol):
    """Anything with this one method can be scored."""

    def log_probs(self, inputs: Inputs) -> Float[Tensor, "n K C"]:
        """Natural log of the predicted probability of each class, at each readout of each episode."""
        ...


@contextmanager
def full_precision() -> Iterator[None]:
    """Float32 products in float32: a GPU may otherwise drop to TF32's 10 bits of mantissa (cuDNN's LSTM does)."""
    cudnn: Any = torch.backends.cudnn  # its parts are set up at run time, unseen by type checkers
    backends = (torch.backends.cuda.matmul, cudnn.rnn, cudnn.conv)
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision


@contextmanager
def evaluation_mode(predictors: Iterable[object]) -> Iterator[None]:
    """Networks in eval mode; afterwards every submodule is as it was, even where only some were training."""
    networks = [predictor for predictor in predictors if isinstance(predictor, nn.Module)]
    before = [(module, module.training) for network in networks for module in network.modules()]
    try:
        for network in networks:
            network.eval()
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


class NotNumbers(InputError):
    """A predictor gave NaN; in a network that is being trained, it has diverged.  `predictor` says which."""

    def __init__(self, message: str, predictor: object) -> None:
        super().__init__(message)
        self.predictor = predictor


@torch.no_grad()
def checked_log_probs(predictor: Predictor, inputs: Inputs, tunnel: Tunnel) -> Float64[Tensor, "n K C"]:
    """The predictor's log-probabilities in float64, checked and renormalised.  A class may have probability 0 (−inf).

    Renormalised, because float32 logs are off by about 1e-7 each: a predictor that is right but for rounding has
    Σ q = 1 ± 1e-7, and that factor would enter log-loss and Σ p log(p/q) to first order.  Subtracting logsumexp in
    float64 removes it.  What is left of the rounding enters the KL squared, so a KL is meaningful down to 1e-9 bits
    and below; entropies, where it enters once, are good to about 1e-7.
    """
    try:
        with full_precision():
            returned = predictor.log_probs(inputs)
    except IndexError as error:  # what a table of embeddings says of a token, or a position, that it has no row for
        raise _out_of_range(predictor, tunnel, error) from error
    expected = (len(inputs), len(inputs.readout), tunnel.classes)

    def refuse(found: str) -> InputError:
        wanted = f"normalised float32 or float64 log-probabilities of shape {expected} (n, K, C)"
        return InputError(f"{type(predictor).__name__}.log_probs returned {found}: must be {wanted}")

    if not isinstance(returned, Tensor):
        raise refuse(one_of_kind(returned))
    if tuple(returned.shape) != expected:
        raise refuse(f"shape {tuple(returned.shape)}")
    if returned.dtype not in (torch.float32, torch.float64):
        raise refuse(str(returned.dtype).removeprefix("torch."))
    if returned.isnan().any():
        raise NotNumbers(str(refuse("NaN")), predictor)
    if returned.isposinf().any():
        raise refuse("+inf")
    log_q = returned.to(inputs.tokens.device, torch.float64)
    log_total = log_q.logsumexp(-1, keepdim=True)
    worst = log_total.abs().max().item()
    if worst > NORMALISATION_TOLERANCE:
        raise refuse(f"log-probabilities whose logsumexp is off by {worst:.3g}")
    return log_q - log_total


def _out_of_range(predictor: Predictor, tunnel: Tunnel, error: IndexError) -> InputError:
    """A predictor that does not tell its sizes and met what it has no room for, as far as its embeddings tell; or that
    has a mistake inside, whose traceback is kept."""
    reason = " ".join(str(error).split()) or "IndexError"
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    rows = [str(module.num_embeddings) for module in modules if isinstance(module, nn.Embedding)]
    has = f"; its embeddings have {' and '.join(rows)} rows" if rows else ""
    needed = f"vocabulary of {tunnel.vocabulary}, {tunnel.positions} positions and {tunnel.feature_width} features"
    name = getattr(predictor, "name", type(predictor).__name__)
    return InputError(f"{name}.log_probs failed ({reason}): must take the tunnel's {needed}{has}")
