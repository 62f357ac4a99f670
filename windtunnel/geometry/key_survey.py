"""The key instrument on a network: gathers mean keys and queries per hypothesis, then calls `keys`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.geometry import keys as pure
from windtunnel.geometry.gather import CHUNK, ending, label, layer_of, named
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.measurement import Measurement, Missing, Result
from windtunnel.geometry.records import profile
from windtunnel.geometry.stats import resampling_weights
from windtunnel.geometry.task import token_groups
from windtunnel.models import trace
from windtunnel.models.device import device_of
from windtunnel.tunnels import Episodes, Tunnel

DRAWS = 99
REPLICATES = 50
GROUPS = 32  # sequences are resampled in this many groups, which bounds memory


@dataclass(frozen=True)
class Means:
    """Sums of keys and queries per group of sequences, hypothesis, layer and head, with their counts.

    k, q              (G, L, H, V, d)
    k_count, q_count  (G, V)
    scale             what the network multiplies q · k by to make its scores: 1/√d, or 1 for the delta rule
    """

    k: np.ndarray
    q: np.ndarray
    k_count: np.ndarray
    q_count: np.ndarray
    scale: float

    def occurs(self, weights: np.ndarray | None = None, *, queries: bool = True) -> np.ndarray:
        """(V,) bool: which hypotheses have a key, with `queries` a query too; weights (G,) for a replicate."""
        w = np.ones(len(self.k)) if weights is None else weights
        return (w @ self.k_count > 0) & ((w @ self.q_count > 0) | (not queries))

    def average(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean keys and queries (L, H, V, d), likewise; 0 where one does not occur."""
        w = np.ones(len(self.k)) if weights is None else weights
        means = []
        for sums, counts in ((self.k, self.k_count), (self.q, self.q_count)):
            means.append(np.tensordot(w, sums, axes=1) / np.maximum(w @ counts, 1e-9)[:, None])
        return means[0], means[1]


def keys(model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module]) -> Result:
    """Cosines, margin and sharpness of every group of hypotheses, layer and head."""
    names = named(model, episodes)
    for part, told in ((".attention.k", "keys"), (".attention.q", "queries beside its keys")):
        if not ending(names, part):
            return [Missing("keys", f"{label(model)} has no {told}: no tensor of it ends with {part}")]
    groups = token_groups(tunnel)
    if not groups:
        return [Missing("keys", f"{type(tunnel).__name__} has no tokens that stand for rival hypotheses")]
    found: list[Measurement | Missing] = []
    for group, tokens in groups.items():
        if len(tokens) < 3:
            found.append(Missing("keys", f"{len(tokens)} {group}: needs at least three hypotheses to compare"))
    groups = {group: tokens for group, tokens in groups.items() if len(tokens) >= 3}
    layers = [layer_of(name) for name in ending(names, ".attention.k")]
    means = [gather_means(network, episodes, list(groups.values())) for network in (model, *untrained)]
    for group, (own, *twins) in zip(groups, zip(*means)):
        found += _formed(group, layers, own, twins)
        found += guarded("keys of bare tokens", _bare, model, episodes, untrained, group, groups[group])
    return found


def _formed(group: str, layers: list, means: Means, twins: list[Means]) -> list[Measurement | Missing]:
    used = means.occurs()
    if used.sum() < 3:
        return [Missing("keys", f"fewer than three of the {group} tokens occur in these episodes")]
    weights = resampling_weights(len(means.k), REPLICATES)
    rng = np.random.default_rng(0)
    k, q = (x[..., used, :] for x in means.average())
    shared = {"layers": layers, "picks": ("first", "best"), "where": {"hypotheses": group, "path": "formed"}}

    def table(statistic: Callable, source: Means, w: np.ndarray | None = None, of: np.ndarray = used) -> np.ndarray:
        k, q = source.average(w)
        return statistic(k[..., of, :], q[..., of, :], source.scale)

    def replicated(statistic: Callable, *, queries: bool) -> np.ndarray:
        # A rare token may be in no sequence of a replicate: it has no mean there, and a vector of zeros is not one.
        drawn = [(w, used & means.occurs(w, queries=queries)) for w in weights]
        found = [table(statistic, means, w, there) for w, there in drawn if there.sum() >= 3]
        return np.stack(found) if found else np.empty((0, *k.shape[:2]))

    found: list[Measurement | Missing] = []
    random = [_cosines(draw) for draw in pure.random_vectors(k.shape, DRAWS, rng)]
    for index, kind in enumerate(("raw", "centred")):
        statistic = lambda k, q, scale, centred=bool(index): pure.cosine(k, centred=centred)  # noqa: E731
        nulls = {"untrained": [table(statistic, twin) for twin in twins], "random vectors": [r[index] for r in random]}
        found += profile(
            f"key cosine, {kind}",
            table(statistic, means),
            replicated(statistic, queries=False),
            {name: np.array(sample) for name, sample in nulls.items()},
            side="below",
            note="a shared offset of all keys moves this number and no attention" if kind == "raw" else "",
            **shared,
        )
    scores = pure.centred_scores(q, k, means.scale)
    shuffled = pure.matched_at_random(scores, DRAWS, rng)
    draws = zip(pure.random_vectors(q.shape, DRAWS, rng), pure.random_vectors(k.shape, DRAWS, rng))
    random = np.stack([pure.sharpness(pure.centred_scores(a, b)) for a, b in draws])
    for name, function, unit in (
        ("query–key margin", pure.margin, "nats"),
        ("query–key sharpness", pure.sharpness, ""),
    ):
        statistic = lambda k, q, scale, f=function: f(pure.centred_scores(q, k, scale))  # noqa: E731
        nulls = {
            "untrained": np.array([table(statistic, twin) for twin in twins]),
            "hypotheses matched at random": function(shuffled),
        }
        if function is pure.sharpness:
            nulls["random vectors"] = random
        value, replicates = table(statistic, means), replicated(statistic, queries=True)
        found += profile(name, value, replicates, nulls, side="both", unit=unit, arrays={"scores": scores}, **shared)
    return found


def _cosines(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return pure.cosine(keys, centred=False), pure.cosine(keys, centred=True)


def _bare(
    model: nn.Module, episodes: Episodes, untrained: Sequence[nn.Module], group: str, tokens: np.ndarray
) -> list[Measurement]:
    """The first layer's keys of each token (V,) alone: no position, no features, no context."""
    k, name = bare_keys(model, episodes, tokens)
    rng = np.random.default_rng(0)
    random = [_cosines(draw) for draw in pure.random_vectors(k.shape, DRAWS, rng)]
    twins = [_cosines(bare_keys(twin, episodes, tokens)[0]) for twin in untrained]
    found = []
    for index, kind in enumerate(("raw", "centred")):
        nulls = {"untrained": [twin[index] for twin in twins], "random vectors": [draw[index] for draw in random]}
        found += profile(
            f"key cosine, {kind}",
            pure.cosine(k, centred=bool(index))[None],
            np.empty((0, 1, len(k))),
            {null: np.array(sample)[:, None] for null, sample in nulls.items() if sample},
            layers=[layer_of(name)],
            side="below",
            picks=("first", "best"),
            where={"hypotheses": group, "path": "bare token"},
            note="no interval: it depends on no episode",
        )
    return found


@torch.no_grad()
def bare_keys(model: nn.Module, episodes: Episodes, tokens: np.ndarray) -> tuple[np.ndarray, str]:
    """(H, V, d) keys of the first attention layer for one-token inputs, and the name of that tensor.

    Where a position is added to the embedding, it is taken out again on the way.
    """
    names = named(model, episodes)
    if "positioned" in names and "embed" not in names:
        raise InputError(f"{label(model)} names `positioned` without `embed`: its positions cannot be taken out")
    name = ending(names, ".attention.k")[0]
    device, seen = device_of(model, episodes.inputs.tokens), {}

    def tap(at: str, value: Tensor) -> Tensor:
        seen[at] = value
        return seen["embed"] if at == "positioned" else value

    given = episodes.inputs.features
    features = None if given is None else torch.zeros(len(tokens), 1, given.shape[-1], dtype=given.dtype, device=device)
    ids = torch.as_tensor(tokens, device=device)[:, None]
    model(ids, features, torch.zeros(1, dtype=torch.int64, device=device), tap)
    return seen[name][:, :, 0].transpose(0, 1).double().cpu().numpy(), name


def gather_means(model: nn.Module, episodes: Episodes, groups: Sequence[np.ndarray]) -> list[Means]:
    """One `Means` for each group of tokens (V,), in one pass.

    Keys are taken wherever a token stands; queries where it stands and is read, or anywhere if its group never is.
    """
    names = named(model, episodes)
    k_names, q_names = ending(names, ".attention.k"), ending(names, ".attention.q")
    tokens, readout = episodes.inputs.tokens.cpu(), episodes.inputs.readout.cpu()
    stand = [(tokens[:, :, None] == torch.as_tensor(group)).float() for group in groups]  # (n, T, V) each
    asked = [_where_read(where, readout) for where in stand]
    size = max(1, -(-len(episodes) // GROUPS))
    step = max(1, CHUNK // size) * size  # episodes per forward pass: whole groups
    sums: list[list[list]] = [[[], [], [], []] for _ in groups]
    for first in range(0, len(episodes), step):
        kept = trace(model, episodes[first : first + step], [*k_names, *q_names], chunk=step)
        for start in range(first, min(first + step, len(episodes)), size):
            part, here = slice(start, start + size), slice(start - first, start - first + size)
            for own, s, a in zip(sums, stand, asked):
                own[0].append(_summed(kept, k_names, here, s[part]))
                own[1].append(_summed(kept, q_names, here, a[part]))
                own[2].append(s[part].sum((0, 1)).numpy())
                own[3].append(a[part].sum((0, 1)).numpy())
    scaled = bool(ending(names, ".attention.scores"))  # the delta rule does not divide by √d
    return [Means(*map(np.stack, own), scale=own[0][0].shape[-1] ** -0.5 if scaled else 1.0) for own in sums]


def _where_read(stand: Tensor, readout: Tensor) -> Tensor:
    read = torch.zeros_like(stand)
    read[:, readout] = stand[:, readout]
    return read if bool(read.any()) else stand


def _summed(kept: dict[str, Tensor], names: list[str], here: slice, where: Tensor) -> np.ndarray:
    """(L, H, V, d) sums over episodes and positions."""
    return np.stack([torch.einsum("nhtd,ntv->hvd", kept[name][here].float(), where).numpy() for name in names])
