"""Score predictors against the exact belief.

    score = evaluate(run)                                      # every seed of a run, on its own tunnel
    score = evaluate(predictor, tunnel, episodes=1_000_000)    # memory is that of one chunk
    score = evaluate([a, b, c], tunnel, where="seen", positions=slice(10, None))

Episodes are read in chunks and never kept, so a claim at 1e-4 bits can afford the million episodes it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from windtunnel.environment import require_device
from windtunnel.errors import InputError, is_truth, one_of_kind, require, require_choice, whole_number
from windtunnel.fidelity.baselines.common import Baseline
from windtunnel.fidelity.predictor import Predictor, checked_log_probs, evaluation_mode
from windtunnel.fidelity.score import Score, Where, score_fields
from windtunnel.fidelity.tally import ExactTally, NetworkTally
from windtunnel.tunnels.base import Tunnel, require_tunnel
from windtunnel.tunnels.episodes import Episodes
from windtunnel.tunnels.random import whole_seed

Positions = slice | Sequence[int] | None

# Limits of the default chunk: episodes; and on a CPU positions and, for attention, pairs of positions in all of them.
MAX_CHUNK_EPISODES = 4096
CPU_CHUNK_POSITIONS = 2**15
CPU_CHUNK_PAIRS = 2**24


def evaluate(
    subject: Any,
    tunnel: Tunnel | None = None,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    where: Where = None,
    positions: Positions = None,
    device: str | torch.device | None = None,
    chunk: int | None = None,
) -> Score:
    """How many bits `subject` is from exact inference on `tunnel`.

    subject    a predictor, a list of predictors that differ by seed, or a run (has `.models` and `.tunnel`);
               `wt.evaluate` also takes a bare module, whose forward gives logits
    tunnel     needed unless the subject has one (a run, a network from the zoo); if given, it replaces the subject's
    episodes   how many episodes of (seed, stream) to score; every predictor sees the same ones
    where      restrict the averages to a named subset of the tunnel (`tunnel.subsets`), or to the readouts that
               a function of the episodes selects, (n, K) bool
    positions  restrict them to these readouts, e.g. slice(20, None) for the steps beyond a training length of 20
    device     where to sample; by default where the first network's parameters are, else the CPU
    chunk      episodes held at a time; affects memory and speed, not the result.  Default: what fits, see `fitting`

    A mean runs over all selected readouts with equal weight.  Intervals are t-intervals over seeds for several
    predictors, and a bootstrap over sequences for a single one; `Score.kl_bits.over` says which.
    """
    if device is not None:
        require_device(str(device))  # before a run loads its networks
    predictors, tunnel = unpack(subject, tunnel)
    scores = evaluate_all(
        {"subject": predictors},
        tunnel,
        episodes=episodes,
        seed=seed,
        stream=stream,
        where=where,
        positions=positions,
        device=device,
        chunk=chunk,
    )
    return scores["subject"]


class Watch(Protocol):
    """A listener to `evaluate_parts`: it receives every chunk of episodes and every prediction, so that no network has
    to read the episodes twice (`windtunnel.study.share_measurement` has one)."""

    def begin(self, batch: Episodes) -> None:
        """The next episodes."""
        ...

    def add(self, subject: str, index: int, log_q: Float64[Tensor, "n K C"]) -> None:
        """What predictor number `index` of a subject predicts for them."""
        ...


class Options(TypedDict, total=False):
    """The keywords of `evaluate_parts`, where they are only passed on."""

    episodes: int
    seed: int
    stream: str
    where: Where
    device: str | torch.device | None
    chunk: int | None
    progress: Callable[[str, int, int], None]
    watch: Watch | None


def evaluate_all(
    subjects: Mapping[str, Any], tunnel: Tunnel, *, positions: Positions = None, **options: Unpack[Options]
) -> dict[str, Score]:
    """Several named subjects on the same episodes, sampled once.  Options as for `evaluate` and `evaluate_parts`."""
    return evaluate_parts(subjects, tunnel, {"": positions}, **options)[""]


@torch.no_grad()
def evaluate_parts(
    subjects: Mapping[str, Any],
    tunnel: Tunnel,
    parts: Mapping[str, Positions],
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    where: Where = None,
    device: str | torch.device | None = None,
    chunk: int | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
    watch: Watch | None = None,
) -> dict[str, dict[str, Score]]:
    """The same for several named selections of readouts: part -> subject -> score.  Each predictor reads once.

    parts     name -> `positions` as for `evaluate`; the other options are those of `evaluate`
    progress  called before a predictor reads a chunk, with the subject's name, the number of chunks done and the total
    watch     receives every chunk of episodes and each predictor's predictions for it
    """
    require_tunnel(tunnel)
    if device is not None:
        require_device(str(device))
    groups = {name: unpack(subject, tunnel)[0] for name, subject in subjects.items()}
    everyone = [(name, index, one) for name, predictors in groups.items() for index, one in enumerate(predictors)]
    networks = [predictor for *_, predictor in everyone]
    episodes, seed = whole_number("episodes", episodes, 1), whole_seed(seed)
    device = _home(networks) if device is None else torch.device(device)
    chunk = fitting(tunnel.positions, device) if chunk is None else whole_number("chunk", chunk, 1)
    sheets = {name: _Sheet(tunnel, positions, groups, seed, device) for name, positions in parts.items()}
    done, total = 0, len(range(0, episodes, chunk)) * len(everyone)
    with evaluation_mode(networks):
        for start in range(0, episodes, chunk):
            batch = tunnel.sample(min(chunk, episodes - start), seed, stream, device, start=start)
            selected, entropy = _selection(batch, tunnel, where), batch.entropy_bits
            for sheet in sheets.values():
                sheet.begin(batch, entropy, selected)
            if watch is not None:
                watch.begin(batch)
            for number, (name, index, predictor) in enumerate(everyone):
                progress(name, done, total)
                done += 1
                log_q = checked_log_probs(predictor, batch.inputs, tunnel)
                for sheet in sheets.values():
                    sheet.tallies[number].add(batch, entropy, log_q, sheet.mask)
                if watch is not None:
                    watch.add(name, index, log_q)
    scored = {"tunnel": tunnel, "episodes": episodes, "seed": seed, "stream": stream, "where": where}
    return {part: sheet.scores(groups, **scored) for part, sheet in sheets.items()}


class _Sheet:
    """The sums of one selection of readouts: of the exact belief, and of every predictor in turn."""

    def __init__(
        self, tunnel: Tunnel, positions: Positions, groups: Mapping[str, list], seed: int, device: torch.device
    ) -> None:
        self.positions, self.indices = positions, _readout_indices(positions, tunnel.readouts)
        self.exact = ExactTally(tunnel, device)
        sizes = [len(predictors) for predictors in groups.values() for _ in predictors]
        self.tallies = [NetworkTally(tunnel, device, seed if size == 1 else None) for size in sizes]

    def begin(self, batch: Episodes, entropy: Tensor, selected: Bool[Tensor, "n K"]) -> None:
        """The next episodes, of which these readouts may count."""
        self.mask = selected
        if self.indices is not None:
            chosen = torch.zeros_like(selected[0])
            chosen[list(self.indices)] = True
            self.mask = selected & chosen
        self.exact.add(batch, entropy, self.mask)

    def scores(self, groups: Mapping[str, list], **scored: Any) -> dict[str, Score]:
        """By subject, from all that was added."""
        episodes = scored["episodes"]
        if self.exact.empty:
            told = f"where = {scored['where']!r}, positions = {self.positions!r}"
            raise InputError(f"{told}: selects no readout of {episodes} episodes")
        rest, found = iter(self.tallies), {}
        for name, predictors in groups.items():
            fields = score_fields(scored["tunnel"], self.exact, list(islice(rest, len(predictors))), episodes)
            found[name] = Score(**fields, **scored, positions=self.indices)
        return found


def fitting(length: int, device: torch.device) -> int:
    """The default chunk: how many episodes of this many positions fit into a few gigabytes beside a few million
    parameters.  Activations grow with the positions, attention with their square.

    >>> fitting(30, torch.device("cpu")), fitting(416, torch.device("cpu")), fitting(10_000, torch.device("cpu"))
    (1092, 78, 1)
    """
    room = 1 if device.type == "cpu" else 32
    return max(1, min(MAX_CHUNK_EPISODES, room * CPU_CHUNK_POSITIONS // length, room * CPU_CHUNK_PAIRS // length**2))


def unpack(subject: Any, tunnel: Tunnel | None) -> tuple[list[Predictor], Tunnel]:
    """The predictors of a subject, and the tunnel to score them on."""
    _require_instance(subject)  # a class has the attributes of what it makes
    if hasattr(subject, "log_probs"):
        predictors = [subject]
    elif hasattr(subject, "models"):
        predictors = list(subject.models)
    else:
        predictors = list(subject) if isinstance(subject, list | tuple) else [subject]
    tunnel = getattr(subject, "tunnel", None) if tunnel is None else tunnel
    require(len(predictors) > 0, "subject", subject, "a predictor, a list of at least one predictor, or a run")
    for predictor in predictors:
        _require_instance(predictor)
        if not isinstance(predictor, Predictor):
            wanted = "a predictor (have log_probs), a list of them, or a run"
            if isinstance(predictor, nn.Module):  # wrapped by a room that this one may not import
                wanted += "; a module becomes one by models.build(lambda tunnel: net, tunnel)"
            if isinstance(predictor, str | Path):
                wanted += "; a run's folder is opened by load(…), a shipped network by zoo.load(…)"
            raise InputError(f"subject = {one_of_kind(predictor)}: must be {wanted}")
    tunnel = require_tunnel(tunnel, "; only a run and a network from the zoo bring their own")
    for predictor in predictors:
        _require_fit(predictor, tunnel)
    return predictors, tunnel


def _require_instance(subject: object) -> None:
    if isinstance(subject, type):
        raise InputError(f"subject = the class {subject.__name__}: must be an instance of it, or models.build(…)")


def _require_fit(predictor: Predictor, tunnel: Tunnel) -> None:
    """A network that says for which sizes it was built must have been built for the tunnel's; a baseline, for what it
    reads of the tunnel besides."""
    sizes = getattr(predictor, "sizes", None)
    for name in ("vocabulary", "feature_width", "classes"):
        built, wanted = getattr(sizes, name, None), getattr(tunnel, name)
        require(built in (None, wanted), f"the model's {name}", built, f"the tunnel's {wanted}")
    if isinstance(predictor, Baseline):
        predictor.require_fit(tunnel)


def _home(predictors: list[Predictor]) -> torch.device:
    """Where the first network with parameters lives."""
    for predictor in predictors:
        if isinstance(predictor, nn.Module):
            for parameter in predictor.parameters():
                return parameter.device
    return torch.device("cpu")


def _readout_indices(positions: Positions, readouts: int) -> tuple[int, ...] | None:
    """The chosen readouts as sorted indices, or None for all."""
    if positions is None:
        return None
    every, masked = range(readouts), False
    try:
        given = every[positions] if isinstance(positions, slice) else list(positions)
        masked = any(map(is_truth, given))  # Python counts with them: a mask would quietly select readouts 0 and 1
        chosen = [] if masked else [every[index] for index in given]
    except (TypeError, IndexError):
        chosen = []
    allowed = f"a slice or indices that select some of the {readouts} readouts, 0 to {readouts - 1}"
    require(len(chosen) > 0, "positions", positions, allowed + ", not a mask" * masked)
    return tuple(sorted(set(chosen)))


def _selection(episodes: Episodes, tunnel: Tunnel, where: Where) -> Bool[Tensor, "n K"]:
    """Which readouts `where` lets count."""
    if where is None:
        return torch.ones_like(episodes.labels, dtype=torch.bool)
    if callable(where):
        mask, field, what = where(episodes), "where", "a function that returns "
    else:
        subsets = tunnel.subsets(episodes) or {}
        require(len(subsets) > 0, "where", where, f"left out: {type(tunnel).__name__} names no subsets")
        require_choice("where", where, subsets)
        mask, field, what = subsets[where], f"{type(tunnel).__name__}.subsets(…)[{where!r}]", ""
    shape = tuple(episodes.labels.shape)
    ok = isinstance(mask, Tensor) and mask.dtype == torch.bool and tuple(mask.shape) == shape
    found = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
    require(ok, field, found, f"{what}a bool tensor of shape {shape} (n, K)")
    return mask
