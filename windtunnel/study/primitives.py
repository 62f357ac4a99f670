"""The three primitives, measured: which share of what a primitive is worth does a network realise?

    print(wt.primitives(run))                     # of the tunnel it was trained in
    print(wt.primitives([a, b, c], wt.tunnels.Urn()))
    wt.study.shares({"mine": a, "theirs": b}, tunnel)

    share = 1 − KL(network) / KL(B)        a ratio of means, never clipped

B is the best predictor that has every primitive but the one tested; so B itself stands at 0 and exact inference at 1.
Below 0.3 bits of KL(B) the primitive is worth too little there, and the cell is void.

    realised   the interval lies above 0.95          absent   it lies below 0.10
    partial    it lies between the two               unclear  it straddles one of them

A share below 0 shows nothing about the primitive: what is worse than B lacks more than that.

The interval is over seeds, or over sequences for a single network.  Outcomes that fall apart over seeds are bimodal: a
mean says nothing then, so the number of seeds that succeed and the median are told instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require
from windtunnel.fidelity import Predictor, baselines, evaluate_parts
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.fidelity.evaluate import unpack
from windtunnel.fidelity.intervals import percentile_interval, resolved
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import checked_log_probs, evaluation_mode
from windtunnel.models.adapt import adapt
from windtunnel.study.predictors import Counter, Lookup
from windtunnel.study.quantity import Quantity, number, plain
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn
from windtunnel.tunnels.base import require_tunnel
from windtunnel.tunnels.episodes import Episodes

PRIMITIVES = ("accumulation", "transport", "binding")
REALISED, ABSENT = 0.95, 0.10
LEAST_BITS = 0.3
APART = 0.25  # shares of seeds that differ by more than this are not one outcome with noise
REPLICATES = 1000
MOST_WEIGHTS = 2**23  # of the bootstrap, held at a time


@dataclass(frozen=True)
class Trial:
    """How one tunnel tests one primitive.

    where    the readouts that need it (a subset of the tunnel), or None for all
    without  candidates for B: predictors that have all but this primitive; the best one counts
    others   row name -> predictor that has this primitive and lacks others; what it lacks stands in the name
    """

    primitive: str
    without: Mapping[str, Predictor]
    others: Mapping[str, Predictor] = field(default_factory=dict)
    where: str | None = None


@singledispatch
def trial(tunnel: Tunnel) -> Trial | None:
    """The trial of a tunnel; None where it is evidence for no single primitive.  Add yours with `@trial.register`."""
    return None


@trial.register
def _(tunnel: Urn) -> Trial:
    last = {"last-observation": baselines(tunnel)["last-observation"]}
    return Trial("accumulation", last, {"counter (no transport, no binding)": Counter(tunnel)})


@trial.register
def _(tunnel: Bijection) -> Trial:
    known = baselines(tunnel)
    if tunnel.replacement:
        lookup = {"lookup (no accumulation, no transport)": Lookup(tunnel)}
        return Trial("binding", {"familiarity": known["familiarity"]}, lookup, "seen")
    sets = {"set-complement (no transport, no binding)": known["set-complement"]}
    return Trial("accumulation", {"last-observation": known["last-observation"]}, sets)


@trial.register
def _(tunnel: HMM) -> Trial | None:
    """Rotating chains only.  Sticky ones need no transport, and plain Dirichlet ones forget before it matters."""
    if tunnel.dynamics != "rotating":
        return None
    known = baselines(tunnel)
    # No predictor transports without accumulating: what it transports is what it has gathered.  Windowed filters have
    # all of transport and less and less accumulation, so their rows show what the latter alone costs here.
    others = {
        f"filter of the last {window} observations (transport, accumulates no more)": known[f"window-{window}"]
        for window in (2, 4, 8)
        if f"window-{window}" in known
    }
    others["exact filter (no binding)"] = WindowFilter(tunnel, tunnel.length)
    return Trial("transport", {name: known[name] for name in ("window-1", "t-blind")}, others)


@trial.register
def _(tunnel: Recall) -> Trial | None:
    if tunnel.noise > 0:
        return None
    lookup = {"lookup (no accumulation, no transport)": Lookup(tunnel)}
    return Trial("binding", {"stored-values": baselines(tunnel)["stored-values"]}, lookup)


@dataclass(frozen=True)
class Share:
    """What a subject realises of a primitive; printed, it is one line.

    share      1 − KL / KL(B), with its interval
    kl_bits    mean KL on the readouts that count;  base_bits  that of B, whose name is `base`
    state      realised, partial, absent, unclear or void
    per_seed_error  standard error of each network's own share over sequences (bootstrap)
    """

    primitive: str
    share: Quantity
    kl_bits: float
    base: str
    base_bits: float
    per_seed: tuple[float, ...]
    diverged: int = 0
    per_seed_error: tuple[float, ...] = ()

    @property
    def state(self) -> str:
        if not self.base_bits >= LEAST_BITS:  # NaN: no readout that counts was drawn
            return "void"
        above = (self.share.side(REALISED) == "above", self.share.side(ABSENT) == "above")
        if above[0]:
            return "realised"
        if self.share.side(ABSENT) == "below":
            return "absent"
        return "partial" if above[1] and self.share.side(REALISED) == "below" else "unclear"

    @property
    def bimodal(self) -> bool:
        """Do the seeds fall apart into different outcomes?"""
        return len(self.per_seed) > 1 and max(self.per_seed) - min(self.per_seed) > APART

    @property
    def successes(self) -> int:
        """Seeds whose own share is above 0.95."""
        return sum(share > REALISED for share in self.per_seed)

    @property
    def failed(self) -> bool:
        """Is it worse than B?  Then it lacks more than the primitive, and shows nothing about it."""
        return resolved(self.share.mean) < 0

    @property
    def median(self) -> float:
        return float(np.median(self.per_seed))

    def __str__(self) -> str:
        more = ", so more than the primitive is lacking" if self.failed and self.state != "void" else ""
        return f"{self.primitive} {self._words(4)}, the best predictor without it{more}"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def told(self) -> str:
        """In words, for where the primitive is named already."""
        return self._words(3)

    def _words(self, digits: int) -> str:
        if self.bimodal:
            told = f"{self.successes} of {len(self.per_seed)} seeds, median share {self.median:.{digits}f}"
        else:
            told = f"share {self.share.full(digits)}"
        lost = f", {self.diverged} diverged" if self.diverged else ""
        state = f"void (worth less than {LEAST_BITS:g} bits here)" if self.state == "void" else self.state
        return f"{state}: {told}{lost}; KL {self.kl_bits:.4g} against {self.base_bits:.3g} bits of {self.base}"

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Share:
        """From what `to_dict` gave; state and words follow from the numbers anew."""
        kl, base = (number(record[part]) for part in ("kl_bits", "base_bits"))
        seeds, errors = (tuple(number(v) for v in record.get(p, ())) for p in ("per_seed", "per_seed_error"))
        share = Quantity.of_record(record["share"])
        return cls(record["primitive"], share, kl, record["base"], base, seeds, record["diverged"], errors)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "primitive": self.primitive,
            "state": self.state,
            "share": self.share.to_dict(),
            "kl_bits": plain(self.kl_bits),
            "base": self.base,
            "base_bits": plain(self.base_bits),
            "per_seed": [plain(v) for v in self.per_seed],
            "per_seed_error": [plain(v) for v in self.per_seed_error],
            "bimodal": self.bimodal,
            "successes": self.successes,
            "median": plain(self.median),
            "diverged": self.diverged,
            "told": self.told,
        }


def primitives(
    subject: Any,
    tunnel: Tunnel | None = None,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    device: str | torch.device | None = None,
    chunk: int | None = None,
) -> Share:
    """How much of what the tunnel's primitive is worth `subject` realises: 0 like the best without it, 1 exact.

    subject  a run, a predictor, a module of your own with the forward of `models.adapt`, or a list of these that
             differ by seed
    tunnel   needed unless the subject has one (a run, a network from the zoo).  An urn and a bijection test
             accumulation, rotating HMMs transport, bijections with replacement and recall without noise binding

    The other options are those of `evaluate`.
    """
    if device is not None:
        require_device(str(device))  # before a run loads its networks
    networks, tunnel = unpack(_wrapped(subject, tunnel), tunnel)
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "stream": stream, "device": device, "chunk": chunk}
    return shares({"subject": networks}, tunnel, **options)["subject"]


def _wrapped(subject: Any, tunnel: Tunnel | None) -> Any:
    """Bare modules as predictors, refused if they do not fit or look ahead; anything else as it is."""
    if isinstance(subject, list | tuple):
        return [_wrapped(one, tunnel) for one in subject]
    if not isinstance(subject, nn.Module) or isinstance(subject, Predictor):
        return subject
    tunnel = getattr(subject, "tunnel", None) if tunnel is None else tunnel
    tunnel = require_tunnel(tunnel, "; only a run and a network from the zoo bring their own")
    return adapt(subject, tunnel, type(subject).__name__)


def shares(
    subjects: Mapping[str, Any],
    tunnel: Tunnel,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    device: str | torch.device | None = None,
    chunk: int | None = None,
) -> dict[str, Share]:
    """The share that each of several subjects realises, by name and on the same episodes; all else as `primitives`."""
    require(isinstance(subjects, Mapping), "subjects", subjects, "subjects by name; `primitives` takes one by itself")
    found = Sharing(tunnel)
    subjects = {name: _wrapped(subject, tunnel) for name, subject in subjects.items()}
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "stream": stream, "device": device, "chunk": chunk}
    evaluate_parts(subjects, tunnel, {}, **options, watch=found)
    return {name: found.share(name) for name in subjects}


class Sharing:
    """Sums KLs by sequence while others read (it is a `Watch` of `evaluate_parts`), and reads with B itself."""

    def __init__(self, tunnel: Tunnel) -> None:
        asked = trial(require_tunnel(tunnel))
        if asked is None:
            known = "Urn, Bijection, HMM(dynamics='rotating'), Recall(noise=0); see study.trial for your own"
            raise InputError(f"tunnel = {tunnel!r}: must be one that tests a primitive: {known}")
        self.tunnel, self.asked = tunnel, asked
        self.readouts: list[np.ndarray] = []
        self.bases: dict[str, list[np.ndarray]] = {name: [] for name in asked.without}
        self.sums: dict[str, dict[int, list[np.ndarray]]] = {}
        self.batch: Episodes
        self.mask: Bool[Tensor, "n K"]

    def begin(self, batch: Episodes) -> None:
        """The next episodes, of which all candidates for B say what they think."""
        where = self.asked.where
        self.batch = batch
        self.mask = torch.ones_like(batch.labels, dtype=torch.bool)
        if where is not None:
            self.mask = self.tunnel.subsets(batch)[where]
        self.readouts.append(self.mask.sum(1).cpu().numpy().astype(float))
        with evaluation_mode(self.asked.without.values()):
            for name, base in self.asked.without.items():
                self.bases[name].append(self._lost(checked_log_probs(base, batch.inputs, self.tunnel)))

    def add(self, subject: str, index: int, log_q: Float64[Tensor, "n K C"]) -> None:
        """What network number `index` of a subject says about them."""
        self.sums.setdefault(subject, {}).setdefault(index, []).append(self._lost(log_q))

    def _lost(self, log_q: Float64[Tensor, "n K C"]) -> np.ndarray:
        """(n,) bits, summed over the readouts that count."""
        return torch.where(self.mask, kl_bits(self.batch.posterior, log_q), 0.0).sum(1).cpu().numpy()

    def share(self, subject: str) -> Share:
        """Of one of those whose networks were added."""
        bases = {name: np.concatenate(parts) for name, parts in self.bases.items()}
        base = min(bases, key=lambda name: bases[name].sum())
        own = np.stack([np.concatenate(parts) for parts in self.sums[subject].values()])  # (networks, episodes)
        with np.errstate(divide="ignore", invalid="ignore"):  # B may lose nothing, or a network infinitely much
            return _share(self.asked.primitive, own, bases[base], np.concatenate(self.readouts), base)


def _share(primitive: str, own: np.ndarray, of_base: np.ndarray, readouts: np.ndarray, base: str) -> Share:
    """From KL sums per sequence, own (networks, n) and B's (n,), and the readouts they run over (n,)."""
    per_seed = 1.0 - own.sum(1) / of_base.sum()
    draws = _bootstrap(own, of_base)
    if len(per_seed) > 1:
        share = Quantity.of_seeds(per_seed)
    else:
        alone = len(of_base) == 1  # one sequence bounds nothing
        ends = (-math.inf, math.inf) if alone else percentile_interval(draws[0])
        share = Quantity(float(per_seed[0]), *ends, "sequences")
    total = readouts.sum()
    kl, bits = float(own.sum(1).mean() / total), float(of_base.sum() / total)
    errors = tuple(map(float, draws.std(1)))
    return Share(primitive, share, kl, base, bits, tuple(map(float, per_seed)), per_seed_error=errors)


def _bootstrap(own: np.ndarray, of_base: np.ndarray) -> np.ndarray:
    """(networks, replicates) shares over resampled sequences, drawn together for all networks and B.

    So many replicates at a time that their weights take some tens of megabytes: that changes no draw.
    """
    count, generator = len(of_base), np.random.Generator(np.random.Philox(0))
    even, drawn = np.full(count, 1 / count), []
    endless = np.isinf(own)  # apart: times a weight of 0 it would be NaN, where a sequence that is not drawn is nothing
    finite = np.where(endless, 0.0, own)
    block = max(1, MOST_WEIGHTS // count)
    for start in range(0, REPLICATES, block):
        weights = generator.multinomial(count, even, min(block, REPLICATES - start)).astype(float)
        lost = np.where(endless @ weights.T > 0, np.inf, finite @ weights.T)
        drawn.append(1.0 - lost / (weights @ of_base))
    return np.concatenate(drawn, 1)


def reference_rows(tunnel: Tunnel, **options: Any) -> dict[str, Share]:
    """The rows of each candidate for B, and of predictors that lack other primitives: the scale, seen to work."""
    asked = trial(tunnel)
    if asked is None:
        return {}
    everyone = {f"B: {name}": p for name, p in asked.without.items()}
    return shares(everyone | dict(asked.others), tunnel, **options)
