"""All instruments on one network or run.  One that fails, or does not apply, says so and never stops the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from torch import nn

from windtunnel.errors import InputError, require_int
from windtunnel.fidelity.predictor import evaluation_mode
from windtunnel.geometry.alignment_survey import alignment
from windtunnel.geometry.belief_survey import beliefs
from windtunnel.geometry.cluster_survey import clusters
from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.key_survey import keys
from windtunnel.geometry.ladder_survey import dynamics
from windtunnel.geometry.lens import lens
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.value_survey import values
from windtunnel.training import Run
from windtunnel.tunnels import Episodes, Tunnel

Instrument = Callable[[nn.Module, Tunnel, Episodes, Sequence[nn.Module]], Sequence[Measurement | Missing]]

INSTRUMENTS: dict[str, Instrument] = {
    "keys": keys,
    "alignment": alignment,
    "values": values,
    "beliefs": beliefs,
    "lens": lens,
    "clusters": clusters,
}
"""Name to `instrument(model, tunnel, episodes, untrained) -> measurements`; `untrained`: twins with fresh weights."""

LADDER = "dynamics"
"""The one instrument that needs a run with its checkpoints."""


def survey(
    subject: Run | nn.Module,
    tunnel: Tunnel | None = None,
    *,
    episodes: int | Episodes = 128,
    seed: int = 0,
    only: Iterable[str] | None = None,
    untrained: int = 5,
    progress: Callable[[str], None] | None = None,
) -> list[Measurement | Missing]:
    """Measurements of a network, or of every network of a run (then `where` names the seed).

    tunnel     its world; a run knows its own
    episodes   how many to draw from the test stream of `seed`, or the episodes themselves
    only       names from INSTRUMENTS or "dynamics"; all if None
    untrained  how many untrained twins serve as the null
    progress   told the name of each instrument before it starts
    """
    networks: dict[int | None, nn.Module] = {}
    if isinstance(subject, Run):
        networks |= zip(subject.recipe.seeds, subject.models)
        tunnel = tunnel or subject.tunnel
    else:
        networks[None] = subject
    if tunnel is None:
        raise InputError("tunnel = None: must be given for a network that is not part of a run")
    require_int("untrained", untrained, 0)
    if isinstance(episodes, int):
        require_int("episodes", episodes, 2)
        episodes = tunnel.sample(episodes, seed=seed, stream="test")
    wanted, found = _selected(only)
    for of_seed, network in networks.items():
        twins = untrained_twins(network, untrained)
        with evaluation_mode([network]):
            for name in wanted:
                if name == LADDER:
                    continue
                if progress is not None:
                    progress(name if of_seed is None else f"{name}, seed {of_seed}")
                found += _marked(guarded(name, INSTRUMENTS[name], network, tunnel, episodes, twins), of_seed)
    if LADDER in wanted:
        if isinstance(subject, Run):
            found += guarded(LADDER, dynamics, subject, episodes, progress)
        else:
            found.append(Missing(LADDER, "needs a run with its checkpoints, not a single network"))
    return _told_once(found)


def _selected(only: Iterable[str] | None) -> tuple[list[str], list[Measurement | Missing]]:
    known = [*INSTRUMENTS, LADDER]
    if only is None:
        return known, []
    asked = [only] if isinstance(only, str) else list(only)
    strangers = [name for name in asked if name not in known]
    missing = [Missing(name, f"no such instrument: must be one of {', '.join(known)}") for name in strangers]
    return [name for name in known if name in asked], list(missing)


def guarded(name: str, instrument: Callable, *arguments) -> list[Measurement | Missing]:
    """What an instrument says; whatever goes wrong inside it becomes one line."""
    try:
        return list(instrument(*arguments))
    except torch.cuda.OutOfMemoryError:
        return [Missing(name, "ran out of GPU memory: ask for fewer episodes")]
    except InputError as error:  # a refusal, in words meant for the user
        return [Missing(name, str(error))]
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        return [Missing(name, f"failed: {type(error).__name__}: {first_line}")]


def _marked(records: list[Measurement | Missing], seed: int | None) -> list[Measurement | Missing]:
    """The records with their seed in `where`."""
    if seed is None:
        return records
    return [replace(r, where={"seed": seed, **r.where}) if isinstance(r, Measurement) else r for r in records]


def _told_once(records: list[Measurement | Missing]) -> list[Measurement | Missing]:
    """What does not apply to any seed is said once."""
    missing = dict.fromkeys(record for record in records if isinstance(record, Missing))
    return [record for record in records if isinstance(record, Measurement)] + list(missing)
