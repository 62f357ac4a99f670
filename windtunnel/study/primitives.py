"""The three primitives, measured: which share of what a primitive is worth does a network realise?

    share = 1 − KL(network) / KL(B)        a ratio of means, never clipped

B is the best predictor that has every primitive but the one tested; so B itself stands at 0 and exact inference at 1.
Below 0.3 bits of KL(B) the primitive is worth too little there, and the cell is void.

    realised   the interval lies above 0.95          absent   it lies below 0.10
    partial    it lies between the two               unclear  it straddles one of them

The interval is over seeds, or over sequences for a single network.  Outcomes that fall apart over seeds are bimodal: a
mean says nothing then, so the number of seeds that succeed and the median are told instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import torch

from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, baselines
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.fidelity.evaluate import fitting
from windtunnel.fidelity.intervals import percentile_interval
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import checked_log_probs, evaluation_mode
from windtunnel.study.predictors import Counter, Lookup
from windtunnel.study.quantity import Quantity, number, plain
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn

PRIMITIVES = ("accumulation", "transport", "binding")
REALISED, ABSENT = 0.95, 0.10
LEAST_BITS = 0.3
APART = 0.25  # shares of seeds that differ by more than this are not one outcome with noise
REPLICATES = 1000


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
    """What a subject realises of a primitive.

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
        if self.base_bits < LEAST_BITS:
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
    def median(self) -> float:
        return float(np.median(self.per_seed))

    def __str__(self) -> str:
        if self.bimodal:
            told = f"{self.successes} of {len(self.per_seed)} seeds, median share {self.median:.3f}"
        else:
            told = f"share {self.share}"
        lost = f", {self.diverged} diverged" if self.diverged else ""
        return f"{self.state}: {told}{lost}; KL {self.kl_bits:.4g} against {self.base_bits:.3g} bits of {self.base}"

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
            "told": str(self),
        }


@torch.no_grad()
def shares(
    subjects: Mapping[str, Sequence[Predictor]],
    tunnel: Tunnel,
    *,
    episodes: int = 4096,
    seed: int = 1,
    stream: str = "test",
    device: str | torch.device = "cpu",
    chunk: int | None = None,
    diverged: int = 0,
) -> dict[str, Share]:
    """The share of the tunnel's primitive that each subject (a list of networks that differ by seed) realises.

    diverged  seeds that left no network: they count as a uniform guess, which is all one can do without one
    chunk     episodes read at a time; None: as many as fit
    """
    asked = trial(tunnel)
    if asked is None:
        raise InputError(f"tunnel = {tunnel!r}: must be one that tests a primitive, see windtunnel.study.primitives")
    chunk = fitting(tunnel.positions, torch.device(device)) if chunk is None else chunk
    uniform = baselines(tunnel)["uniform"]
    everyone = {f"base: {name}": [p] for name, p in asked.without.items()}
    everyone |= {name: [*networks, *[uniform] * diverged] for name, networks in subjects.items()}
    sums: dict[str, list[np.ndarray]] = {name: [] for name in everyone}
    with evaluation_mode([network for networks in everyone.values() for network in networks]):
        for start in range(0, episodes, chunk):
            batch = tunnel.sample(min(chunk, episodes - start), seed, stream, device, start=start)
            mask = torch.ones_like(batch.labels, dtype=torch.bool)
            if asked.where is not None:
                mask = tunnel.subsets(batch)[asked.where]
            for name, networks in everyone.items():
                kl = [kl_bits(batch.posterior, checked_log_probs(n, batch.inputs, tunnel)) for n in networks]
                lost = torch.stack([torch.where(mask, k, 0.0).sum(1) for k in kl])
                sums[name].append(lost.cpu().numpy())
            sums.setdefault("readouts", []).append(mask.sum(1)[None].cpu().numpy().astype(float))
    per_sequence = {name: np.concatenate(parts, 1) for name, parts in sums.items()}  # (networks, episodes)
    readouts = per_sequence.pop("readouts")[0]
    base = min(asked.without, key=lambda name: per_sequence[f"base: {name}"].sum())
    of_base = per_sequence[f"base: {base}"][0]
    return {name: _share(asked.primitive, per_sequence[name], of_base, readouts, base, diverged) for name in subjects}


def _share(
    primitive: str, own: np.ndarray, of_base: np.ndarray, readouts: np.ndarray, base: str, diverged: int
) -> Share:
    """From KL sums per sequence, own (networks, n) and B's (n,), and the readouts they run over (n,)."""
    per_seed = 1.0 - own.sum(1) / of_base.sum()
    draws = _bootstrap(own, of_base)
    if len(per_seed) > 1:
        share = Quantity.of_seeds(per_seed)
    else:
        share = Quantity(float(per_seed[0]), *percentile_interval(draws[0]), "sequences")
    total = readouts.sum()
    kl, bits = float(own.sum(1).mean() / total), float(of_base.sum() / total)
    errors = tuple(map(float, draws.std(1)))
    return Share(primitive, share, kl, base, bits, tuple(map(float, per_seed)), diverged, errors)


def _bootstrap(own: np.ndarray, of_base: np.ndarray) -> np.ndarray:
    """(networks, replicates) shares over resampled sequences, drawn together for all networks and B."""
    count = len(of_base)
    weights = np.random.Generator(np.random.Philox(0)).multinomial(count, np.full(count, 1 / count), REPLICATES)
    return 1.0 - (own @ weights.T) / (weights @ of_base)


def reference_rows(tunnel: Tunnel, **options: Any) -> dict[str, Share]:
    """The rows of each candidate for B, and of predictors that lack other primitives: the scale, seen to work."""
    asked = trial(tunnel)
    if asked is None:
        return {}
    everyone = {f"B: {name}": [p] for name, p in asked.without.items()}
    return shares(everyone | {name: [p] for name, p in asked.others.items()}, tunnel, **options)
