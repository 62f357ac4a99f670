"""From networks to the numbers of a cell: scores under each condition, shares of primitives, baselines.

A seed that diverged leaves no network.  It still counts: it is scored as a uniform guess, all that is possible without
one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor, Score, baselines, evaluate_all
from windtunnel.json_numbers import to_json
from windtunnel.study.plan import Condition, Plan, World
from windtunnel.study.primitive_shares import reference_rows, shares
from windtunnel.study.quantity import estimate_record
from windtunnel.study.trials import trial_of
from windtunnel.tunnels import Tunnel

METRICS = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "excess_log_loss_bits", "accuracy")


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
    told = {name: estimate_record(getattr(found, name)) for name in METRICS}
    return {
        "metrics": told,
        "subset": found.subset,
        "episodes": found.episodes,
        "exact_accuracy": found.exact_accuracy,
        "entropy_yardstick_bits": to_json(found.entropy_yardstick_bits),
        "calibration_error": to_json(found.calibration.expected_error),
        "kl_per_position": [to_json(round(float(v), 9)) for v in found.kl_bits.per_position],
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
    )


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
        told = {name: {metric: to_json(getattr(s, metric).mean) for metric in METRICS} for name, s in found.items()}
        conditions[condition.name] = {"baselines": told}
    rows = reference_rows(world.tunnel, episodes=plan.episodes // 4 or 1, device=device)
    return {"kind": "references", "conditions": conditions, "rows": {name: row.to_dict() for name, row in rows.items()}}


def primitive(networks: list[Predictor], diverged: int, world: World, plan: Plan, device: str) -> dict[str, Any] | None:
    """The share of the world's primitive that these networks realise; None where it tests none.

    networks  one per seed; `diverged` of them are the uniform guess that stands for a seed without a network
    """
    if trial_of(world.tunnel) is None:
        return None
    found = shares({"": networks}, world.tunnel, episodes=plan.episodes // 4 or 1, device=device)[""]
    return replace(found, diverged=diverged).to_dict()
