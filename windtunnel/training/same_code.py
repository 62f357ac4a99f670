"""Do saved weights still give the predictions that they gave when they were saved?

Weights may well fit code that has been edited since.  Training would then go on with another architecture, and a score
would be of neither.  So with the weights of what is not ours (a model or a tunnel of the user's own) a few predictions
are saved, and whoever reads the weights back asks for them again.  Comments, names and taps may change freely.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from windtunnel.errors import InputError
from windtunnel.fidelity.predictor import Predictor, checked_log_probs, evaluation_mode
from windtunnel.models.build import seeded
from windtunnel.models.device import device_of
from windtunnel.tunnels import Tunnel

NAME = "predictions"  # in the metadata of a file of weights
ASKED = 24  # predictions at most
CLOSE = 2e-3  # of a log-probability, absolute and relative: devices and versions of torch differ by less


def predictions(model: nn.Module, tunnel: Tunnel) -> str:
    """Log-probabilities of the first labels of two validation episodes, in words; nothing for a model that gives no
    numbers, or others when it is asked again."""
    episodes = tunnel.sample(2, stream="validation", dtype=torch.float32)
    inputs = episodes.inputs.to(device_of(model))
    if not isinstance(model, Predictor):
        return ""
    try:
        with evaluation_mode([model]), seeded(0):  # what it draws must not be missing from what training draws
            asked, again = (checked_log_probs(model, inputs, tunnel).cpu() for _ in range(2))
    except InputError:
        return ""
    found, repeated = (
        log_q.gather(-1, episodes.labels[..., None]).flatten()[:ASKED].tolist() for log_q in (asked, again)
    )
    return " ".join(f"{value:.6g}" for value in found) if _alike(found, repeated, CLOSE) else ""


def require_same(saved: str, model: nn.Module, tunnel: Tunnel, name: str, place: Path, step: int) -> None:
    """Raise where a model, with the weights of that step, does not predict what was saved with them."""
    now = predictions(model, tunnel) if saved else ""
    then, found = ([float(word) for word in text.split()] for text in (saved, now))
    if not then or not found or _alike(then, found, _tolerance(model)):
        return
    apart = [abs(a - b) if a != b else 0.0 for a, b in zip(then, found, strict=False)]
    at = int(np.argmax(apart))
    told = f"one of the predictions of step {step} was {np.exp(then[at]):.4g} and is {np.exp(found[at]):.4g} now"
    raise InputError(
        f"{place}: the code of model {name}, or of its world, has changed since these weights were saved ({told}):"
        " restore the code, or train in another folder"
    )


def _alike(a: list[float], b: list[float], tolerance: float) -> bool:
    return len(a) == len(b) and np.allclose(a, b, rtol=tolerance, atol=tolerance)


def _tolerance(model: nn.Module) -> float:
    """Weights in half precision are computed with in half precision, and another device rounds otherwise."""
    eps = [torch.finfo(p.dtype).eps for p in model.parameters() if p.is_floating_point()]
    return max([CLOSE, *(16 * one for one in eps)])
