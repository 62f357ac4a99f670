"""The belief instrument on a network: the stream of every layer against the exact belief; calls `beliefs`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from windtunnel.geometry import beliefs as pure
from windtunnel.geometry.gather import at_readout, label, layer_of, named, residual_names
from windtunnel.geometry.measurement import COUNTED, Measurement, Missing, Result
from windtunnel.geometry.records import profile, unanswerable
from windtunnel.geometry.ridge import Fold, errors, folds, held_out
from windtunnel.geometry.simplex import polygon
from windtunnel.geometry.stats import resampled_mean, resampled_ratio, resampling_weights
from windtunnel.geometry.task import exact_belief, next_token, window_belief
from windtunnel.geometry.values import why_unidentifiable
from windtunnel.tunnels import Episodes, Tunnel

DRAWS = COUNTED
RANKS = (1, 2, 4, 8, 16, 32)
PICTURED = 2000  # points of a simplex picture
SAME = 1e-9  # probabilities that differ by less are equal
NOTHING = 1e-5  # share of a variance: less is what a ridge leaves of that which it explains in full

Streams = dict[str, np.ndarray]
"""Name of a layer's stream -> what it is at the readouts, (n, K, D), in the order of the layers."""


def beliefs(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Decoded belief, log-belief and entropy of every layer: R², bits of KL, and what lies beyond short windows."""
    if not named(model, episodes):
        return [Missing("beliefs", f"{label(model)} has no taps")]
    belief = exact_belief(tunnel, episodes)
    if why := too_few(*belief.shape):
        return [Missing("beliefs", why)]
    names = residual_names(model, episodes)
    own = at_readout(model, episodes, names)
    twins = [at_readout(twin, episodes, names) for twin in untrained]
    rounds, layers = folds(len(belief)), [layer_of(name) for name in names]
    found: list[Measurement | Missing] = []
    for log in (False, True):
        found += _decoded(belief, own, twins, rounds, layers, log)
    found += _entropy(episodes, own, twins, rounds, layers)
    found += _beyond(tunnel, episodes, belief, own, twins, rounds, layers)
    return found


def too_few(count: int, steps: int, classes: int) -> str:
    """Why no map to a belief (n, K, C) can be fitted and tried, or "" when one can."""
    if count < 8 or count * steps < 5 * classes:
        return f"{count} episodes of {steps} readouts are too few for {classes} classes"
    return ""


def _decoded(
    belief: np.ndarray, own: Streams, twins: list[Streams], rounds: list[Fold], layers: list[int | str], log: bool
) -> list[Measurement]:
    """R² and KL of the belief (n, K, C), or with `log` of its centred log, as a linear map reads it in each layer."""
    what = "log-belief" if log else "belief"
    name, where = f"{what} decoded, R²", {"stream": "residual", "target": what}
    if np.ptp(belief, axis=(0, 1)).max() < SAME:
        return [unanswerable(name, "the exact belief is the same everywhere", where)]
    rng = np.random.default_rng(0)
    target = pure.centred_log(belief) if log else belief
    targets = pure.shuffled_targets(target, DRAWS, rng)
    bits = pure.shuffled_targets(belief, DRAWS, np.random.default_rng(0))  # the same orders: what each must predict
    rank = belief.shape[-1] - 1
    r2, kl, samples = [], [], {null: ([], []) for null in ("shuffled episodes", "random subspaces", "untrained")}
    pictures, by_rank = {}, []
    for layer, x in zip(layers, own.values()):
        found = held_out(x, targets, rounds)
        r2.append(errors(target, found[0]))
        kl.append(pure.decoded_kl_bits(belief, found[0], log=log))
        pictures[layer] = polygon(np.exp(pure.from_decoded(found[0], log=log)).reshape(-1, rank + 1)[:PICTURED])
        pairs = list(zip(targets[1:], bits[1:], found[1:]))
        _add(samples["shuffled episodes"], pairs, log)
        small = [held_out(pure.random_subspace(x, rank, rng), target[None], rounds)[0] for _ in range(DRAWS)]
        _add(samples["random subspaces"], [(target, belief, prediction) for prediction in small], log)
        fit = {r: held_out(pure.random_subspace(x, r, rng), target[None], rounds)[0] for r in RANKS}
        by_rank.append([pure.ratio(errors(target, prediction)) for prediction in fit.values()])
    for index in range(len(layers)):
        xs = [list(twin.values())[index] for twin in twins]
        _add(samples["untrained"], [(target, belief, held_out(x, target[None], rounds)[0]) for x in xs], log)
    weights = resampling_weights(len(belief))
    error, total = (np.stack([pair[i] for pair in r2], axis=1) for i in (0, 1))
    arrays = {"exact": polygon(belief.reshape(-1, rank + 1)[:PICTURED]), "random ranks": np.array(RANKS)}
    arrays |= {f"decoded: {layer}": points for layer, points in pictures.items()} | {"r2 by rank": np.array(by_rank)}
    kls = np.stack(kl, axis=1)
    return [
        *profile(
            name,
            1.0 - error.sum(0) / total.sum(0),
            1.0 - resampled_ratio(error, total, weights),
            {null: np.array(pair[0]).T for null, pair in samples.items() if pair[0][0]},
            layers=layers,
            where=where,
            arrays=arrays,
        ),
        *profile(
            f"{what} decoded, KL",
            kls.mean(0),
            resampled_mean(kls, weights),
            {null: np.array(pair[1]).T for null, pair in samples.items() if pair[1][0]},
            layers=layers,
            side="below",
            unit="bits",
            where=where,
        ),
    ]


def _add(sample: tuple[list, list], triples: list, log: bool) -> None:
    """Score (target, belief, prediction) triples of one layer, one per draw."""
    sample[0].append([pure.ratio(errors(target, prediction)) for target, _, prediction in triples])
    sample[1].append([pure.decoded_kl_bits(belief, guess, log=log).mean() for _, belief, guess in triples])


def _entropy(
    episodes: Episodes, own: Streams, twins: list[Streams], rounds: list[Fold], layers: list[int | str]
) -> list[Measurement]:
    """How well a linear map reads the exact entropy, (n, K) bits.  Shuffled episodes keep their positions: what
    position tells of it is part of that null."""
    entropy = episodes.entropy_bits.double().cpu().numpy()
    name, where = "entropy decoded, R²", {"stream": "residual", "target": "entropy"}
    if why := why_unidentifiable(entropy):
        return [unanswerable(name, why, where)]
    targets = pure.shuffled_targets(entropy[..., None], DRAWS, np.random.default_rng(3))
    pairs = [[errors(*both) for both in zip(targets, held_out(x, targets, rounds))] for x in own.values()]
    error, total = (np.stack([layer[0][i] for layer in pairs], axis=1) for i in (0, 1))
    real = targets[:1]
    blank = [[pure.ratio(errors(real[0], held_out(x, real, rounds)[0])) for x in twin.values()] for twin in twins]
    return profile(
        name,
        1.0 - error.sum(0) / total.sum(0),
        1.0 - resampled_ratio(error, total, resampling_weights(len(entropy))),
        {
            "untrained": np.array(blank),
            "shuffled episodes": np.array([[pure.ratio(draw) for draw in layer[1:]] for layer in pairs]).T,
        },
        layers=layers,
        where=where,
    )


def _beyond(
    tunnel: Tunnel,
    episodes: Episodes,
    belief: np.ndarray,
    own: Streams,
    twins: list[Streams],
    rounds: list[Fold],
    layers: list[int | str],
) -> list[Measurement | Missing]:
    """R² of the belief (n, K, C) beyond its position and what is known without a long memory: beliefs from the last one
    or two observations, and the distribution of the next token."""
    windows = [window_belief(tunnel, episodes, size) for size in (1, 2)]
    shown = [np.concatenate([window, pure.centred_log(window)], -1) for window in windows if window is not None]
    controls: dict[str, np.ndarray] = {}
    if shown:
        controls = {"window 1": shown[0], "windows 1 and 2": np.concatenate(shown, -1)}
    symbols = next_token(tunnel, episodes)
    if symbols is not None:
        controls["next token"] = np.concatenate([symbols, pure.centred_log(symbols)], -1)
    if not controls:
        return [Missing("beliefs beyond", f"{type(tunnel).__name__} has no short-window belief to go beyond")]
    rng, weights = np.random.default_rng(2), resampling_weights(len(belief))
    orders = [rng.permutation(len(belief)) for _ in range(DRAWS)]
    position = np.broadcast_to(np.eye(belief.shape[1]), (len(belief), belief.shape[1], belief.shape[1]))
    found: list[Measurement | Missing] = []
    whole = errors(belief, belief)[1].sum()
    for name, control in controls.items():
        title, where = f"belief beyond {name}, R²", {"stream": "residual", "target": "belief", "beyond": name}
        nuisance = np.concatenate([control, position], -1)
        ask = pure.Beyond(belief, nuisance, rounds, orders)
        pairs = [ask(x) for x in own.values()]
        untrained = [[pure.ratio(ask(x, controls=False)[0]) for x in twin.values()] for twin in twins]
        error, total = (np.stack([layer[0][i] for layer in pairs], axis=1) for i in (0, 1))
        if total.sum(0).max() <= NOTHING * whole:
            found.append(
                unanswerable(title, f"{name} and the position leave nothing of the exact belief to explain", where)
            )
            continue
        shuffled = np.array([[pure.ratio(draw) for draw in layer[1:]] for layer in pairs]).T
        found += profile(
            title,
            1.0 - error.sum(0) / total.sum(0),
            1.0 - resampled_ratio(error, total, weights),
            {"untrained": np.array(untrained), "shuffled episodes": shuffled},
            layers=layers,
            where=where,
        )
    return found
