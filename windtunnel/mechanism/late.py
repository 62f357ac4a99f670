"""Is late attention needed, at the trained length and beyond it?

The mixers of the top layers are set to zero; the KL lost and the entropy error that is then left (the published
metric) are read at the home length and at 1.5 and 2.5 times it (20, 30, 50 for the paper's).  Beyond home they are
given for all readouts and for those past the home length alone: an average over both would hide the extrapolated ones.

Nulls: damage of equal size in a random direction, the same in untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from windtunnel.fidelity.metrics import model_entropy_bits
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablation import ablation
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.estimate import per_sequence
from windtunnel.mechanism.longer import Reader
from windtunnel.mechanism.losses import TURNED, UNTRAINED, Losses, damage
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Bench, Benches
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

STRETCH = (1.0, 1.5, 2.5)
TOP = 2  # so many layers at the end
LOST, ERROR = "bits lost with late {} off", "entropy error with late {} off"


def late(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    lengths: Sequence[int] | None = None,
    draws: int = DRAWS,
    seed: int = 1,
) -> list[Measurement | Missing]:
    """Bits lost with the mixers of the last TOP layers off.  Episodes of other lengths come from (seed, "test")."""
    if not hasattr(tunnel, "length"):
        lengths = [_length(tunnel)]
    elif lengths is None:
        stretched = (round(_length(tunnel) * stretch) for stretch in STRETCH)
        lengths = list(dict.fromkeys(stretched))  # 1 and 1.5 times 1 are the same
    reader = Reader(model, tunnel, episodes)
    results: list[Measurement | Missing] = []
    for wanted in lengths:
        name = f"late attention off, length {wanted}"  # a network that cannot be made longer keeps its home length
        results += guarded(name, _at, reader, tunnel, episodes, untrained, wanted, draws, seed)
    return results


def _at(
    reader: Reader,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    length: int,
    draws: int,
    seed: int,
) -> list[Measurement | Missing]:
    home = tunnel.positions
    if length != _length(tunnel):
        tunnel = tunnel.with_length(length)
        episodes = tunnel.sample(len(episodes), seed, "test", episodes.posterior.device)
        reader.require(tunnel, episodes)
    benches = Benches.of(reader.model, tunnel, episodes, untrained)
    anatomy = benches.main.anatomy
    mixers = [(layer, name) for layer in range(anatomy.depth) if (name := anatomy.mixer(layer))][-TOP:]
    if not mixers:
        return [Missing("late attention off", "the network has no mixer (attention, mamba or lstm output)")]
    kind = "attention" if all(".attention." in name for _, name in mixers) else "mixers"
    places = [Place(name) for _, name in mixers]
    losses, clean = Losses.of(benches, places, "zero", draws=draws), benches.main.clean_kl
    errors = _entropy_errors(benches, places, draws)
    arrays = {"clean": clean.mean(0).cpu().numpy(), "off": (clean + losses.own).mean(0).cpu().numpy()}
    beyond = episodes.inputs.readout >= home
    ranges = {"all": slice(None)} | ({"beyond home length": beyond} if beyond.any() else {})
    results: list[Measurement | Missing] = []
    for named, chosen in ranges.items():
        where = {"layers": [layer for layer, _ in mixers], "length": length, "positions": named, "method": "zero"}
        read = lambda table, at=chosen: per_sequence(table[:, at])  # noqa: E731
        results.append(losses.measured(LOST.format(kind), read, where=where, arrays=arrays))
        results.append(errors.measured(ERROR.format(kind), read, where=where))
    return results


def _length(tunnel: Tunnel) -> int:
    """What a world calls its length, which need not be the number of its readouts; that number where it has none."""
    return getattr(tunnel, "length", tunnel.readouts)


def _entropy_errors(benches: Benches, places: Sequence[Place], draws: int) -> Losses:
    """|model entropy − exact entropy| with the places off, and the same for damage of equal size and for untrained
    networks."""

    def error(bench: Bench, predicted: Tensor) -> Tensor:
        return (model_entropy_bits(predicted) - bench.episodes.entropy_bits.double()).abs()

    def off(bench: Bench) -> Tensor:
        return error(bench, bench.run(ablation(bench, places, "zero")))

    small = benches.small
    damaged = damage(small, places, "zero", draws)
    nulls = {
        TURNED: [error(small, predicted) for predicted in small.run_each(damaged)] if damaged else [],
        UNTRAINED: [off(bench) for bench in benches.untrained],
    }
    own, few = benches.of_all_and_few(off)
    return Losses(own, nulls, few)
