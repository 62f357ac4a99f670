"""Run the sections of a plan, each within its time limit, and gather rows: plain data for tables, JSON and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from windtunnel.environment import environment
from windtunnel.errors import InputError
from windtunnel.models import kernels
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed import growth, parts, startup
from windtunnel.training.speed.cases import TUNNELS, WORLDS, cases
from windtunnel.training.speed.clock import Limit
from windtunnel.training.speed.plan import Plan
from windtunnel.training.speed.rates import evaluation_rate, matrix_rate, training_rate, work_of
from windtunnel.training.speed.sampling import by_choice, by_search, numpy_rate, sampling_rate

Row = dict[str, Any]
Say = Callable[[str], None]
Keep = Callable[[dict[str, Any]], object]

TOGETHER = 5  # seeds, in the table that compares several with one


def bench(plan: Plan, say: Say = lambda line: None, keep: Keep = lambda result: None) -> dict[str, Any]:
    """Measure what the plan asks for.

    The result has `environment`, `kernels_in_use`, `matrix_flops_per_s`, a list of rows per section, `left_out`: what
    the time limits left no room for, and `failed`: what should be compiled and cannot be, with the reason.  Neither has
    a row.  `say` hears one line before each measurement.  `keep` is given what there is after every row, so that a
    measurement which is cut short leaves what it had; `unfinished` then names the sections that are not complete.
    """
    result: dict[str, Any] = {"environment": environment(plan.device), "quick": plan.quick}
    result["kernels_in_use"] = kernels.in_use(plan.device)
    result["matrix_flops_per_s"] = matrix_rate(plan.device)
    result |= {"left_out": {}, "failed": {}, "unfinished": list(plan.sections)}
    for section in plan.sections:
        limit = Limit(plan.limit_s(section))
        rows = result[section] = []
        for row in _MEASURE[section](plan, limit, say):
            rows.append(row)
            _add_lines(result, section, limit)
            with suppress(InputError):  # a disk that is full now; whoever keeps the whole hears of it
                keep(result)
            if plan.device != "cpu":
                torch.cuda.empty_cache()
        _add_lines(result, section, limit)
        result["unfinished"].remove(section)
    del result["unfinished"]
    return result


def _add_lines(result: dict[str, Any], section: str, limit: Limit) -> None:
    for name, lines in (("left_out", limit.left_out), ("failed", limit.failed)):
        if lines:
            result[name][section] = lines


def _recipes(plan: Plan) -> dict[str, Recipe]:
    found = {name: recipe for name, recipe in cases(plan.device).items() if not plan.cases or name in plan.cases}
    return {
        name: recipe.with_options(batch=plan.batch or recipe.batch, first_batch=0) for name, recipe in found.items()
    }


def _few(plan: Plan, *names: str) -> dict[str, Recipe]:
    """The named cases of the plan, where it does not name its own."""
    recipes = _recipes(plan)
    return recipes if plan.cases else {name: recipes[name] for name in names if name in recipes}


def _rate(recipe: Recipe, plan: Plan, seeds: int = 1, about_s: float | None = None) -> Row:
    return training_rate(recipe, plan.device, about_s or plan.about_s, seeds, plan.turn)


def _training(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    for name, recipe in _recipes(plan).items():
        for count in plan.seeds:
            if not limit.allows(name):
                continue
            say(f"training {name}, batch {recipe.batch}, {count} seed{'s' * (count != 1)}")
            work, peak = work_of(recipe), matrix_rate(plan.device)  # the rate once more: a shared machine changes
            with limit.outliving(name + (f", {count} seeds" if count != 1 else "")):
                row = {"case": name, **work._asdict(), **_rate(recipe, plan, count)}
                peak = max(peak, matrix_rate(plan.device))
                yield row | {"share_of_peak": row["sequences_per_s"] * work.flops_per_sequence / peak}


def _seeds(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    goals = ("hmm/transformer-9x256", "hmm/transformer", "bijection/transformer", "hmm/mamba", "hmm/lstm", "hmm/mlp")
    for name, recipe in _few(plan, "quick", *(goals if plan.device != "cpu" else ())).items():
        if not limit.allows(name):
            continue
        say(f"seeds {name}, one and {TOGETHER} together")
        with limit.outliving(name):
            yield {"case": name, "batch": recipe.batch, "seeds": TOGETHER, **_together(recipe, plan)}


def _together(recipe: Recipe, plan: Plan) -> Row:
    one, several = (_rate(recipe, plan, count) for count in (1, TOGETHER))
    larger = _rate(recipe.with_options(batch=TOGETHER * recipe.batch), plan)
    times = {
        "one_ms": one["ms_per_step"],
        "together_ms": several["ms_per_step"],
        "larger_ms": larger["ms_per_step"],
    }
    return {
        **times,
        "cost_of_one": times["together_ms"] / times["one_ms"],
        # What the card asks for as much work of a single network: near five, one seed has filled it.
        "cost_of_batch": times["larger_ms"] / times["one_ms"],
        **({"busy_share": one["busy_share"]} if "busy_share" in one else {}),
        "memory_mib": several["memory_mib"],
    }


def _sampling(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    say("sampling, the plain NumPy way")
    plain = {kind: numpy_rate(draw, plan.about_s / 2) for kind, draw in (("plain", by_choice), ("tuned", by_search))}
    few = 8192 if plan.quick and plan.device == "cpu" else None
    for name, tunnel in WORLDS.items():
        if not limit.allows(name):
            continue
        say(f"sampling {name}")
        with limit.outliving(name):
            row = sampling_rate(tunnel, plan.device, plan.about_s, few)
            yield {"tunnel": name, **row, **{f"over_{kind}": row["episodes_per_s"] / plain[kind] for kind in plain}}


def _evaluation(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    for name, recipe in _few(plan, *(f"{world}/transformer" for world in TUNNELS)).items():
        if limit.allows(name):
            say(f"evaluation {name}")
            # Seven calls at least: of long sequences they would take longer than the section may.  Its rate is that of
            # the whole 512 but for noise, as evaluation reads them in smaller chunks anyway.
            few = 128 if plan.quick and plan.device == "cpu" and recipe.tunnel.positions >= 100 else None
            yield {"case": name, **evaluation_rate(recipe, plan.device, plan.about_s, few)}


def _growth(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    base = growth.base_case(plan.device, plan.quick)
    for axis, factor in growth.steps_of_growth(plan.quick):
        size, recipe, seeds = growth.grown(base, axis, factor)
        if not limit.allows(f"{axis} {size}"):
            continue
        say(f"growth {axis} {size}")
        with limit.outliving(f"{axis} {size}"):
            row = {"axis": axis, "size": size, "parameters": growth.parameters_of(recipe)}
            yield row | _rate(recipe, plan, seeds, plan.about_s / 2)


def _profile(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    goals = ("hmm/transformer-9x256", "bijection/transformer", "hmm/mamba", "hmm/lstm")
    for name, recipe in _few(plan, *(goals if plan.device != "cpu" else ("quick", "hmm/transformer"))).items():
        if not limit.allows(name):
            continue
        say(f"profile {name}")
        with limit.outliving(name):
            row = {"case": name, **parts.step_parts(recipe, plan.device, plan.about_s)}
            yield row | {"operations": parts.operations(recipe, plan.device)}


def _startup(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    say("start-up, in processes of their own")
    with limit.outliving("first step"):
        yield from startup.startup_times(plan.device, 1 if plan.quick else 3, limit.left_s() / 2)


def _compile(plan: Plan, limit: Limit, say: Say) -> Iterator[Row]:
    for name in _few(plan, "hmm/transformer-9x256") if plan.device != "cpu" else ("quick",):
        if not limit.allows(name):
            continue
        say(f"compile {name}, empty and warm cache")
        with limit.outliving(name):
            rows = startup.compile_times(plan.device, name, limit.left_s())
            yield from rows
            limit.left_out += [f"{name}, {state} cache" for state in ("cold", "warm")[len(rows) :]]


_MEASURE: dict[str, Callable[[Plan, Limit, Say], Iterator[Row]]] = {
    "training": _training,
    "seeds": _seeds,
    "sampling": _sampling,
    "evaluation": _evaluation,
    "growth": _growth,
    "profile": _profile,
    "startup": _startup,
    "compile": _compile,
}
