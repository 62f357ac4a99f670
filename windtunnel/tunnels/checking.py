"""Checks that a tunnel from outside the package keeps its promises: a wrong posterior would silently falsify scores.

    windtunnel.tunnels.check(MyTunnel())        for its author, at any time; training calls it before it starts

Every batch that such a tunnel samples is checked, not only the first: a belief that is divided by zero once in a
thousand episodes is as wrong as one that never sums to 1, and the check costs little compared with a network that reads
the batch.  A training step's own batch is not checked, as it may be part of a captured graph; each validation is.  Nor
are the package's own tunnels, whose tests ask far more.  An edited world may be impossible, with a belief of NaN; it is
not sampled.  Only `check` tests whether the belief is the right one (`truth`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from windtunnel.accidents import accident
from windtunnel.errors import InputError, one_of_kind, require, require_int, whole_number
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.random import Source
from windtunnel.tunnels.truth import gather, require_truth

if TYPE_CHECKING:
    from windtunnel.tunnels.base import Tunnel

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
"""How far from 1 the probabilities of a belief may sum.  Far above rounding; what is missing enters a KL to first
order, so in float64, where scores are made, none is off by more than about 1e-9 bits."""
SAME = 1e-6  # how far the belief of an episode may differ from batch to batch: sums may be taken in another order
LEAST = {"vocabulary": 1, "feature_width": 0, "classes": 1, "positions": 1, "readouts": 1}


def check(tunnel: Tunnel, episodes: int = 64) -> str:
    """Raise unless a tunnel keeps its promises, saying what was found and what is allowed; else return "ok: …".

    Tested on `episodes` episodes: sizes are whole numbers; tokens, features, readout, labels, posterior and latent have
    the shapes, types and ranges given in `Episodes`; every belief is finite, at least 0, sums to 1 and gives what
    happened a probability above 0, in float64 and float32; an episode is the same whatever batch it is drawn in.

    Tested on as many as can be drawn in a second, up to 4,096: labels follow the belief, and where two inputs are equal
    up to a readout, so are the beliefs.  A belief that passes may still be slightly wrong, or wrong in what no two
    inputs share (see `truth`); only the tunnel's own tests can show that, by enumeration.
    """
    from windtunnel.tunnels.base import require_tunnel  # not above: it imports this file

    require_tunnel(tunnel)
    episodes = whole_number("episodes", episodes, 2)
    draw_checked(tunnel, Source.open(0, "train", episodes), torch.float32)
    whole = draw_checked(tunnel, Source.open(0, "train", episodes), torch.float64)
    later = draw_checked(tunnel, Source.open(0, "train", episodes - 1, start=1), torch.float64)
    for field, one in _named(whole).items():
        other = _named(later)[field]
        kept = one if field == "readout" else one[1:]
        same = torch.allclose(kept, other, 0, SAME) if one.is_floating_point() else torch.equal(kept, other)
        drawn = _Told(f"different ones for episode 1 when it is drawn as the second of {episodes} and as the first")
        require(same, _field(tunnel, field), drawn, "the same: all chance comes from the source that `draw` is given")

    def draw(start: int, count: int) -> Episodes:
        return draw_checked(tunnel, Source.open(0, "train", count, start=start), torch.float64)

    numbers = tunnel.readouts * tunnel.classes + tunnel.positions * (1 + tunnel.feature_width)
    found = require_truth(_field(tunnel, "posterior"), gather(draw, numbers), SAME)
    return f"ok: {type(tunnel).__name__} keeps its promises; {found}; this is no proof: test it against enumeration"


def is_foreign(tunnel: Tunnel) -> bool:
    """Is its class somebody else's, be it built upon one of ours?"""
    return type(tunnel).__module__.partition(".")[0] != "windtunnel"


def require_sizes(tunnel: Tunnel) -> None:
    """Raise unless the sizes that a model is built by are whole numbers."""
    for size, least in LEAST.items():
        try:
            value = getattr(tunnel, size)
        except Exception as error:  # whatever a foreign property raises, the user is told in one line
            raise InputError(f"{_field(tunnel, size)} failed ({accident(error)})") from error
        require_int(_field(tunnel, size), value, least)


def draw_checked(tunnel: Tunnel, source: Source, dtype: torch.dtype) -> Episodes:
    """The episodes of a source, as a tunnel from outside gives them, if they are what it promises."""
    require_sizes(tunnel)
    try:
        episodes = tunnel.episodes(tunnel.draw(source), dtype)
    except (InputError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever a foreign tunnel raises, the user is told in one line
        raise InputError(f"tunnel {type(tunnel).__name__}: draw or episodes failed ({accident(error)})") from error
    for value, kind in ((episodes, Episodes), (getattr(episodes, "inputs", None), Inputs)):
        wanted = f"windtunnel.tunnels.{kind.__name__}"
        require(isinstance(value, kind), _field(tunnel, kind.__name__.lower()), _Told(value), wanted)
    _require_shapes(tunnel, episodes, source, dtype)
    _require_ranges(tunnel, episodes)
    _require_beliefs(tunnel, episodes, source, TOLERANCE[dtype])
    return episodes


def _require_shapes(tunnel: Tunnel, episodes: Episodes, source: Source, dtype: torch.dtype) -> None:
    """Shape, type and device of every tensor."""
    count, places, width = len(source.episodes), tunnel.positions, tunnel.feature_width
    wanted = {
        "tokens": ("(n, positions)", (count, places), torch.int64),
        "features": ("(n, positions, feature_width)", (count, places, width), dtype),
        "readout": ("(readouts,)", (tunnel.readouts,), torch.int64),
        "labels": ("(n, readouts)", (count, tunnel.readouts), torch.int64),
        "posterior": ("(n, readouts, classes)", (count, tunnel.readouts, tunnel.classes), dtype),
    }
    if width == 0:
        features = episodes.inputs.features
        require(features is None, _field(tunnel, "features"), _Told(features), "None, as feature_width is 0")
        del wanted["features"]
    for field, (words, shape, kind) in wanted.items():
        value = getattr(episodes.inputs if hasattr(episodes.inputs, field) else episodes, field)
        asked = f"a tensor of shape {words} = {shape}, {_kind(kind)} on {source.episodes.device}"
        fits = isinstance(value, Tensor) and value.shape == shape and value.dtype == kind
        require(fits and value.device == source.episodes.device, _field(tunnel, field), _Told(value), asked)
    require(isinstance(episodes.latent, dict), _field(tunnel, "latent"), _Told(episodes.latent), "named tensors")
    for name, value in episodes.latent.items():
        fits = isinstance(value, Tensor) and value.ndim > 0 and len(value) == count
        asked = f"a tensor whose first axis is that of the {count} episodes"
        require(fits, _field(tunnel, f"latent[{name!r}]"), _Told(value), asked)


def _require_ranges(tunnel: Tunnel, episodes: Episodes) -> None:
    """Tokens, labels and readout positions are numbers of something that there is; features are numbers."""
    inputs = episodes.inputs
    for field, value, size, of in (
        ("tokens", inputs.tokens, tunnel.vocabulary, "vocabulary"),
        ("labels", episodes.labels, tunnel.classes, "classes"),
        ("readout", inputs.readout, tunnel.positions, "positions"),
    ):
        for worst in map(int, value.aminmax()):
            allowed = f"from 0 to {size - 1}, as {of} = {size}"
            require(0 <= worst < size, _field(tunnel, field), worst, allowed)
    if inputs.features is not None:
        low, high = map(float, inputs.features.aminmax())  # NaN where there is one
        found = f"values from {low:.4g} to {high:.4g}"
        require(math.isfinite(low) and math.isfinite(high), _field(tunnel, "features"), _Told(found), "finite numbers")


def _require_beliefs(tunnel: Tunnel, episodes: Episodes, source: Source, tolerance: float) -> None:
    """Every row of the posterior is a distribution, under which what happened could happen."""
    belief = episodes.posterior
    total, happened = belief.sum(-1), belief.gather(-1, episodes.labels[..., None])[..., 0]
    # Plain minima and maxima, in which NaN stays NaN: row by row they would cost as much as the sampling of an HMM.
    if belief.min() >= 0 and (total - 1).abs().max() <= tolerance and happened.min() > 0:
        return
    honest = (belief >= 0).all(-1) & ((total - 1).abs() <= tolerance)  # False for NaN, too
    episode, readout = (~(honest & (happened > 0))).nonzero()[0].tolist()
    row = belief[episode, readout]
    shown = ", ".join(f"{value:.4g}" for value in row[:6].tolist()) + ", …" * (len(row) > 6)
    where = f"readout {readout} of episode {int(source.episodes[episode])}"
    if honest[episode, readout]:
        found = f"[{shown}] at {where}, where the label is {int(episodes.labels[episode, readout])}"
        allowed = "above 0 for what happened"
    else:
        found = f"[{shown}] at {where}, in all {float(row.sum()):.10g}"
        allowed = f"probabilities: finite, at least 0, in all 1 within {tolerance:g}"
    raise InputError(f"{_field(tunnel, 'posterior')} = {found}: must be {allowed}")


class _Told:
    """A value as an error should show it: of a tensor the shape, type and place; words as they are; else its kind."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        value = self.value
        if isinstance(value, Tensor):
            return f"shape {tuple(value.shape)}, {_kind(value.dtype)} on {value.device}"
        return str(value) if value is None or isinstance(value, str) else one_of_kind(value)


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _field(tunnel: Tunnel, field: str) -> str:
    return f"tunnel {type(tunnel).__name__}: {field}"


def _named(episodes: Episodes) -> dict[str, Tensor]:
    """What `Episodes` promises of an episode, less its latent world."""
    found = {**vars(episodes.inputs), "labels": episodes.labels, "posterior": episodes.posterior}
    return {name: value for name, value in found.items() if value is not None}
