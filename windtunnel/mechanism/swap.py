"""Is a subspace the carrier, or only readable?  Swap it with a donor's, or take it away.

    swap     x_S ← y_S at every readout: in the subspace S the stream is the matched donor's, else its own
    ablate   x_S ← 0, its mean over episodes at each position, or another episode's

Swap is scored as the fraction of the way to the donor's belief (see `patch`), ablation in bits lost.  A direction can
decode perfectly and be inert: then neither moves anything.

Subspaces are fitted on one half of the episodes and tried on the other.  Nulls: random subspaces of equal rank; damage
of equal size in a random direction (ablation); a mismatched donor (swap); the same, fitted anew, in untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from windtunnel.geometry.belief_survey import too_few
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.ablation import METHODS, ablation, bits_lost
from windtunnel.mechanism.bases import bases
from windtunnel.mechanism.chance import DRAWS, mismatches, subspace
from windtunnel.mechanism.donors import matched
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.losses import TURNED, UNTRAINED, Losses, turned
from windtunnel.mechanism.patch import MISMATCHED, NO_STREAM, Pair, fraction, patch_changes
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Bench
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes
from windtunnel.tunnels.hmm import HMM

RANDOM = "random subspace, equal rank"


def swap_changes(pair: Pair, tensor: str, basis: Tensor, **options):
    """The changes that swap the subspace at every readout position."""
    return patch_changes(pair, [at_readouts(pair.recipient, tensor, basis)], **options)


def at_readouts(bench: Bench, tensor: str, basis: Tensor) -> Place:
    """The part of a stream in a subspace, at the readout positions."""
    return Place(tensor, positions=tuple(bench.episodes.inputs.readout.tolist()), basis=basis)


def fitted(bench: Bench, tensor: str) -> dict[str, Tensor | Missing]:
    """The subspaces of one stream, fitted on a bench's episodes."""
    x = bench.recorded(tensor).index_select(1, bench.episodes.inputs.readout.to(bench.recorded(tensor).device))
    return bases(bench.model, x, bench.belief)


def chosen_streams(bench: Bench) -> list[str]:
    """After the first, the middle and the last block."""
    blocks = [name for name in bench.anatomy.streams if name.startswith("blocks.")]
    return [blocks[index] for index in sorted({0, len(blocks) // 2, len(blocks) - 1})] if blocks else []


def placed(bench: Bench, tensor: str, name: str, basis: Tensor) -> dict[str, Any]:
    """Where a subspace lies; whose belief is meant, where `beliefs` means another (see `bases`)."""
    where = {"tensor": tensor, "subspace": name, "rank": basis.shape[1]}
    symbols = isinstance(bench.tunnel, HMM) and bench.tunnel.predict == "symbol"
    return where | ({"belief": "about the next symbol"} if symbols else {})


def swap(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    tensors: Sequence[str] | None = None,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """Every subspace at a few layers: swapped with a matched donor's, and ablated by every method."""
    if why := too_few(*episodes.posterior.shape):
        return [Missing("swap", why)]
    half = len(episodes) // 2
    fit = Bench(model, tunnel, episodes[:half])
    trial, given, note = matched(tunnel, episodes[half:])
    pair = Pair.of(model, tunnel, trial, given.episodes, given.readouts, note)
    count = pair.small.count
    blank = [
        (
            Bench(net, tunnel, episodes[:half]),
            Pair.of(net, tunnel, trial[:count], given.episodes[:count], given.readouts),
        )
        for net in untrained
    ]
    tensors = chosen_streams(fit) if tensors is None else tensors
    if not tensors:
        return [Missing("swap", NO_STREAM)]
    results: list[Measurement | Missing] = []
    for tensor in tensors:
        others = [(one, fitted(one_fit, tensor)) for one_fit, one in blank]
        for name, basis in fitted(fit, tensor).items():
            if isinstance(basis, Missing):
                results.append(Missing(f"swap of the {name} at {tensor}", basis.reason))
                continue
            plain = [(one, b) for one, named in others if isinstance(b := named[name], Tensor)]
            results.append(measure_swap(pair, plain, tensor, name, basis, draws=draws))
            results += [measure_removal(pair, plain, tensor, name, basis, how, draws=draws) for how in METHODS]
    return results


def measure_swap(
    pair: Pair, blank: list[tuple[Pair, Tensor]], tensor: str, name: str, basis: Tensor, *, draws: int = DRAWS
) -> Measurement:
    """Fraction of the way to the donor when the subspace is swapped."""
    after = pair.after(swap_changes(pair, tensor, basis))
    small, chosen = pair.small, pair.readouts
    (width, rank), wrong = basis.shape, mismatches(small.count, draws)
    nulls = {
        RANDOM: small.moved_each([swap_changes(small, tensor, subspace(width, rank, 3, d)) for d in range(draws)]),
        MISMATCHED: small.moved_each([swap_changes(small, tensor, basis, mismatch=d) for d in wrong]),
        UNTRAINED: [one.moved(swap_changes(one, tensor, its)) for one, its in blank],
    }
    return measured(
        "moved to the donor by a swap",
        [per_sequence(after[:, chosen]), per_sequence(pair.before[:, chosen])],
        fraction,
        where=placed(pair.recipient, tensor, name, basis),
        nulls=nulls,
        few=small.count,
        arrays={"per_position": (1.0 - after.mean(0) / pair.before.mean(0).clamp_min(1e-12)).cpu().numpy()},
        note=pair.note,
    )


def measure_removal(
    pair: Pair,
    blank: list[tuple[Pair, Tensor]],
    tensor: str,
    name: str,
    basis: Tensor,
    method: str,
    *,
    draws: int = DRAWS,
) -> Measurement:
    """Bits lost when the subspace is ablated by one of METHODS."""
    bench, small = pair.recipient, pair.small.recipient
    width, rank = basis.shape
    place = at_readouts(bench, tensor, basis)
    arbitrary = [at_readouts(small, tensor, subspace(width, rank, 4, d)) for d in range(draws)]
    lost = bits_lost(bench, [place], method)
    nulls = {
        RANDOM: small.lost_each([ablation(small, [one], method) for one in arbitrary]),
        TURNED: turned(small, [place], method, draws),
        UNTRAINED: [bits_lost(one.recipient, [at_readouts(one.recipient, tensor, its)], method) for one, its in blank],
    }
    few = lost if small is bench else bits_lost(small, [place], method)
    return Losses(lost, nulls, few).measured(
        "bits lost to ablation of a subspace",
        where=placed(bench, tensor, name, basis) | {"method": method},
        arrays={"per_position": lost.mean(0).cpu().numpy(), "basis": basis.detach().to("cpu", torch.float32).numpy()},
        note=pair.note,
    )
