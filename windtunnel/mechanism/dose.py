"""Dose–response: does the prediction move further, the further the tensor is moved?

The stream at one readout goes a part a of the way from the recipient's to the matched donor's (see `patch`),

    x ← x + a (y − x),     a = 0, 0.2 … 1

and `moved(a)` is how far the prediction has gone.  The value is the smallest of its steps, times their number:
1 for a straight line all the way to the donor, positive if every step leads there, 0 if nothing moves, negative if any
step leads back.  (A rank correlation would call a monotone response of any size perfect, an untrained network's too.)
Nulls: a mismatched donor, a change of equal size in a random direction, untrained networks.  The mismatched donor alone
would not do: it leads away wherever the stream tells what is asked, so that a donor who changes nothing would seem to
lead somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.chance import DRAWS, mismatches
from windtunnel.mechanism.estimate import measured, per_sequence
from windtunnel.mechanism.losses import TURNED, UNTRAINED
from windtunnel.mechanism.patch import MISMATCHED, NO_STREAM, Pair, Setting, patch_changes
from windtunnel.mechanism.place import Place
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

DOSES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def steadiness(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """after (…, doses) and before (…,), KLs from the donor's belief -> smallest step × number of steps."""
    moved = 1.0 - after / np.asarray(before)[..., None]
    return np.diff(moved, axis=-1).min(-1) * (moved.shape[-1] - 1)


def dose_response(
    pair: Pair, blank: list[Pair], places: list[Place], chosen: Tensor, where: dict, *, draws: int = DRAWS
) -> Measurement:
    """Does the prediction move further the further the tensor is moved?  arrays: `dose`, `moved`."""

    def curve(one: Pair) -> np.ndarray:
        runs = [one.after(patch_changes(one, places, dose=dose))[:, chosen] for dose in DOSES]
        return np.stack([per_sequence(run) for run in runs], 1)

    def bent(one: Pair, runs: Sequence[Tensor]) -> float:
        after = np.array([per_sequence(run[:, chosen]).mean() for run in runs])
        return float(steadiness(after, per_sequence(one.before[:, chosen]).mean()))

    def all_doses(one: Pair, **options) -> list[dict]:
        return [patch_changes(one, places, dose=dose, **options) for dose in DOSES]

    def drawn(one: Pair, control: str, numbers: range) -> list[float]:
        runs = one.after_each([changes for d in numbers for changes in all_doses(one, **{control: d})])
        return [bent(one, runs[i : i + len(DOSES)]) for i in range(0, len(runs), len(DOSES))]

    after, before, small = curve(pair), per_sequence(pair.before[:, chosen]), pair.small
    nulls = {
        MISMATCHED: drawn(small, "mismatch", mismatches(small.count, draws)),
        TURNED: drawn(small, "turn", range(draws)),  # of one tensor: as large already (see `match_size`)
        UNTRAINED: [bent(one, one.after_each(all_doses(one))) for one in blank],
    }
    return measured(
        "dose–response of the patch",
        [after, before],
        steadiness,
        where={"tensor": places[0].tensor, **where},
        nulls=nulls,
        few=small.count,
        arrays={"dose": np.array(DOSES), "moved": 1.0 - after.mean(0) / before.mean()},
        note=pair.note,
    )


def dose(
    model: nn.Module,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[nn.Module],
    *,
    step: int | None = None,
    draws: int = DRAWS,
) -> list[Measurement | Missing]:
    """The response at the middle layer's stream, at readout `step` (the middle one by default)."""
    setting = Setting.of(model, tunnel, episodes, untrained, step)
    streams = setting.pair.recipient.anatomy.streams
    if not streams:
        return [Missing("dose", NO_STREAM)]
    place = Place(streams[len(streams) // 2], positions=(setting.position,))
    now = setting.ranges["at the step"]
    return [dose_response(setting.pair, setting.blank, [place], now, {"step": setting.step}, draws=draws)]
