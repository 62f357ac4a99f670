"""Is late attention needed, at the trained length and beyond it?

The mixers of the top layers are set to zero; the loss in bits is read at the home length and at 1.5 and 2.5 times it
(20, 30, 50 for the paper's).  Beyond home it is given for all readouts and for those past the home length alone: an
average over both would hide the extrapolated ones.

Nulls: damage of equal size in a random direction, the same in untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from windtunnel.errors import InputError
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablate import DRAWS, TURNED, UNTRAINED, bits_lost
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Benches
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

STRETCH = (1.0, 1.5, 2.5)


def late(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    top: int = 2,
    lengths: Sequence[int] | None = None,
    draws: int = DRAWS,
    seed: int = 1,
) -> list[Measurement | Missing]:
    """Bits lost with the mixers of the `top` last layers off.  Episodes of other lengths come from (seed, "test")."""
    length = getattr(tunnel, "length", None)
    if length is None:
        lengths = [tunnel.readouts]
    elif lengths is None:
        lengths = [round(length * stretch) for stretch in STRETCH]
    results: list[Measurement | Missing] = []
    for wanted in lengths:
        try:
            results += _at(model, tunnel, episodes, untrained, wanted, top, draws, seed)
        except InputError as error:
            results.append(Missing(f"late attention off, length {wanted}", str(error)))
    return results


def _at(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    length: int,
    top: int,
    draws: int,
    seed: int,
) -> list[Measurement | Missing]:
    if length != tunnel.readouts:
        tunnel, short = tunnel.with_length(length), tunnel.readouts
        episodes = tunnel.sample(len(episodes), seed, "test", episodes.posterior.device)
    else:
        short = length
    benches = Benches.of(model, tunnel, episodes, untrained)
    anatomy = benches.main.anatomy
    mixers = [(layer, name) for layer in range(anatomy.depth) if (name := anatomy.mixer(layer))][-top:]
    if not mixers:
        return [Missing("late attention off", "the network has no mixer (attention, mamba or lstm output)")]
    places = [Place(name) for _, name in mixers]
    lost = bits_lost(benches.main, places, "zero")
    turned = [bits_lost(benches.small, places, "zero", turn=draw) for draw in range(draws)]
    blank = [bits_lost(bench, places, "zero") for bench in benches.untrained]
    ranges = {"all": slice(None)} | ({"beyond home length": slice(short, None)} if length > short else {})
    results: list[Measurement | Missing] = []
    for named, chosen in ranges.items():
        nulls = {TURNED: _means(turned, chosen), UNTRAINED: _means(blank, chosen)}
        where = {"layers": [layer for layer, _ in mixers], "length": length, "positions": named, "method": "zero"}
        clean = benches.main.clean_kl.mean(0)
        arrays = {"clean": clean.cpu().numpy(), "off": (clean + lost.mean(0)).cpu().numpy()}
        fields = {"where": where, "unit": "bits", "arrays": arrays, "nulls": {k: v for k, v in nulls.items() if len(v)}}
        results.append(measured("bits lost with late attention off", [per_sequence(lost[:, chosen])], **fields))
    return results


def _means(losses: list[torch.Tensor], chosen: slice):
    return torch.stack([loss[:, chosen].mean() for loss in losses]).cpu().numpy() if losses else []
