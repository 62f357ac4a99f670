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

from windtunnel.errors import CodeChanged, InputError
from windtunnel.fidelity.predictor import Predictor, checked_log_probs, evaluation_mode
from windtunnel.models.adapt import precisions
from windtunnel.models.build import seeded
from windtunnel.models.device import device_of
from windtunnel.tunnels import Tunnel

NAME = "predictions"  # in the metadata of a file of weights
ASKED = 24  # predictions at most
CLOSE = 2e-3  # of a log-probability, absolute and relative: devices and versions of torch differ by less
ROUNDINGS = 4  # of the coarsest part, by which two devices may differ: it may compute in half precision


def predictions(model: nn.Module, tunnel: Tunnel) -> str:
    """In words: the precision of the coarsest part, then log-probabilities of labels of two validation episodes, spread
    over all readouts.  Nothing for a model that gives no numbers, or others when it is asked again."""
    episodes = tunnel.sample(2, stream="validation", dtype=torch.float32)
    inputs = episodes.inputs.to(device_of(model))
    if not isinstance(model, Predictor):
        return ""
    asked = []
    try:
        with evaluation_mode([model]), precisions(model) as eps:
            for _ in range(2):
                with seeded(0):  # what it draws is the same again, and not missing from what training draws
                    asked.append(checked_log_probs(model, inputs, tunnel).cpu())
    except InputError:
        return ""
    count = episodes.labels.numel()
    some = torch.linspace(0, count - 1, min(count, ASKED)).long()
    found, again = (log_q.gather(-1, episodes.labels[..., None]).flatten()[some].tolist() for log_q in asked)
    coarsest = max(eps, default=0.0)
    if not _alike(found, again, coarsest):
        return ""
    return " ".join(f"{value:.6g}" for value in (coarsest, *found))


def require_same(saved: str, model: nn.Module, tunnel: Tunnel, name: str, place: Path, step: int) -> None:
    """Raise where a model, with the weights of that step, does not predict what was saved with them."""
    now = predictions(model, tunnel) if saved else ""
    if not now:
        return
    (coarse, *then), (coarse_now, *found) = ([float(word) for word in text.split()] for text in (saved, now))
    if _alike(then, found, max(coarse, coarse_now)):
        return
    apart = [abs(a - b) if a != b else 0.0 for a, b in zip(then, found, strict=False)]
    at = int(np.argmax(apart))
    told = f"one of the predictions of step {step} was {np.exp(then[at]):.4g} and is {np.exp(found[at]):.4g} now"
    raise CodeChanged(
        f"{place}: the code of model {name}, or of its world, has changed since these weights were saved ({told}):"
        " restore the code, or train in another folder"
    )


def _alike(a: list[float], b: list[float], eps: float) -> bool:
    tolerance = max(CLOSE, ROUNDINGS * eps)
    return len(a) == len(b) and np.allclose(a, b, rtol=tolerance, atol=tolerance)
