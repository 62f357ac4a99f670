"""Is late attention needed, at the trained length and beyond it?

The mixers of the top layers are set to zero; the loss in bits is read at the home length and at 1.5 and 2.5 times it
(20, 30, 50 for the paper's).  Beyond home it is given for all readouts and for those past the home length alone: an
average over both would hide the extrapolated ones.

Nulls: damage of equal size in a random direction, the same in untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from windtunnel.errors import InputError
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.estimate import per_sequence
from windtunnel.mechanism.losses import Losses
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
    losses, clean = Losses.of(benches, [Place(name) for _, name in mixers], "zero", draws=draws), benches.main.clean_kl
    arrays = {"clean": clean.mean(0).cpu().numpy(), "off": (clean + losses.own).mean(0).cpu().numpy()}
    ranges = {"all": slice(None)} | ({"beyond home length": slice(short, None)} if length > short else {})
    results: list[Measurement | Missing] = []
    for named, chosen in ranges.items():
        where = {"layers": [layer for layer, _ in mixers], "length": length, "positions": named, "method": "zero"}
        title, read = "bits lost with late attention off", lambda lost, at=chosen: per_sequence(lost[:, at])
        results.append(losses.measured(title, read, where=where, arrays=arrays))
    return results
