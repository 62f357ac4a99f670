"""Arrays for the geometry section that no single number holds: matrices, clouds and curves, each with its null.

Each function returns plain data, or None where the network or the tunnel has nothing of the kind.  The numbers with
intervals and p-values come from the surveys; these are for looking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from windtunnel.geometry import beliefs, keys
from windtunnel.geometry.alignment import entropy_bits
from windtunnel.geometry.alignment_survey import patterns_at_readout
from windtunnel.geometry.gather import at_readout, ending, layer_of, named, residual_names, untrained_twins
from windtunnel.geometry.key_survey import gather_means
from windtunnel.geometry.ladder_survey import dynamics
from windtunnel.geometry.measurement import Measurement
from windtunnel.geometry.ridge import folds, held_out
from windtunnel.geometry.simplex import corners, polygon
from windtunnel.geometry.stats import first_share, r_squared, spectrum
from windtunnel.geometry.task import exact_belief, token_groups
from windtunnel.report.subjects import Subject
from windtunnel.report.words import share
from windtunnel.tunnels import HMM, Episodes, Tunnel

EPISODES, TOKENS = 64, 4_000  # looked at: as many episodes as have so many positions, 16 at least
LADDER_EPISODES = 32
TWINS = 3
POINTS = 600  # of a cloud
WIDEST = 24  # hypotheses of a matrix


def pictures(subject: Subject) -> dict[str, Any]:
    """All pictures of a subject's first network; what does not apply is None."""
    model, tunnel = subject.networks[0], subject.tunnel
    episodes = tunnel.sample(int(np.clip(TOKENS // tunnel.positions, 16, EPISODES)), 0, "test")
    twins = untrained_twins(model, TWINS)
    if not named(model, episodes):
        return {}
    return {
        "keys": key_matrices(model, tunnel, episodes, twins),
        "sharpening": sharpening(model, episodes, twins),
        "manifold": manifold(model, episodes),
        "simplex": simplex(model, tunnel, episodes),
        "dynamics": training(subject),
    }


def key_matrices(model: nn.Module, tunnel: Tunnel, episodes: Episodes, twins: list[nn.Module]) -> dict[str, Any] | None:
    """Centred |cosine| between the first layer's keys of rival hypotheses, mean over heads; the same of the nulls.

    A hypothesis whose token is in none of the episodes has no key to show, and is left out.
    """
    groups = {name: tokens[:WIDEST] for name, tokens in token_groups(tunnel).items() if len(tokens) >= 3}
    if not ending(named(model, episodes), ".attention.k") or not groups:
        return None
    name, tokens = next(iter(groups.items()))
    gathered = [gather_means(network, episodes, [tokens])[0] for network in (model, *twins)]
    used = gathered[0].occurs(queries=False)
    if used.sum() < 3:
        return None
    means = [one.average()[0][0][:, used] for one in gathered]  # (H, V, d)
    rng = np.random.default_rng(0)
    tables = {"trained": _cosines(means[0])}
    if twins:
        tables["untrained"] = np.mean([_cosines(mean) for mean in means[1:]], axis=0)
    random = keys.random_vectors(means[0].shape, 20, rng)
    tables["random vectors"] = np.mean([_cosines(draw) for draw in random], axis=0)
    labels = [tunnel.token_names()[token] for token in tokens[used]]
    return {"hypotheses": name, "labels": labels, "tables": {k: _short(v) for k, v in tables.items()}}


def _cosines(vectors: np.ndarray) -> np.ndarray:
    """(V, V) mean over heads of the |cosine| of centred keys (H, V, d)."""
    vectors = vectors - vectors.mean(-2, keepdims=True)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), keys.TINY)
    return np.abs(unit @ np.swapaxes(unit, -1, -2)).mean(0)


def sharpening(model: nn.Module, episodes: Episodes, twins: list[nn.Module]) -> dict[str, Any] | None:
    """Attention entropy in bits, layer by layer: every head, and the untrained twins' mean."""
    names = ending(named(model, episodes), ".attention.pattern")
    if not names:
        return None

    def by_head(network: nn.Module) -> np.ndarray:
        return entropy_bits(patterns_at_readout(network, episodes)).mean((0, -1))  # (L, H)

    found = {"layers": [layer_of(name) for name in names], "heads": _short(by_head(model))}
    return found | ({"untrained": _short(np.mean([by_head(twin).mean(-1) for twin in twins], axis=0))} if twins else {})


def manifold(model: nn.Module, episodes: Episodes) -> dict[str, Any]:
    """The last layer's values and residual stream on their first two principal components."""
    names, found = named(model, episodes), {}
    entropy = episodes.entropy_bits.cpu().numpy()
    step = np.broadcast_to(np.arange(entropy.shape[1]) + 1, entropy.shape)
    for stream, suffix in (("values", ".attention.v"), ("residual stream", ".residual")):
        layers = ending(names, suffix)
        if not layers:
            continue
        x = at_readout(model, episodes, layers[-1:])[layers[-1]]
        rows = x.reshape(-1, x.shape[-1])
        rows = rows - rows.mean(0)
        _, vectors = np.linalg.eigh(rows.T @ rows)
        kept = np.linspace(0, len(rows) - 1, min(len(rows), POINTS)).astype(int)
        plane = (rows @ vectors[:, :-3:-1])[kept]
        found[stream] = {
            "layer": layer_of(layers[-1]),
            "x": _short(plane[:, 0]),
            "y": _short(plane[:, 1]),
            "entropy": _short(entropy.ravel()[kept]),
            "position": step.ravel()[kept].tolist(),
            "pc1_share": float(first_share(spectrum(rows))),
        }
    return found


def simplex(model: nn.Module, tunnel: Tunnel, episodes: Episodes) -> dict[str, Any] | None:
    """The belief decoded from the stream of a few layers, sequences held out, beside the exact one."""
    if not isinstance(tunnel, HMM):
        return None
    belief = exact_belief(tunnel, episodes)
    names = residual_names(model, episodes)
    chosen = [names[index] for index in sorted({0, len(names[:2]) - 1, len(names) // 2, len(names) - 1})]
    streams, rounds = at_readout(model, episodes, chosen), folds(len(belief))
    states = belief.shape[-1]
    flat = belief.reshape(-1, states)
    kept = np.linspace(0, belief.shape[0] * belief.shape[1] - 1, min(belief[..., 0].size, POINTS)).astype(int)

    def points(b: np.ndarray) -> list:
        return _short(polygon(b.reshape(-1, states)[kept]))

    layers = {"exact belief": points(belief)}
    for name in chosen:
        decoded = held_out(streams[name], belief[None], rounds)[0]
        layer = layer_of(name)
        told = f"after layer {layer}" if isinstance(layer, int) else "before the first layer"
        layers[f"{told}: R² {share(r_squared(flat, decoded.reshape(flat.shape)), 2)}"] = points(
            np.exp(beliefs.from_decoded(decoded, log=False))
        )
    likeliest = belief.argmax(-1).ravel()[kept].tolist()
    return {"corners": _short(corners(states)), "layers": layers, "likeliest": likeliest}


def training(subject: Subject) -> dict[str, Any] | None:
    """Similarity to the end of training of attention, values and stream, and KL: rung by rung, mean over layers.

    {kind: {seed: [[step, value], …]}}; from the run's survey where there is one, else measured now.
    """
    run = subject.run
    if run is None or any(len(run.ladder(seed)) < 3 for seed in subject.seeds):
        return None
    survey = subject.survey()
    readings = [] if survey is None else [found for _, found in survey.measurements("dynamics")]
    if not readings:
        readings = dynamics(run, run.tunnel.sample(LADDER_EPISODES, 0, "test"))
    curves: dict[str, Any] = {}
    for found in readings:
        if isinstance(found, Measurement) and found.name.endswith(" settled at 95%"):
            kind = found.name.removesuffix(" settled at 95%")
            curves[kind] = {str(seed): _rungs(found, seed) for seed in subject.seeds}
    return curves or None


def _rungs(found: Measurement, seed: int) -> list:
    steps, curve = (np.asarray(found.arrays[f"{kind}, seed {seed}"], dtype=float) for kind in ("steps", "curve"))
    return _short(np.column_stack([steps, np.atleast_2d(curve).mean(0)]))


def _short(values: Any) -> list:
    """Four significant digits: a picture needs no more."""
    array = np.asarray(values, dtype=float)
    if array.ndim > 1:
        return [_short(row) for row in array]
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in array]
