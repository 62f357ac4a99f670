"""Sequence models under one interface, every tensor named.

model = build("transformer", tunnel, params=2_670_000)
model.log_probs(episodes.inputs)                       (n, K, C)
trace(model, episodes, names="blocks.*.residual")      {name: (n, T, D)}
"""

from windtunnel.models.adapt import Adapted
from windtunnel.models.base import SequenceModel, Sizes
from windtunnel.models.build import build, from_spec, option_names, truth_names
from windtunnel.models.compiled import compiled
from windtunnel.models.describe import Description, describe
from windtunnel.models.edited import Edited, edited
from windtunnel.models.evaluate import evaluate
from windtunnel.models.registry import names, register, summaries, unregister
from windtunnel.models.taps import Edit, Record, Tap, split_step, touch
from windtunnel.models.trace import has_taps, tap_names, trace

__all__ = [
    "build",
    "from_spec",
    "option_names",
    "truth_names",
    "register",
    "unregister",
    "names",
    "summaries",
    "describe",
    "Description",
    "SequenceModel",
    "Sizes",
    "Adapted",
    "compiled",
    "trace",
    "edited",
    "Edited",
    "evaluate",
    "tap_names",
    "has_taps",
    "Tap",
    "touch",
    "Record",
    "Edit",
    "split_step",
]
