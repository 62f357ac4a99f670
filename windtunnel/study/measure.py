"""From networks to the numbers of a cell: scores under each condition, shares of primitives, baselines, instruments.

A seed that diverged leaves no network.  It still counts: it is scored as a uniform guess, all that is possible without
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, Score, baselines, evaluate_all
from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.survey import LADDER
from windtunnel.geometry.survey import survey as survey_geometry
from windtunnel.mechanism.survey import run as apply_mechanism
from windtunnel.study.plan import Cell, Condition, Plan, World
from windtunnel.study.primitives import reference_rows, shares, trial
from windtunnel.study.quantity import plain
from windtunnel.training import Run
from windtunnel.tunnels import Tunnel

METRICS = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "excess_log_loss_bits", "accuracy")
TOKENS = 2**20  # of a chunk: memory of a score, whatever the length
BROKEN = ("failed: ", "ran out of GPU memory")  # how `geometry.survey.guarded` begins to tell of an accident


def score(networks: list[Predictor], home: Tunnel, condition: Condition, plan: Plan, device: str) -> dict[str, Any]:
    """The record of one condition: every metric with its interval, or why there is none."""
    try:
        tunnel = condition.tunnel(home)
        for network in networks:
            limit = getattr(network, "length_limit", None)
            if limit is not None and tunnel.positions > limit:
                return {"missing": f"the network's weights are tied to its first {limit} positions"}
        found = _evaluate({"": networks}, tunnel, condition, plan, device)[""]
    except InputError as error:
        return {"missing": str(error)}
    told = {name: _estimate(found, name) for name in METRICS}
    return {
        "metrics": told,
        "subset": found.subset,
        "episodes": found.episodes,
        "exact_accuracy": found.exact_accuracy,
        "entropy_yardstick_bits": plain(found.entropy_yardstick_bits),
        "calibration_error": plain(found.calibration.expected_error),
        "kl_per_position": [plain(round(float(v), 9)) for v in found.kl_bits.per_position],
    }


def _evaluate(subjects: dict, tunnel: Tunnel, condition: Condition, plan: Plan, device: str) -> dict[str, Score]:
    episodes = plan.episodes if condition.name == "home" else max(1, plan.episodes // 4)
    return evaluate_all(
        subjects,
        tunnel,
        episodes=episodes,
        where=condition.where,
        positions=condition.positions,
        device=device,
        chunk=max(64, min(4096, TOKENS // tunnel.positions)),
    )


def _estimate(found: Score, name: str) -> dict[str, Any]:
    estimate = getattr(found, name)
    record = {part: plain(getattr(estimate, part)) for part in ("mean", "low", "high")}
    record |= {"per_seed": [plain(float(v)) for v in estimate.per_seed], "over": estimate.over, "scale": estimate.scale}
    return record | ({"floor": plain(estimate.floor)} if estimate.floor is not None else {})


def references(world: World, plan: Plan, device: str) -> dict[str, Any]:
    """The record of a world's baselines under every condition, and of the predictors behind its primitive."""
    conditions: dict[str, Any] = {}
    for condition in world.conditions:
        try:
            tunnel = condition.tunnel(world.tunnel)
            found = _evaluate(baselines(tunnel), tunnel, condition, plan, device)
        except InputError as error:
            conditions[condition.name] = {"missing": str(error)}
            continue
        told = {name: {metric: plain(getattr(s, metric).mean) for metric in METRICS} for name, s in found.items()}
        conditions[condition.name] = {"baselines": told}
    rows = reference_rows(world.tunnel, episodes=plan.episodes // 4 or 1, device=device)
    return {"kind": "references", "conditions": conditions, "rows": {name: row.to_dict() for name, row in rows.items()}}


def primitive(networks: list[Predictor], diverged: int, world: World, plan: Plan, device: str) -> dict[str, Any] | None:
    """The share of the world's primitive that these networks realise; None where it tests none.

    networks  one per seed; `diverged` of them are the uniform guess that stands for a seed without a network
    """
    if trial(world.tunnel) is None:
        return None
    options = {
        "episodes": plan.episodes // 4 or 1,
        "device": device,
        "chunk": max(64, min(2048, TOKENS // world.tunnel.positions)),
    }
    return replace(shares({"": networks}, world.tunnel, **options)[""], diverged=diverged).to_dict()


def jobs(cell: Cell, run: Run, tunnel: Tunnel, plan: Plan) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """Every instrument still to apply, by a name under which its readings are kept: one job per seed and instrument."""
    found: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    for seed in run.recipe.seeds[: cell.surveyed]:
        for name in cell.geometry:
            if name != LADDER:
                found[f"{name}, seed {seed}"] = lambda n=name, s=seed: _geometry(run, tunnel, s, n, plan)
        for name in cell.mechanism:
            found[f"{name}, seed {seed}"] = lambda n=name, s=seed: _mechanism(run, tunnel, s, n, plan)
    if LADDER in cell.geometry:
        found[LADDER] = lambda: _told(survey_geometry(run, tunnel, episodes=plan.survey_episodes, only=[LADDER]))
    return found


def _geometry(run: Run, tunnel: Tunnel, seed: int, name: str, plan: Plan) -> list[dict[str, Any]]:
    readings = survey_geometry(
        run.model(seed), tunnel, episodes=plan.survey_episodes, only=[name], untrained=plan.untrained
    )
    return _told(readings, seed)


def _mechanism(run: Run, tunnel: Tunnel, seed: int, name: str, plan: Plan) -> list[dict[str, Any]]:
    network: nn.Module = run.model(seed)
    episodes = tunnel.sample(plan.survey_episodes, seed=0, stream="test")
    twins = untrained_twins(network, plan.untrained)
    return _told(apply_mechanism(name, network, tunnel, episodes, twins), seed)


def _told(readings: Iterable[Measurement | Missing], seed: int | None = None) -> list[dict[str, Any]]:
    told = []
    for reading in readings:
        if isinstance(reading, Missing):
            told.append(reading.to_dict())
            continue
        marked = reading if seed is None else replace(reading, where={"seed": seed, **reading.where})
        told.append(marked.to_dict() | _per_seed(reading))
    return told


def _per_seed(reading: Measurement) -> dict[str, Any]:
    """An instrument that sums up over seeds keeps a row for each of them: their means, for a test over seeds."""
    rows = reading.arrays.get("differences")
    if reading.over != "seeds" or rows is None:
        return {}
    means = [float(np.mean(row[np.isfinite(row)])) for row in np.atleast_2d(rows) if np.isfinite(row).any()]
    return {"per_seed": means}


def failures(readings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why an instrument broke down, one line each; one that says that it does not apply has not failed."""
    reasons = [reading["missing"] for reading in readings if "missing" in reading]
    return [reason for reason in reasons if reason.startswith(BROKEN)]
