"""How a tunnel tests a primitive: which predictor has all but that one, and on which readouts it counts.

For your own tunnel, register a trial:

    @wt.study.trial.register
    def _(tunnel: Mine) -> wt.study.Trial:
        return wt.study.Trial("binding", without={"familiarity": Familiarity(tunnel)}, where="seen")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch

import torch
from jaxtyping import Bool
from torch import Tensor

from windtunnel.accidents import accident
from windtunnel.errors import InputError, require, require_choice
from windtunnel.fidelity import Predictor, baselines
from windtunnel.fidelity.baselines.hmm import WindowFilter
from windtunnel.study.predictors import Counter, Lookup
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn
from windtunnel.tunnels.base import require_tunnel
from windtunnel.tunnels.episodes import Episodes

PRIMITIVES = ("accumulation", "transport", "binding")


@dataclass(frozen=True)
class Trial:
    """How one tunnel tests one primitive.

    where    the readouts that need it (a subset of the tunnel), or None for all
    without  candidates for B: predictors that have all but this primitive; the best one counts
    others   row name -> predictor that has this primitive and lacks others; the name says what it lacks
    """

    primitive: str
    without: Mapping[str, Predictor]
    others: Mapping[str, Predictor] = field(default_factory=dict)
    where: str | None = None

    def __post_init__(self) -> None:
        require_choice("Trial primitive", self.primitive, PRIMITIVES)
        for name, candidates in (("without", self.without), ("others", self.others)):
            require(isinstance(candidates, Mapping), f"Trial {name}", candidates, "predictors by name")
            for row, one in candidates.items():
                ok = isinstance(one, Predictor) and not isinstance(one, type)  # a class has its instances' methods
                require(ok, f"Trial {name}[{row!r}]", one, "a predictor (have log_probs)")
        require(len(self.without) > 0, "Trial without", self.without, "at least one predictor by name: B is the best")
        allowed = "the name of one of the tunnel's subsets, or None"
        require(self.where is None or isinstance(self.where, str), "Trial where", self.where, allowed)

    def readouts(self, tunnel: Tunnel, batch: Episodes) -> Bool[Tensor, "n K"]:
        """Those of a batch that need the primitive."""
        if self.where is None:
            return torch.ones_like(batch.labels, dtype=torch.bool)
        subsets = tunnel.subsets(batch)
        allowed = f"None or one of the tunnel's subsets: {', '.join(subsets) or 'it names none'}"
        require(self.where in subsets, f"trial of {type(tunnel).__name__}: where", self.where, allowed)
        return subsets[self.where]


@singledispatch
def trial(tunnel: Tunnel) -> Trial | None:
    """The trial of a tunnel; None where it is evidence for no single primitive.  Add yours with `@trial.register`."""
    return None


def trial_of(tunnel: Tunnel) -> Trial | None:
    """What `trial` says of a tunnel; anybody may have written that, and a mistake in it is told in one line."""
    whose = f"trial of {type(require_tunnel(tunnel)).__name__}"
    try:
        found = trial(tunnel)
    except InputError as error:
        raise InputError(f"{whose}: {error}") from error
    except Exception as error:  # whatever a foreign function raises, the user is told in one line
        raise InputError(f"{whose}: must give a Trial or None, but failed ({accident(error)})") from error
    require(found is None or isinstance(found, Trial), whose, found, "a windtunnel.study.Trial, or None")
    return found


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
