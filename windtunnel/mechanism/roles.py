"""Who does what in one Bayesian step?  Carry, update and routing, each taken away at and before one readout.

    routing   the mixer's output                 what attention (or the recurrence) brings from other positions
    update    the feed-forward output            what is computed at a position
    carry     the residual stream after a block  what a position holds for itself and for those that read it
    memory    the whole recurrent state, one step back: all that this step can know of earlier ones (see `Anatomy`)

Each is set to its mean over episodes, in one layer or in all, and the loss is read at that one readout, in bits:

    at it                at its own position: is this role needed to make the present step?
    before it            at all earlier positions: does the present step rest on what this role did there?
    evidence before it   carry only: at the earlier positions less the header, whose content is no belief

Carry in all layers at once would leave nothing; it is ablated layer by layer only.  Layers do each other's work: one
of them may be spared where all together are needed.

Nulls: damage of equal size in a random direction; untrained networks.  The few episodes on which nulls are drawn
elsewhere say little at one readout.  Here the value and all its nulls are of the same episodes (EPISODES of them), none
is moved, and layers may be compared.  What follows the readout cannot matter to it (see `Inputs`) and is cut off first,
which halves the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.chance import DRAWS
from windtunnel.mechanism.losses import Losses
from windtunnel.mechanism.place import Place
from windtunnel.mechanism.score import Benches
from windtunnel.mechanism.worlds import middle
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs
from windtunnel.tunnels.hmm import HMM

ROLES = ("routing", "update", "carry")
EPISODES = 64  # more would take a survey on two cores past its five minutes: every null runs on all of them


def role_tensors(anatomy: Anatomy, role: str) -> list[tuple[int, str]]:
    """(layer, tensor) of every layer that has one for this role."""
    named = {
        "routing": anatomy.mixer,
        "update": anatomy.ff,
        "carry": lambda layer: name if (name := f"blocks.{layer}.residual") in anatomy.shapes else None,
    }[role]
    return [(layer, name) for layer in range(anatomy.depth) if (name := named(layer)) is not None]


def up_to(episodes: Episodes, step: int) -> Episodes:
    """The same episodes until readout `step`, which is then the only one."""
    last, only = int(episodes.inputs.readout[step]), slice(step, step + 1)
    tokens, features, readout = episodes.inputs.tokens, episodes.inputs.features, episodes.inputs.readout
    shown = Inputs(tokens[:, : last + 1], None if features is None else features[:, : last + 1], readout[only])
    return replace(episodes, inputs=shown, labels=episodes.labels[:, only], posterior=episodes.posterior[:, only])


def sites(tunnel: Tunnel, role: str, position: int) -> dict[str, tuple[int, ...]]:
    """Where a role is taken away for a readout at this position: name -> positions, where there are any."""
    header = tunnel.header_positions if isinstance(tunnel, HMM) else 0
    found = {"at it": (position,), "before it": tuple(range(position))}
    if role == "carry" and header:
        found["evidence before it"] = tuple(range(header, position))
    return {site: positions for site, positions in found.items() if positions}


def roles(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    step: int | None = None,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """The table of effects at readout `step` (the middle one by default)."""
    step = middle(tunnel, step)
    episodes = up_to(episodes[:EPISODES], step)
    position = int(episodes.inputs.readout[0])
    benches = Benches.of(model, tunnel, episodes, untrained, null_episodes=len(episodes))
    benches.record(name for role in ROLES for _, name in role_tensors(benches.main.anatomy, role))
    results: list[Measurement | Missing] = []
    for role in ROLES:
        tensors = role_tensors(benches.main.anatomy, role)
        if not tensors:
            results.append(Missing(f"role: {role}", f"the network has no tensor for {role}"))
            continue
        groups: dict[int | str, list[str]] = {layer: [name] for layer, name in tensors}
        if role != "carry" and len(tensors) > 1:
            groups["all"] = [name for _, name in tensors]
        for site, positions in sites(tunnel, role, position).items():
            for layer, names in groups.items():
                places = [Place(name, positions=positions) for name in names]
                where = {"role": role, "layer": layer, "site": site, "step": step, "method": "mean"}
                results.append(_effect(benches, places, where, draws))
    return [*results, _memory(benches, position, step, draws)]


def _memory(benches: Benches, position: int, step: int, draws: int) -> Measurement | Missing:
    """The state of all layers just before this position, set to its mean."""
    anatomy = benches.main.anatomy
    if not anatomy.memory:
        return Missing("role: memory", "the network carries no state from step to step")
    if not position:
        return Missing("role: memory", "the readout is the first position: no step comes before it")
    places = [Place(name, positions=(position - 1,)) for name in anatomy.memory]
    where = {"role": "memory", "layer": "all", "site": "one step back", "step": step, "method": "mean"}
    return _effect(benches, places, where, draws)


def _effect(benches: Benches, places: list[Place], where: dict, draws: int) -> Measurement:
    return Losses.of(benches, places, "mean", draws=draws).measured("bits lost without a role", where=where)
