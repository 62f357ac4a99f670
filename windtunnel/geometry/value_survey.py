"""The value instrument on a network: gathers values and residual stream at the readouts, then calls `values`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from windtunnel.geometry import values as pure
from windtunnel.geometry.gather import at_readout, ending, entrance, label, layer_of, named
from windtunnel.geometry.measurement import Measurement, Missing, Result
from windtunnel.geometry.records import profile, unanswerable
from windtunnel.geometry.ridge import rows
from windtunnel.geometry.stats import first_share, participation_ratio, spectrum
from windtunnel.tunnels import Episodes, Tunnel

DRAWS = 99
REPLICATES = 20
STREAMS = {"values": ".attention.v", "residual": ".residual"}


def values(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Dimension, and order by entropy or position, of every layer's values and residual stream."""
    names = named(model, episodes)
    found: list[Measurement | Missing] = []
    for stream, suffix in STREAMS.items():
        layers = ending(names, suffix)
        if layers:
            found += _stream(stream, entrance(names), layers, model, episodes, untrained)
        else:
            found.append(Missing("values", f"{label(model)} has no {stream}: no tensor of it ends with {suffix}"))
    return found


def _stream(
    stream: str,
    before: str | None,
    names: list[str],
    model: nn.Module,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
) -> list[Measurement]:
    """Of every layer of one stream.  before: what enters the first block, for a null; None where it is not told."""
    own = at_readout(model, episodes, [*filter(None, [before]), *names])
    twins = [at_readout(twin, episodes, names) for twin in untrained]
    rng = np.random.default_rng(0)
    picks = [rng.integers(len(episodes), size=len(episodes)) for _ in range(REPLICATES)]
    layers, where = [layer_of(name) for name in names], {"stream": stream, "positions": "readouts"}
    shapes = {name: _shape(x) for name, x in own.items()}
    twin_shapes = [{name: _shape(x) for name, x in twin.items()} for twin in twins]
    resampled = [{name: _shape(x[pick]) for name, x in own.items()} for pick in picks]
    widest = max(len(shapes[name][2]) for name in names)
    spectra = np.stack([np.pad(shapes[name][2], (0, widest - len(shapes[name][2]))) for name in names])
    found = []
    for index, (title, side) in enumerate((("PC1 share", "above"), ("participation ratio", "below"))):
        again = np.array([[draw[name][index] for name in names] for draw in resampled])
        nulls = {"untrained": np.array([[twin[name][index] for name in names] for twin in twin_shapes])}
        if before is not None:
            entered = np.array([draw[before][index] for draw in resampled])
            nulls["before the first block"] = _entrance(again, entered, float(shapes[before][index]))
        found += profile(
            title,
            np.array([shapes[name][index] for name in names]),
            again,
            nulls,
            layers=layers,
            side=side,  # type: ignore[arg-type]
            where=where,
            arrays={"spectrum": spectra},
        )
    return found + _order(before, names, own, twins, picks, episodes, layers, where)


def _shape(x: np.ndarray) -> tuple[float, float, np.ndarray]:
    variances = spectrum(rows(x))
    return first_share(variances), participation_ratio(variances), variances


def _order(
    before: str | None,
    names: list[str],
    own: dict[str, np.ndarray],
    twins: list[dict[str, np.ndarray]],
    picks: list[np.ndarray],
    episodes: Episodes,
    layers: list[int | str],
    where: dict[str, Any],
) -> list[Measurement]:
    """By entropy, or by position?  own and twins: name -> (n, K, D); picks: (n,) sequences of each replicate."""
    entropy = episodes.entropy_bits.double().cpu().numpy()
    rng, count = np.random.default_rng(1), len(entropy)
    questions = {
        "entropy, position ignored": (pure.entropy_alone, lambda: rng.permutation(count)),
        "entropy after position": (pure.entropy_after_position, lambda: rng.permutation(count)),
        "position after entropy": (pure.position_after_entropy, lambda: pure.like_entropy(entropy, rng)),
    }
    reduce: dict[str, Callable] = {"PC1": pure.first_component, "all": lambda x: x}
    found = []
    if why := pure.why_unidentifiable(entropy):
        alone, *others = questions
        questions = {alone: questions[alone]} if np.ptp(entropy) > 1e-9 else {}
        found += [unanswerable(f"{title}, {part}", why, where) for title in others for part in reduce]
    for title, (ask, draw) in questions.items():
        real, *shuffles = ask(entropy, [draw() for _ in range(DRAWS)])
        resampled = [ask(entropy[pick])[0] for pick in picks]
        for part, reduced in reduce.items():
            ys = {name: reduced(rows(x)) for name, x in own.items()}  # the component is that of all sequences
            left = [real.left(ys[name]) for name in names]
            again = np.array([[q(_chosen(ys[name], pick)) for name in names] for q, pick in zip(resampled, picks)])
            nulls = {
                "untrained": np.array([[real(reduced(rows(twin[n]))) for n in names] for twin in twins]),
                "shuffled labels": np.array([[shuffle.share(rest) for rest in left] for shuffle in shuffles]),
            }
            if before is not None:
                entered = np.array([q(_chosen(ys[before], pick)) for q, pick in zip(resampled, picks)])
                nulls["before the first block"] = _entrance(again, entered, real(ys[before]))
            found += profile(
                f"{title}, {part}",
                np.array([real.share(rest) for rest in left]),
                again,
                nulls,
                layers=layers,
                where=where,
            )
    return found


def _entrance(layers: np.ndarray, entered: np.ndarray, value: float) -> np.ndarray:
    """(B, L) the value before the first block, with the bootstrap noise of each layer's distance from it: replicates
    of layers (B, L) and entrance (B,) are of the same sequences.  Where no layer differs from the entrance, this is how
    far it would lie."""
    distance = layers - entered[:, None]
    return value + distance - distance.mean(0)


def _chosen(rows: np.ndarray, pick: np.ndarray) -> np.ndarray:
    """Rows (n · K, M) of the sequences in `pick`, which are as many as there are."""
    return rows.reshape(len(pick), -1, rows.shape[-1])[pick].reshape(rows.shape)
