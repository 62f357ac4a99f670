"""windtunnel: how many bits is a sequence model from exact Bayesian inference?

    import windtunnel as wt

    tunnel = wt.tunnels.HMM(states=5, symbols=5, length=20)
    for name, predictor in wt.baselines(tunnel).items():
        print(name, wt.evaluate(predictor, tunnel, episodes=2000, seed=1).kl_bits.mean)

Everything is loaded on first use, so `import windtunnel` is quick and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_ROOMS = ("tunnels", "fidelity", "models", "training", "geometry", "mechanism", "study", "report")

_HOMES = {  # name -> the room it lives in
    "baselines": "fidelity",
    "evaluate": "models",
    "equivalent_window": "fidelity",
    "trace": "models",
    "edited": "models",
    "train": "training",
    "load": "training",
    "primitives": "study",
    "zoo": "study",
    "reproduce": "study",
    "scorecard": "study",
}

if TYPE_CHECKING:  # the same names once more, for type checkers and editors
    from windtunnel import fidelity as fidelity
    from windtunnel import geometry as geometry
    from windtunnel import mechanism as mechanism
    from windtunnel import models as models
    from windtunnel import report as report
    from windtunnel import study as study
    from windtunnel import training as training
    from windtunnel import tunnels as tunnels
    from windtunnel.fidelity import baselines as baselines
    from windtunnel.fidelity import equivalent_window as equivalent_window
    from windtunnel.models import edited as edited
    from windtunnel.models import evaluate as evaluate
    from windtunnel.models import trace as trace
    from windtunnel.study import primitives as primitives
    from windtunnel.study import reproduce as reproduce
    from windtunnel.study import scorecard as scorecard
    from windtunnel.study import zoo as zoo
    from windtunnel.training import load as load
    from windtunnel.training import train as train


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"windtunnel.{name}")  # the import system also binds it here
    if name in _HOMES:
        value = getattr(importlib.import_module(f"windtunnel.{_HOMES[name]}"), name)
        globals()[name] = value  # so that this function is asked only once
        return value
    raise AttributeError(f"module 'windtunnel' has no attribute {name!r}")


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))  # not what this file imports
    return sorted({*own, *_ROOMS, *_HOMES})
