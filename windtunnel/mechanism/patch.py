"""Does a tensor carry the belief?  Put a donor's in its place and see whose belief comes out.

With p' the donor's exact belief, q the network's own prediction and q' the one after patching,

    moved = 1 − Σ KL(p' ‖ q') / Σ KL(p' ‖ q)       1: all the way to the donor;  0: not at all;  below 0: away from it

summed over sequences, as a ratio of single KLs would blow up where donor and recipient happen to agree.  Beside it:
bits lost against the recipient's own belief, and the ceiling, what the network reaches when it reads the donor itself.

At one readout the stream is patched layer by layer; in a recurrent network also its whole state: all that later steps
know of earlier ones, in Mamba and linear attention with the window of the convolution.  Where the donor's world goes on
with the recipient's evidence (HMM, urn), later readouts tell whether the patched tensor is what is carried on.

Nulls: a mismatched donor (another recipient's: another episode altogether), a change of equal size in a random
direction, an untrained network.  Going only a part of the way is `dose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from windtunnel.errors import InputError
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.chance import DRAWS, derangement, mismatches, rotation
from windtunnel.mechanism.donors import matched
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.losses import TURNED, UNTRAINED
from windtunnel.mechanism.match_size import as_large
from windtunnel.mechanism.place import Change, Place, stored, substitute, width_of
from windtunnel.mechanism.score import NULL_EPISODES, Bench
from windtunnel.mechanism.worlds import middle
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

MISMATCHED = "mismatched donor"
NO_STREAM = "the network has no residual stream (no tensor blocks.i.residual)"


@dataclass
class Pair:
    """Recipients and donors in one network.  `readouts` (K,) bool: where they are compared.  `note`: a caveat for every
    measurement made with them."""

    recipient: Bench
    donor: Bench
    readouts: Tensor
    note: str = ""

    @classmethod
    def of(
        cls, model: nn.Module, tunnel: Tunnel, episodes: Episodes, given: Episodes, readouts: Tensor, note: str = ""
    ) -> Pair:
        if not given.possible.all():  # `donors.matched` leaves such pairs out
            raise InputError("donors: must be possible, some have no belief under this chain, which has zeros")
        benches = Bench(model, tunnel, episodes), Bench(model, tunnel, given)
        return cls(*benches, readouts.to(episodes.posterior.device), note)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.recipient.episodes)

    @cached_property
    def small(self) -> Pair:
        """The same on fewer episodes, for nulls."""
        return Pair(self.recipient.first(NULL_EPISODES), self.donor.first(NULL_EPISODES), self.readouts)

    @cached_property
    def before(self) -> Float64[Tensor, "n K"]:
        """KL(donor's belief ‖ unpatched prediction), bits.  Where both believe the same, it is the network's error."""
        apart = (self.donor.belief - self.recipient.belief)[:, self.readouts].abs()
        if not (apart > 1e-12).any():
            raise InputError("donors believe what their recipients do at every chosen readout: choose a later step")
        return kl_bits(self.donor.belief, self.recipient.clean)

    def after(self, changes: dict[str, Change]) -> Float64[Tensor, "n K"]:
        """KL(donor's belief ‖ patched prediction), bits."""
        return kl_bits(self.donor.belief, self.recipient.run(changes))

    def after_each(self, several: Sequence[dict[str, Change]]) -> Sequence[Float64[Tensor, "n K"]]:
        """`after` for several sets of changes at once, for nulls."""
        if not several:
            return []
        found = self.recipient.run_each(several)
        return kl_bits(self.donor.belief.expand_as(found), found).unbind(0)

    def fraction(self, after: Float64[Tensor, "n K"], readouts: Tensor | None = None) -> float:
        """The fraction of the way to the donor, from `after`."""
        chosen = self.readouts if readouts is None else readouts
        return float(1.0 - after[:, chosen].mean() / self.before[:, chosen].mean())

    def moved(self, changes: dict[str, Change]) -> float:
        """The fraction of the way to the donor."""
        return self.fraction(self.after(changes))

    def moved_each(self, several: Sequence[dict[str, Change]]) -> list[float]:
        """The same for several sets of changes at once, for nulls."""
        return [self.fraction(after) for after in self.after_each(several)]


def patch_changes(
    pair: Pair,
    places: Sequence[Place],
    *,
    dose: float = 1.0,
    turn: int | None = None,
    mismatch: int | None = None,
) -> dict[str, Change]:
    """Put the donors' tensors there.  Controls: `turn` the change at random, or take the donor of another recipient
    (`mismatch`): the same tensors, given to the wrong ones."""
    changes: dict[str, Change] = {}
    bench = pair.donor
    bench.record(place.tensor for place in places)
    for index, place in enumerate(places):
        place.require_in(bench.anatomy.shapes[place.tensor])
        tensor = bench.recorded(place.tensor)
        order = None if mismatch is None else derangement(len(tensor), 1, mismatch)
        matrix = None
        if turn is not None:
            matrix = rotation(width_of(place, bench.anatomy.shapes[place.tensor]), 2, turn, index)
        changes[place.tensor] = substitute(place, stored(tensor, order), dose=dose, turn=matrix)
    return changes


def fraction(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """1 − after / before."""
    return 1.0 - after / before


def carriers(anatomy: Anatomy, position: int) -> dict[str, list[Place]]:
    """What may carry a belief at one position: the stream before and after each block, the whole recurrent state."""
    found = {name: [Place(name, positions=(position,))] for name in anatomy.streams}
    if anatomy.memory:
        found["state of all layers"] = [Place(name, positions=(position,)) for name in anatomy.memory]
    return found


@dataclass
class Setting:
    """A patching experiment at one readout: the pairs, where the step is, which readouts are compared."""

    pair: Pair
    blank: list[Pair]
    step: int
    position: int

    @classmethod
    def of(
        cls, model: nn.Module, tunnel: Tunnel, episodes: Episodes, untrained: Sequence[nn.Module], step: int | None
    ) -> Setting:
        """Matched donors at readout `step`, by default the middle one."""
        step = middle(tunnel, step)
        episodes, given, note = matched(tunnel, episodes, step)
        pair, few = Pair.of(model, tunnel, episodes, given.episodes, given.readouts, note), slice(0, NULL_EPISODES)
        blank = [Pair.of(net, tunnel, episodes[few], given.episodes[few], given.readouts) for net in untrained]
        return cls(pair, blank, step, int(episodes.inputs.readout[step]))

    @property
    def ranges(self) -> dict[str, Tensor]:
        """The step's own readout, and the later ones where the donor's world has any."""
        now = torch.zeros_like(self.pair.readouts)
        now[self.step] = True
        later = self.pair.readouts & ~now
        return {"at the step": now} | ({"after it": later} if later.any() else {})


def patch(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    step: int | None = None,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """The stream at readout `step` of every layer, and the recurrent state, replaced by a matched donor's."""
    setting = Setting.of(model, tunnel, episodes, untrained, step)
    found = carriers(setting.pair.recipient.anatomy, setting.position)
    if not found:
        return [Missing("patch", f"{NO_STREAM} and no state")]
    results: list[Measurement | Missing] = []
    for name, places in found.items():
        where = {"tensor": name, "step": setting.step}
        results += _measure(setting.pair, setting.blank, where, places, setting.ranges, draws)
    return results


def _measure(
    pair: Pair, blank: list[Pair], where: dict, places: list[Place], ranges: dict[str, Tensor], draws: int
) -> list[Measurement]:
    """One measurement per range of readouts, all from the same runs."""
    patched, small = pair.recipient.run(patch_changes(pair, places)), pair.small
    after, before = kl_bits(pair.donor.belief, patched), pair.before
    own = kl_bits(pair.recipient.belief, patched) - pair.recipient.clean_kl
    turned = [patch_changes(small, places, turn=draw) for draw in range(draws)]
    wrong = [patch_changes(small, places, mismatch=draw) for draw in mismatches(small.count, draws)]
    nulls = {
        MISMATCHED: small.after_each(wrong),
        TURNED: small.after_each(as_large(small.recipient, patch_changes(small, places), turned)),
    }
    fresh = [one.after(patch_changes(one, places)) for one in blank]
    results = []
    for when, chosen in ranges.items():
        values = {name: [small.fraction(x, chosen) for x in drawn] for name, drawn in nulls.items()}
        values[UNTRAINED] = [one.fraction(x, chosen) for one, x in zip(blank, fresh)]
        ceiling = pair.fraction(pair.donor.clean_kl, chosen)
        arrays = {
            "per_position": (1.0 - after.mean(0) / before.mean(0).clamp_min(1e-12)).cpu().numpy(),
            "own_bits_lost": own.mean(0).cpu().numpy(),
            "ceiling": np.array([ceiling]),
        }
        parts = [per_sequence(after[:, chosen]), per_sequence(before[:, chosen])]
        fields = {"where": {**where, "readouts": when}, "arrays": arrays, "nulls": values, "few": small.count}
        results.append(measured("moved to the donor", parts, fraction, **fields, note=pair.note))
    return results
