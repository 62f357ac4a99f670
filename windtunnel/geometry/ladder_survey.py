"""The dynamics instrument on a run: every rung of the ladder against the last; calls `dynamics`."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import nn

from windtunnel.errors import InputError
from windtunnel.fidelity.intervals import t_interval
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import Predictor, checked_log_probs
from windtunnel.geometry import dynamics as pure
from windtunnel.geometry.alignment_survey import patterns_at_readout
from windtunnel.geometry.gather import CHUNK, at_readout, ending, named
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.stats import linear_cka
from windtunnel.models.device import device_of
from windtunnel.training import Run
from windtunnel.tunnels import Episodes, Tunnel

DRAWS = 999
ROWS = 1000  # rows a similarity is taken over


def dynamics(run: Run, episodes: Episodes) -> list[Measurement | Missing]:
    """When attention, values, residual stream and KL settle, per layer; values against attention; over seeds."""
    try:
        ladders = {seed: run.ladder(seed) for seed in run.recipe.seeds}
    except InputError as error:
        return [Missing("dynamics", str(error))]
    short = [seed for seed, steps in ladders.items() if len(steps) < 3]
    if short:
        kept = len(ladders[short[0]])
        few = f"seed {short[0]} has {kept} checkpoint{'s' * (kept != 1)}: needs at least 3"
        return [Missing("dynamics", f"{few} (train with `--ladder 12`)")]
    curves = {seed: _curves(run, seed, steps, episodes) for seed, steps in ladders.items()}
    found: list[Measurement | Missing] = []
    settled: dict[str, np.ndarray] = {}
    for name in curves[run.recipe.seeds[0]]:
        table = [[pure.settling_step(np.array(ladders[s]), c) for c in np.atleast_2d(curves[s][name])] for s in ladders]
        settled[name] = np.array(table)  # (seeds, layers)
        found.append(_settling(name, settled[name], ladders, curves))
    if "attention" in settled and "values" in settled:
        found.append(_dissociation(settled["attention"], settled["values"]))
    else:
        lacking = "attention pattern" if "attention" not in settled else "values of its attention"
        found.append(Missing("dynamics", f"no dissociation: this network names no {lacking}"))
    return found


def _curves(run: Run, seed: int, steps: list[int], episodes: Episodes) -> dict[str, np.ndarray]:
    """Name to (L, R) similarity to the last rung, and `KL` (R,) in bits."""
    last = _geometry(run.model(seed, steps[-1]), episodes)
    rows: dict[str, list] = {name: [] for name in last}
    kls = []
    for step in steps:
        model = run.model(seed, step)
        here = last if step == steps[-1] else _geometry(model, episodes)
        for name, layers in here.items():
            rows[name].append([linear_cka(a, b) for a, b in zip(layers, last[name])])
        kls.append(_kl(model, run.tunnel, episodes))
    return {name: np.array(values).T for name, values in rows.items()} | {"KL": np.array(kls)}


def _geometry(model: nn.Module, episodes: Episodes) -> dict[str, list[np.ndarray]]:
    """Kind to one array (rows, columns) per layer."""
    names = named(model, episodes)
    kinds: dict[str, list[np.ndarray]] = {}
    if ending(names, ".attention.pattern"):
        patterns = patterns_at_readout(model, episodes)  # (n, L, H, K, T)
        by_layer = np.moveaxis(patterns, 1, 0).transpose(0, 1, 3, 2, 4)  # (L, n, K, H, T)
        kinds["attention"] = [_rows(layer.reshape(*layer.shape[:2], -1).astype(float)) for layer in by_layer]
    for kind, suffix in (("values", ".attention.v"), ("residual", ".residual")):
        if layers := ending(names, suffix):
            kinds[kind] = [_rows(x) for x in at_readout(model, episodes, layers).values()]
    return kinds


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])[:ROWS]


def _kl(model: nn.Module, tunnel: Tunnel, episodes: Episodes) -> float:
    """Mean KL in bits over episodes and readouts."""
    kls = []
    for first in range(0, len(episodes), CHUNK):
        part = episodes[first : first + CHUNK]
        inputs = part.inputs.to(device_of(model, part.inputs.tokens))
        log_q = checked_log_probs(cast(Predictor, model), inputs, tunnel).cpu()
        kls.append(kl_bits(part.posterior.double().cpu(), log_q))
    return float(torch.cat(kls).mean())


def _settling(name: str, settled: np.ndarray, ladders: dict, curves: dict) -> Measurement:
    """The step (geometric mean over layers) at which one kind settles."""
    with np.errstate(invalid="ignore"):
        clock = np.array([_mean(pure.log_steps(row)) for row in settled])  # (seeds,)
    value, low, high, over = _over_seeds(clock)
    step, least, most = (10.0**v - 1.0 for v in (value, low, high))
    arrays = {f"steps, seed {seed}": np.array(steps) for seed, steps in ladders.items()}
    arrays |= {f"curve, seed {seed}": np.atleast_2d(curves[seed][name]) for seed in ladders} | {"settled": settled}
    note = "a time has no null of its own: the dissociation below is tested"
    return Measurement(
        f"{name} settled at 95%", step, least, most, over, {"layer": "all"}, "steps", arrays=arrays, note=note
    )


def _dissociation(attention: np.ndarray, values: np.ndarray) -> Measurement:
    differences = pure.dissociation(attention, values)
    kept = np.isfinite(differences)
    per_seed = np.array([_mean(row) for row in differences])
    value, low, high, over = _over_seeds(per_seed)
    name, where = "frame–precision dissociation", {"layer": "all"}
    arrays = {"differences": differences}
    if not kept.any():
        return Measurement(name, value, low, high, over, where, "log10 steps", arrays=arrays, note="nothing moved")
    null = pure.sign_flips(per_seed[np.isfinite(per_seed)], DRAWS, np.random.default_rng(0))
    note = "positive: attention settles before values; names are exchanged by network, of which there are few"
    return Measurement(
        name, value, low, high, over, where, "log10 steps", {"names exchanged": null}, "both", arrays=arrays, note=note
    )


def _mean(row: np.ndarray) -> float:
    kept = row[np.isfinite(row)]
    return float(kept.mean()) if len(kept) else float("nan")


def _over_seeds(values: np.ndarray) -> tuple[float, float, float, str]:
    """Mean and 95% t-interval over seeds; no interval for a single seed."""
    kept = values[np.isfinite(values)]
    if len(kept) < 2:
        return (float(kept[0]) if len(kept) else float("nan")), float("nan"), float("nan"), "one seed"
    low, high, _ = t_interval(kept)
    return float(kept.mean()), low, high, "seeds"
