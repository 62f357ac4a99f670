"""The whole survey of a run: every instrument of both rooms on every seed, and dynamics over its checkpoints.

    found = inspect(run, only=["keys", "ablate"])
    found = inspect(model, tunnel)                       one network alone: no seed, no dynamics
    save_survey(found, run.path);  load_survey(run.path)
    inspect(run, earlier=load_survey(run.path))          resume with the rest

`survey.py` says what a survey is, `survey_file.py` how it is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from windtunnel.environment import environment
from windtunnel.errors import InputError, require_int
from windtunnel.fidelity.predictor import NotNumbers, Predictor, checked_log_probs, evaluation_mode
from windtunnel.geometry.gather import label, untrained_twins
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.instruments import LADDER
from windtunnel.geometry.ladder_survey import dynamics
from windtunnel.geometry.measurement import Missing
from windtunnel.mechanism.instruments import ELSEWHERE
from windtunnel.mechanism.survey import INSTRUMENTS, NAMES, Entry, Survey, selected, title
from windtunnel.models.adapt import adapt
from windtunnel.models.device import device_of
from windtunnel.training import Run
from windtunnel.tunnels import Episodes, Tunnel
from windtunnel.tunnels.base import require_tunnel
from windtunnel.tunnels.random import MASK, check_seed

EPISODES, UNTRAINED = 128, 5
NAN = "the network predicts no numbers: its training diverged"
REVISION = 4
"""Counts up when an instrument comes to give other numbers: a survey of another revision is not gone on with."""


def inspect(
    subject: Run | nn.Module,
    tunnel: Tunnel | None = None,
    *,
    only: Iterable[str] | None = None,
    episodes: int = EPISODES,
    seed: int = 0,
    untrained: int = UNTRAINED,
    progress: Callable[[str, int, int], None] | None = None,
    earlier: Survey | None = None,
    keep: Callable[[Survey], object] | None = None,
) -> Survey:
    """Survey every network of a run, on the device where it was loaded; or one network.

    tunnel     the world of a network; a run knows its own
    only       names of instruments; all if None.  One that does not fit the subject is reported as missing
    episodes   how many to draw from the test stream of `seed`; those of other worlds come from that of the next seed
    untrained  how many untrained twins serve as a null
    progress   called before each instrument with its name, how many are done and how many there are
    earlier    a survey with the same settings: what it has measured is kept, not measured again
    keep       called with the survey after each instrument, so that it can be saved as it grows
    """
    wanted = selected(only)
    require_int("episodes", episodes, 2)
    require_int("untrained", untrained, 0)
    check_seed(seed, "seed")
    networks, tunnel, device = _unpacked(subject, tunnel)
    drawn = tunnel.sample(episodes, seed=seed, stream="test")
    settings = settings_of(subject, episodes, seed, untrained, tunnel)
    survey = _begun(settings, wanted, earlier)
    survey.environment.update(environment(device))
    jobs = [(of_seed, name) for of_seed in networks for name in wanted if name != LADDER]
    plan = [(of_seed, name) for of_seed, name in jobs if title(name, of_seed) not in survey.seconds]
    ladder = LADDER in wanted and LADDER not in survey.seconds
    total, before = len(plan) + ladder, len(survey.seconds)

    def measure(name: str, of_seed: int | None, instrument: Callable, *arguments: Any) -> None:
        called = title(name, of_seed)
        if progress is not None:
            progress(called, len(survey.seconds) - before, total)
        start = time.perf_counter()
        survey.entries.extend(Entry(name, of_seed, one) for one in guarded(name, instrument, *arguments))
        survey.seconds[called] = time.perf_counter() - start
        if keep is not None:
            keep(survey)

    twins: dict[int | None, list] = {}
    with evaluation_mode(networks.values()):
        silent = _without_numbers(networks, tunnel, drawn)
        survey.entries.extend(Entry(name, of_seed, Missing(name, NAN)) for of_seed, name in plan if of_seed in silent)
        for of_seed, name in plan:
            if of_seed in silent:
                continue
            if of_seed not in twins:
                twins = {of_seed: untrained_twins(networks[of_seed], untrained)}
                if device.startswith("cuda"):
                    torch.cuda.empty_cache()
            measure(name, of_seed, _seeded(name, seed), networks[of_seed], tunnel, drawn, twins[of_seed])
    if ladder:
        measure(LADDER, None, dynamics if isinstance(subject, Run) else _no_ladder, subject, drawn)
    return survey


def _seeded(name: str, seed: int) -> Callable:
    """The instrument; one that draws episodes of its own draws others than the survey, and others for every seed."""
    instrument: Callable = INSTRUMENTS[name]
    return partial(instrument, seed=(seed + 1) & MASK) if name in ELSEWHERE else instrument


def _without_numbers(networks: Mapping[int | None, nn.Module], tunnel: Tunnel, drawn: Episodes) -> set[int | None]:
    """The seeds whose networks predict NaN, which would be all that any instrument finds; raises if they all do."""
    found: dict[int | None, NotNumbers] = {}
    for seed, network in networks.items():
        try:
            checked_log_probs(cast(Predictor, network), drawn[:2].inputs.to(device_of(network)), tunnel)
        except NotNumbers as error:
            found[seed] = error
        except Exception:  # whatever else is wrong each instrument tells, and what it concerns
            continue
    if found and len(found) == len(networks):
        raise next(iter(found.values()))
    return {*found}


def _unpacked(subject: Run | nn.Module, tunnel: Tunnel | None) -> tuple[dict[int | None, nn.Module], Tunnel, str]:
    """The networks by seed, their world, and where they are."""
    if isinstance(subject, Run):
        networks: dict[int | None, nn.Module] = {}
        networks |= zip(subject.recipe.seeds, subject.models)  # a run without weights is refused here
        return networks, require_tunnel(subject.tunnel if tunnel is None else tunnel), subject.device
    if not isinstance(subject, nn.Module):
        raise InputError(f"subject = {type(subject).__name__}: must be a run, from wt.train or wt.load, or a network")
    tunnel = getattr(subject, "tunnel", None) if tunnel is None else tunnel
    tunnel = require_tunnel(tunnel, "; only a run and a network from the zoo bring their own")
    network = adapt(subject, tunnel, type(subject).__name__)  # what does not fit, or looks ahead, is refused here
    return {None: network}, tunnel, str(device_of(subject))


def _no_ladder(*_: object) -> list[Missing]:
    return [Missing(LADDER, "needs a run with its checkpoints, not a single network")]


def settings_of(
    subject: Run | nn.Module,
    episodes: int = EPISODES,
    seed: int = 0,
    untrained: int = UNTRAINED,
    tunnel: Tunnel | None = None,
) -> dict[str, Any]:
    """What decides the numbers of a survey, and of which run or network it is; the world where it is not the run's."""
    told = {"episodes": episodes, "seed": seed, "stream": "test", "untrained": untrained, "revision": REVISION}
    if not isinstance(subject, Run):
        return told | {"model": label(subject), "tunnel": repr(tunnel)}
    if tunnel is not None and tunnel != subject.tunnel:
        told["tunnel"] = repr(tunnel)
    if weights := subject.checksums():  # the same recipe, trained again, may end elsewhere
        told["weights"] = weights
    name = subject.path.name if subject.path else None
    return told | {"recipe": subject.recipe.to_dict(), "run": name, "step": subject.steps}


def _begun(settings: dict[str, Any], wanted: list[str], earlier: Survey | None) -> Survey:
    """A survey with what an earlier one has measured; what it could not measure is tried again."""
    if earlier is None:
        return Survey(settings | {"instruments": wanted})
    if differs := earlier.differences(settings):
        raise InputError(f"earlier: must be a survey with the same {', '.join(differs)}")
    done = {title(entry.instrument, entry.seed) for entry, _ in earlier.measurements()}
    done -= {title(e.instrument, e.seed) for e in earlier.entries if isinstance(e.found, Missing) and e.found.broken}
    names = [*earlier.settings["instruments"], *wanted]
    return Survey(
        settings | {"instruments": [name for name in NAMES if name in names]},
        [entry for entry in earlier.entries if title(entry.instrument, entry.seed) in done],
        {called: spent for called, spent in earlier.seconds.items() if called in done},
    )
