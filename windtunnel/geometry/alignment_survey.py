"""The alignment instrument on a network: gathers attention at the readouts, then calls `alignment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from windtunnel.geometry import alignment as pure
from windtunnel.geometry.gather import ending, label, layer_of, named
from windtunnel.geometry.measurement import Measurement, Missing, Result
from windtunnel.geometry.records import Side, profile, scalar, unanswerable
from windtunnel.geometry.stats import resampled_mean, resampled_ratio, resampling_weights
from windtunnel.geometry.task import Target, attention_targets
from windtunnel.models import trace
from windtunnel.tunnels import Bijection, Episodes, Tunnel

DRAWS = 199
BUDGET = 2**28  # bytes of attention patterns held at a time while gathering


def patterns_at_readout(model: nn.Module, episodes: Episodes) -> np.ndarray:
    """(n, L, H, K, T) float32 attention patterns where the network is read."""
    names = ending(named(model, episodes), ".attention.pattern")
    readout, length = episodes.inputs.readout.cpu(), episodes.inputs.tokens.shape[1]
    parts, first, chunk = [], 0, 1
    while first < len(episodes):
        kept = trace(model, episodes[first : first + chunk], names, chunk=chunk)
        parts.append(np.stack([kept[name][:, :, readout].float().numpy() for name in names], axis=1))
        first += chunk
        layers_and_heads = parts[0].shape[1] * parts[0].shape[2]
        chunk = int(np.clip(BUDGET // (4 * layers_and_heads * length * length), 1, 64))
    return np.concatenate(parts)


def alignment(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Entropy by layer, mass on the positions that matter, evenness over spent values, and their change with depth."""
    names = ending(named(model, episodes), ".attention.pattern")
    if not names:
        why = "has no attention pattern: no tensor of it ends with .attention.pattern"
        return [Missing("alignment", f"{label(model)} {why}")]
    layers = [layer_of(name) for name in names]
    patterns = patterns_at_readout(model, episodes)
    twins = [patterns_at_readout(twin, episodes) for twin in untrained]
    found: list[Measurement | Missing] = _entropy(patterns, twins, layers)
    for name, target in attention_targets(tunnel, episodes).items():
        if target.mask.any():
            found += _mass(name, target, patterns, twins, layers)
        else:
            found.append(Missing("alignment", f"attention on {name}: no readout of these episodes has such positions"))
    if isinstance(tunnel, Bijection):
        found += _evenness(tunnel, episodes, patterns, twins, layers)
    return found


def _entropy(patterns: np.ndarray, twins: list[np.ndarray], layers: list) -> list[Measurement | Missing]:
    def per_episode(p: np.ndarray) -> np.ndarray:
        return pure.entropy_bits(p).mean(-1)  # (n, L, H)

    own, weights = per_episode(patterns), resampling_weights(len(patterns))
    nulls = {"untrained": np.array([per_episode(twin).mean(0) for twin in twins])}
    replicates = resampled_mean(own, weights)
    name, where = "attention entropy", {"positions": "readouts"}
    shared = {"side": "below", "unit": "bits", "where": where}
    found = profile(name, own.mean(0), replicates, nulls, layers=layers, picks=("first", "last", "best"), **shared)
    return [*found, *_depth(name, own.mean(0), replicates, nulls, "bits", "below", where, with_fall=True)]


def _mass(
    name: str, target: Target, patterns: np.ndarray, twins: list[np.ndarray], layers: list[int | str]
) -> list[Measurement]:
    """Share of the attention that is on the target's positions, from patterns (n, L, H, K, T)."""
    rows, weights = pure.rows_of(target.mask), resampling_weights(len(patterns))
    own = pure.masses(patterns, target.mask)
    nulls = {"untrained": np.array([pure.masses(twin, target.mask).sum(0) / rows.sum() for twin in twins])}
    note = ""
    if target.fixed:
        uniform = target.mask.sum(-1) / np.maximum(_reach(patterns), 1)
        share = float(uniform.sum() / rows.sum())
        note = f"the same positions in every episode, so shuffling is no control; uniform attention gives {share:.3f}"
    else:
        table = pure.overlaps(patterns, target.mask)
        nulls["shuffled episodes"] = pure.shuffled_masses(table, rows, DRAWS, np.random.default_rng(0))
    replicates = resampled_ratio(own, np.broadcast_to(rows[:, None, None], own.shape), weights)
    value, title, where = own.sum(0) / rows.sum(), f"attention on {name}", {"positions": "readouts"}
    found = profile(title, value, replicates, nulls, layers=layers, note=note, where=where)
    return found + _depth(title, value, replicates, nulls, "share", "both", where)


def _reach(patterns: np.ndarray) -> np.ndarray:
    """(K,) positions a readout may attend to: those that ever get attention."""
    return (patterns.max((0, 1, 2)) > 0).sum(-1)


def _evenness(
    tunnel: Bijection, episodes: Episodes, patterns: np.ndarray, twins: list[np.ndarray], layers: list[int | str]
) -> list[Measurement | Missing]:
    """How alike the attention is on each of the values shown so far, from patterns (n, L, H, K, T)."""
    tokens, readout = episodes.inputs.tokens.cpu().numpy(), episodes.inputs.readout.cpu().numpy()
    values = tunnel.symbols + np.arange(tunnel.symbols)
    stand = (tokens[:, :, None] == values).astype(np.float32)  # (n, T, V)
    shown = np.stack([stand[:, : r + 1].any(1) for r in readout], axis=1)  # (n, K, V)
    if (shown.sum(-1) < 2).all():
        return [Missing("alignment", "evenness over spent values needs readouts after two values")]

    def summed(p: np.ndarray) -> np.ndarray:
        mass = np.einsum("nlhkt,ntv->nlhkv", p, stand, optimize=True)
        return np.nansum(pure.evenness(np.where(shown[:, None, None], mass, -1.0)), axis=-1)  # (n, L, H)

    rows = (shown.sum(-1) >= 2).sum(-1).astype(float)
    own = summed(patterns)
    nulls = {"untrained": np.array([summed(twin).sum(0) / rows.sum() for twin in twins])}
    replicates = resampled_ratio(own, np.broadcast_to(rows[:, None, None], own.shape), resampling_weights(len(own)))
    note = "uniform attention is perfectly even: read it beside the mass on spent values"
    value, where = own.sum(0) / rows.sum(), {"positions": "readouts"}
    return list(profile("evenness over spent values", value, replicates, nulls, layers=layers, note=note, where=where))


def _depth(
    title: str,
    value: np.ndarray,
    replicates: np.ndarray,
    nulls: Mapping[str, np.ndarray],
    unit: str,
    side: Side,
    where: Mapping[str, Any],
    with_fall: bool = False,
) -> list[Measurement]:
    """How a table (L, H) changes with depth: slope per layer, and the share lost from first to last layer.

    Replicates and each null are several such tables, (B, L, H).
    """
    if len(value) < 2:
        return []
    changes: list[tuple[str, Callable, str, Side]] = [("slope with depth", pure.slope, f"{unit}/layer", side)]
    if with_fall:
        changes.append(("fall from first to last layer", pure.fall, "share", "above"))
    found = []
    for name, change, of_unit, of_side in changes:
        by_layer = value.mean(-1)
        if np.isnan(change(by_layer)):
            found.append(unanswerable(f"{title}, {name}", "attention of the first layer has no entropy to lose", where))
            continue
        drawn = {null: change(sample.mean(-1)) for null, sample in nulls.items() if len(sample)}
        samples = {null: sample[~np.isnan(sample)] for null, sample in drawn.items()}
        found.append(
            scalar(
                f"{title}, {name}",
                change(by_layer),
                change(replicates.mean(-1)),
                samples,
                unit=of_unit,
                side=of_side,
                where=where,
                arrays={"by layer": by_layer},
            )
        )
    return found
