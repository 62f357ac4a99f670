"""How many bits does a change cost?

    bits lost = KL(exact belief ‖ changed network) − KL(exact belief ‖ same network, tapped, unchanged)

per readout, in bits.  Tapped is compared with tapped, chunk by chunk alike, and where a change needs the loop over
time of a recurrence written out, with the unchanged run in which the same loop is: fused paths differ in the last bits,
and a change that changes nothing must cost exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from windtunnel.errors import require, require_int
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import Predictor, checked_log_probs, evaluation_mode
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.place import Change
from windtunnel.mechanism.skip_unchanged import Start, can_resume, first_changed, skipping, start
from windtunnel.models.device import device_of
from windtunnel.models.taps import Edit, Tap
from windtunnel.models.trace import trace
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes, Inputs

CHUNK = 256
NULL_EPISODES = 16  # a null is drawn many times: each draw runs on this many episodes
# Positions of a batch in which several draws lie side by side.  A GPU wants many.  A CPU wants few: large tensors leave
# its cache, and beyond 32 MiB glibc asks the operating system for every one of them anew, page by page.
WIDE = {"cpu": 1 << 13, "cuda": 1 << 17}


@dataclass
class Tapped:
    """A network with a tap set: a predictor like any other."""

    model: Any
    tap: Tap

    def log_probs(self, inputs: Inputs) -> Tensor:
        return self.model.log_probs(inputs, self.tap)


class Bench:
    """One network on fixed episodes: its unchanged run, and what any change does to it.

    clean     (n, K, C) log-probabilities of the unchanged run, float64
    clean_kl  (n, K) its KL from the exact belief, in bits
    """

    def __init__(self, model: nn.Module, tunnel: Tunnel, episodes: Episodes, *, chunk: int = CHUNK) -> None:
        require_int("chunk", chunk, 1)
        self.model, self.tunnel, self.episodes, self.chunk = model, tunnel, episodes, chunk
        self.belief = episodes.posterior.double()
        self.anatomy = Anatomy.of(model, episodes.inputs)
        self._recorded: dict[str, Tensor] = {}
        self._clean: dict[frozenset[str], tuple[Tensor, Tensor]] = {}
        self._resumable = can_resume(model, self.anatomy.shapes, len(episodes))

    @property
    def clean(self) -> Float64[Tensor, "n K C"]:
        return self._unchanged(())[0]

    @property
    def clean_kl(self) -> Float64[Tensor, "n K"]:
        return self._unchanged(())[1]

    def _unchanged(self, names: Iterable[str]) -> tuple[Tensor, Tensor]:
        """The unchanged run beside changes of these tensors, and its KL: recurrent ones are handed over here, too."""
        stepped = self.anatomy.recurrent.intersection(names)
        if stepped not in self._clean:
            found = self.run(dict.fromkeys(stepped, _as_it_is))
            self._clean[stepped] = found, kl_bits(self.belief, found)
        return self._clean[stepped]

    def run(self, changes: Mapping[str, Change]) -> Float64[Tensor, "n K C"]:
        """Log-probabilities with these changes, tap name -> change.  A name that is not there raises."""
        inputs, parts = self.episodes.inputs, []
        for first in range(0, len(inputs), self.chunk):
            rows = slice(first, min(first + self.chunk, len(inputs)))
            parts.append(self._forward({name: _bound(change, rows) for name, change in changes.items()}, rows))
        return torch.cat(parts)

    def run_each(self, several: Sequence[Mapping[str, Change]]) -> Float64[Tensor, "G n K C"]:
        """`run` for several sets of changes to the same tensors, side by side in one batch: one pass, not many.

        A batch of another size rounds differently, so this is for nulls, which need not be exact to the last bit.
        """
        count, length = len(self.episodes), self.episodes.inputs.tokens.shape[1]
        wide = WIDE.get(device_of(self.model, self.belief).type, WIDE["cpu"])
        groups = math.ceil(len(several) / max(1, wide // (count * length)))
        together, parts = math.ceil(len(several) / groups), []
        for first in range(0, len(several), together):
            group = several[first : first + together]
            names = {name for changes in group for name in changes}
            edits = {name: _side_by_side([changes[name] for changes in group], count) for name in names}
            parts.append(self._forward(edits, slice(0, count), copies=len(group)).unflatten(0, (len(group), count)))
        return torch.cat(parts)

    def _forward(self, edits: Mapping[str, Callable], rows: slice, copies: int = 1) -> Float64[Tensor, "n K C"]:
        """One pass over some episodes, or over several copies of them one after another."""
        for name in edits:
            self.anatomy.require(name)
        begin = self._start(edits)
        values = {name: self.recorded(name)[rows] for name in begin.needed}
        part = self.episodes.inputs[rows]
        if copies > 1:
            features = None if part.features is None else part.features.repeat(copies, 1, 1)
            part = Inputs(part.tokens.repeat(copies, 1), features, part.readout)
            values = {name: value.repeat(copies, *[1] * (value.ndim - 1)) for name, value in values.items()}
        edit = Edit(edits, values)
        with evaluation_mode([self.model]), skipping(self.model, begin.skipped, edit):
            found = checked_log_probs(
                Tapped(self.model, edit), part.to(device_of(self.model, part.tokens)), self.tunnel
            )
        edit.check()
        return found.to(self.belief.device)

    def _start(self, changed: Collection[str]) -> Start:
        """Where a run with these changes starts: at a stream, or at what else is on record already."""
        if not self._resumable:
            return Start()
        recorded = {*self._recorded, *self.anatomy.streams} - self.anatomy.recurrent
        return start(self.anatomy.returned, list(self.anatomy.shapes), changed, recorded)

    def lost(self, changes: Mapping[str, Change]) -> Float64[Tensor, "n K"]:
        """Bits of KL lost at every readout."""
        return kl_bits(self.belief, self.run(changes)) - self._unchanged(changes)[1]

    def lost_each(self, several: Sequence[Mapping[str, Change]]) -> Sequence[Float64[Tensor, "n K"]]:
        """The same for several sets of changes."""
        if not several:
            return []
        found, names = self.run_each(several), {name for changes in several for name in changes}
        return (kl_bits(self.belief.expand_as(found), found) - self._unchanged(names)[1]).unbind(0)

    def record(self, names: Iterable[str]) -> None:
        """Keep several tensors of the unchanged run from one pass; from one more per layer, where they are recurrent.

        A loop that is written out rounds differently, so that each layer's is recorded with those before it fused, as
        in a run that changes it.
        """
        missing = [name for name in dict.fromkeys(names) if name not in self._recorded]
        if not missing:
            return
        for name in missing:
            self.anatomy.require(name)
        whole = [name for name in missing if name not in self.anatomy.recurrent]
        if whole and self._resumable:  # the streams come along: one pass serves all
            whole += [name for name in self.anatomy.streams if name not in (*whole, *self._recorded)]
        passes = {0: whole} if whole else {}
        for name in self.anatomy.recurrent.intersection(missing):
            passes.setdefault(1 + first_changed([name], self.anatomy.depth), []).append(name)
        device = device_of(self.model, self.belief)
        with evaluation_mode([self.model]):
            for together in passes.values():
                self._recorded |= trace(self.model, self.episodes, together, chunk=self.chunk, device=device)

    def recorded(self, name: str) -> Float[Tensor, "n ..."]:
        """A tensor of the unchanged run, where the network lives; recurrent ones as (n, T, …)."""
        self.record([name])
        return self._recorded[name]

    def first(self, count: int) -> Bench:
        """The same network on the first episodes only (itself if there are no more)."""
        if count >= len(self.episodes):
            return self
        return Bench(self.model, self.tunnel, self.episodes[:count], chunk=self.chunk)


@dataclass
class Benches:
    """A network on all episodes, and its nulls' runs on fewer: itself, and untrained ones."""

    main: Bench
    small: Bench
    untrained: list[Bench] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        tunnel: Tunnel,
        episodes: Episodes,
        untrained: Sequence[nn.Module] = (),
        *,
        null_episodes: int = NULL_EPISODES,
        chunk: int = CHUNK,
    ) -> Benches:
        require(len(episodes) >= 2, "episodes", len(episodes), "at least 2")
        main = Bench(model, tunnel, episodes, chunk=chunk)
        some = episodes[: max(2, null_episodes)]
        return cls(main, main.first(len(some)), [Bench(network, tunnel, some, chunk=chunk) for network in untrained])

    def of_all_and_few(self, read: Callable[[Bench], Any]) -> tuple[Any, Any]:
        """What is read of the network on all episodes, and on the few alone; once, where these are all."""
        own = read(self.main)
        return own, own if self.small is self.main else read(self.small)

    def record(self, names: Iterable[str]) -> None:
        """Keep several tensors in all of them, each from one pass: what is changed later starts from there."""
        names = list(names)
        for bench in (self.main, self.small, *self.untrained):
            bench.record(name for name in names if name in bench.anatomy.shapes)


def _as_it_is(value: Tensor, step: int | None, rows: slice) -> Tensor:
    return value


def _bound(change: Change, rows: slice) -> Callable[[Tensor, int | None], Tensor]:
    return lambda value, step: change(value, step, rows)


def _side_by_side(changes: Sequence[Change], count: int) -> Callable[[Tensor, int | None], Tensor]:
    """Each change acts on its own copy of the episodes."""
    whole = slice(0, count)
    return lambda value, step: torch.cat(
        [change(part, step, whole) for change, part in zip(changes, value.split(count), strict=True)]
    )


def predictions(predictor: Predictor, tunnel: Tunnel, inputs: Inputs) -> Float64[Tensor, "n K C"]:
    """Log-probabilities of any predictor, no taps needed; on the device of the inputs."""
    device = device_of(predictor, inputs.tokens) if isinstance(predictor, nn.Module) else inputs.tokens.device
    with evaluation_mode([predictor]):
        parts = [
            checked_log_probs(predictor, inputs[first : first + CHUNK].to(device), tunnel)
            for first in range(0, len(inputs), CHUNK)
        ]
    return torch.cat(parts).to(inputs.tokens.device)
