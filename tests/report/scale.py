"""A results folder of the full-size study's extent: every cell, seed, condition and reading of the `paper` plan.

    python -m tests.report.scale DIR

Its numbers are made up.  Names, places and shapes are not: instruments and exhibits are the real ones, on untrained
networks that are narrow, but as deep and with as many heads as the plan's.  To take less than a minute, every survey is
a Transformer's or an LSTM's of an HMM, and curves and pictures are of an HMM, a Transformer's also of a bijection; the
episodes are of each cell's own world.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from torch import nn

from tests.study.planted import Planted
from windtunnel import models
from windtunnel.fidelity import baselines
from windtunnel.geometry.gather import untrained_twins
from windtunnel.geometry.guard import guarded
from windtunnel.geometry.measurement import COUNTED
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.report.episodes import stepped
from windtunnel.report.exhibit import FOLDER, exhibit
from windtunnel.report.subjects import Subject
from windtunnel.study.paper_plan import paper
from windtunnel.study.plan import Cell, Plan, World
from windtunnel.study.quantity import Quantity
from windtunnel.study.running.measure import METRICS
from windtunnel.study.running.surveying import DRAWN, to_records
from windtunnel.study.share import Share
from windtunnel.study.trials import trial
from windtunnel.training.files import write_json
from windtunnel.tunnels import HMM, Bijection, Tunnel

SHOWN = ("keys", "values", "beliefs", "clusters", "ablate", "heads", "late", "patch", "dose", "swap", "roles")
"""Instruments that a chart of the page shows."""
NULL = 0.05  # about which the draws of every null lie
SHARP = 8.0  # by how much scores of attention are larger than at the start: patterns as narrow as after training
RUNGS = 12  # of the ladder of checkpoints
KINDS = ("attention", "values", "residual", "KL")


def make_scale(folder: Path) -> Path:
    """Plant the whole study, its verdicts and its exhibits."""
    plan, planted, rng = paper(), Planted(), np.random.default_rng(0)
    for world in plan.worlds:
        _references(planted, world, rng)
    for cell in plan.cells:
        _scored(planted, plan, cell, rng)
    planted.write(folder)
    for cell in plan.cells:
        write_json(folder / FOLDER / f"{cell.name}.json", _exhibit(cell, plan.world(cell.world).tunnel, rng))
    return folder


def _references(planted: Planted, world: World, rng: np.random.Generator) -> None:
    for condition in world.conditions:
        for name in baselines(condition.tunnel(world.tunnel)):
            for metric in METRICS:
                planted.baseline(world.name, name, metric, float(rng.uniform(0.05, 1.5)), condition.name)
    record = planted.cells[f"{world.name}-references"]
    record |= {"kind": "references", "rows": {}}
    if (asked := trial(world.tunnel)) is not None:
        for name, share in ({f"B: {b}": 0.0 for b in asked.without} | dict.fromkeys(asked.others, 1.0)).items():
            found = Share(asked.primitive, Quantity.exact(share), 1 - share, "B", 1.0, (share,))
            record["rows"][name] = found.to_dict()


def _scored(planted: Planted, plan: Plan, cell: Cell, rng: np.random.Generator) -> None:
    world, seeds = plan.world(cell.world), list(cell.recipe.seeds)
    record = planted.cell(cell.name, world=cell.world, model=cell.recipe.model, recipe=cell.recipe.to_dict())
    record |= {"seeds": seeds, "planned": plan.describe(cell)}
    home = 10.0 ** rng.uniform(-4, 0)
    for condition in world.conditions:
        level = home * rng.uniform(1, 20) ** (condition.name != "home")
        for metric in METRICS:
            seen = level * rng.lognormal(0, 0.1, len(seeds))
            planted.score(cell.name, metric, (np.exp(-seen) if metric == "accuracy" else seen).tolist(), condition.name)
        steps = condition.tunnel(world.tunnel).readouts
        record["conditions"][condition.name]["kl_per_position"] = (level * rng.lognormal(0, 0.3, steps)).tolist()
    if (asked := trial(world.tunnel)) is not None:
        near = 500 if cell.recipe.model == "transformer" else 8  # realised by some, so that every colour is there
        planted.share(cell.name, asked.primitive, rng.beta(near, 1, len(seeds)).tolist())
    for name, count in (dict(cell.instruments) | dict(cell.beside)).items():
        if name in SHOWN:
            readings = _readings(name, "transformer" if cell.recipe.model == "transformer" else "lstm")
            record["survey"] += [_wobbled(one, seed, rng) for seed in seeds[:count] for one in readings]


def _wobbled(reading: dict[str, Any], seed: int, rng: np.random.Generator) -> dict[str, Any]:
    """The same place in the network of another seed, with as many draws of each null as a study keeps."""
    if reading.get("value") is None:
        return reading
    value = float(abs(np.sin(crc32(str(reading["where"]).encode())))) * float(rng.lognormal(0, 0.1))
    nulls = {null: rng.normal(NULL, NULL / 2, DRAWN).round(5).tolist() for null in reading["nulls"]}
    numbers = {"value": value, "low": value - 0.02, "high": value + 0.02, "nulls": nulls, "p_value": 1 / (COUNTED + 1)}
    return reading | numbers | {"where": {**reading["where"], "seed": seed}, "draws": dict.fromkeys(nulls, COUNTED)}


@cache
def _readings(instrument: str, model: str) -> list[dict[str, Any]]:
    """What one instrument says of a network in an HMM, with as few draws as it takes."""
    tunnel, apply = HMM(), INSTRUMENTS[instrument]
    network, episodes = _network(model, tunnel), tunnel.sample(8, 0, "test")
    few = {"heads": {"rotations": 1}}.get(instrument, {"draws": 1} if "draws" in (apply.__kwdefaults__ or {}) else {})
    twins = untrained_twins(network, 1)
    return to_records(guarded(instrument, lambda: apply(network, tunnel, episodes, twins, **few)), 0)


def _network(model: str, tunnel: Tunnel, heads: int = 6, depth: int = 6) -> nn.Module:
    shape = {"heads": heads, "positions": "none"} if model == "transformer" else {}
    network = models.build(model, tunnel, depth=depth, width=4 * heads, **shape)
    for name, weight in network.named_parameters():
        if name.endswith("attention.qkv.weight"):
            weight.data *= SHARP
    return network


def _exhibit(cell: Cell, tunnel: Tunnel, rng: np.random.Generator) -> dict[str, Any]:
    """What the page shows of a cell's networks; training and its dynamics are made up."""
    options, seeds, steps = cell.recipe.model_options, list(cell.recipe.seeds), cell.recipe.steps
    shape = (8, 9) if "preset" in options and cell.recipe.model == "transformer" else (options.get("heads", 6), 6)
    found = _looked_into(cell.recipe.model, *shape, isinstance(tunnel, HMM) or cell.recipe.model != "transformer")
    for curve in ("kl_per_position", "model_entropy"):
        found["curves"][curve] *= len(seeds)
    rungs = np.geomspace(1, steps, RUNGS).astype(int).tolist()

    def along() -> dict[str, list]:
        return {str(seed): [[at, float(rng.uniform(0.01, 1))] for at in rungs] for seed in seeds}

    found["history"] = {"seconds": 60.0, "steps": steps, "batch": cell.recipe.batch, "points": along()}
    if cell.recipe.ladder:
        found["pictures"]["dynamics"] = {kind: along() for kind in KINDS}
    mine = {"name": cell.name, "seeds": seeds, "origin": Subject(cell.name, cell.recipe).origin() | {"source": "run"}}
    mine |= {"tunnel": cell.recipe.to_dict()["tunnel"]}
    return found | mine | {"episodes": stepped(_network(cell.recipe.model, tunnel, *shape), tunnel)}


def _looked_into(*what: Any) -> dict[str, Any]:
    return json.loads(_kept(*what))  # a copy each: it will be written to


@cache
def _kept(model: str, heads: int, depth: int, hmm: bool) -> str:
    tunnel = HMM() if hmm else Bijection(replacement=True)
    recipe = next(cell.recipe for cell in paper().cells if cell.recipe.model == model).with_options(tunnel=tunnel)
    subject = Subject("", recipe.with_options(seeds=(0,)))
    subject.__dict__["networks"] = [_network(model, tunnel, heads, depth)]
    return json.dumps(exhibit(subject))


if __name__ == "__main__":
    make_scale(Path(sys.argv[1]))
