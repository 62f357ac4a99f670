"""Charts of section 2: how far from Bayes, where along the sequence, beyond the trained length, and how fast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.json_numbers import from_json
from windtunnel.report.axes import LEAST
from windtunnel.report.beyond_charts import INTERVALS, capacity, lengths
from windtunnel.report.chart import Chart, Number, Panel, Series
from windtunnel.report.curves import scored_on
from windtunnel.report.source import Source
from windtunnel.report.words import bits, enumerated, listed


def fidelity_charts(source: Source) -> list[Chart]:
    """Those for which there are numbers."""
    makers = (distance, entropy, per_position, lengths, capacity, calibration, over_time)
    return [chart for make in makers if (chart := make(source)).views]


def scores(source: Source) -> dict[str, Mapping[str, Any]]:
    """KL at home of every cell and of every other network: name -> mean, low, high, over, per_seed."""
    found = {name: record["curves"]["kl_bits"] for name, record in source.exhibits.items()}
    for name, cell in source.networks.items():
        home = cell["conditions"].get("home", {})
        if "metrics" in home:
            found[name] = home["metrics"]["kl_bits"]
    return found


def distance(source: Source) -> Chart:
    """KL of every network with its interval, and the baselines as rows of their own."""
    found, views, best = scores(source), {}, []
    for world, names in source.worlds(found).items():
        names = sorted(names, key=lambda name: _finite(found[name]["mean"]))
        series = []
        for name in names:
            mean, low, high = ([from_json(found[name][part])] for part in ("mean", "low", "high"))
            label = source.short(name)
            series.append(Series(label, mean, [label], low, high, source.model(name), "points", across=True))
        bases = source.scale(world)
        rows = sorted(bases, key=lambda base: _finite(bases[base]))
        named = {base: base + _off_the_axis(bases[base]) for base in rows}
        series += [Series(base, [bases[base]], [named[base]], key="baseline", role="null") for base in rows]
        views[world] = [Panel(x="KL, bits", y="who", log_x=True, series=series, note=_looked_into(source, names))]
        best.append(f"{world}: {source.short(names[0])} {bits(found[names[0]]['mean'])}")
    say = (
        "The further left, the closer to exact inference. Solid: networks; hollow: simple predictors on the same data. "
        + INTERVALS
    )
    return Chart("distance", "Distance from Bayes", say, "Best network per tunnel. " + listed(best), views, "tunnel")


def _off_the_axis(value: float) -> str:
    """What a row says of a number that has no place on a log axis, so that its dot is not missed."""
    return ": ∞" if not math.isfinite(value) else ": exact" if value <= LEAST else ""


def _looked_into(source: Source, names: Sequence[str]) -> str:
    """On which episodes this page itself scored a network, where `windtunnel evaluate` takes more of them."""
    own = [source.exhibits[name]["curves"] for name in names if name not in source.networks]
    found = dict.fromkeys(on for on in map(scored_on, own) if on)
    return f"Scored for this page on {enumerated(found)}." if found else ""


def entropy(source: Source) -> Chart:
    """Exact and model entropy along the sequence."""
    views, told = {}, []
    for world, names in source.worlds(source.exhibits).items():
        exact = source.exhibits[names[0]]["curves"]["exact_entropy"]
        steps = list(range(1, len(exact) + 1))
        series = [Series("exact", steps, exact, role="exact")]
        series += [_banded(name, source, "model_entropy") for name in names]
        views[world] = [Panel(x="step", y="entropy, bits", series=series)]
        told.append(f"{world}: exact entropy from {bits(exact[0])} to {bits(exact[-1])}")
    say = (
        "Each network's mean entropy should run along the broad line of exact inference; "
        "a band spans the seeds, least to most. Equal entropy is not yet equal belief."
    )
    return Chart("entropy", "Entropy along the sequence", say, listed(told), views, "tunnel")


def per_position(source: Source) -> Chart:
    """KL per readout on a log axis, with the baselines."""
    views, told = {}, []
    for world, names in source.worlds(_with_positions(source)).items():
        series, best = [], ("", np.inf)
        for name in names:
            if name in source.exhibits:
                series.append(_banded(name, source, "kl_per_position"))
            else:
                kl = source.networks[name]["conditions"]["home"]["kl_per_position"]
                steps, key = list(range(1, len(kl) + 1)), source.model(name)
                series.append(Series(source.short(name), steps, kl, key=key, variant=source.variant(name)))
            last = _finite(series[-1].y[-1])
            best = min(best, (source.short(name), last), key=lambda pair: pair[1])
        bases = _baselines(world, names, source, len(series[0].x))
        level = bases and not any(name in source.exhibits for name in names)
        notes = ["Of simple predictors only the mean over all steps is known: a level line."] if level else []
        notes += _without_a_place([replace(base, y=base.y[:1]) for base in bases] if level else bases)
        views[world] = [Panel(x="step", y="KL, bits", log_y=True, series=[*series, *bases], note=" ".join(notes))]
        told.append(f"{world}: lowest at the last step is {best[0]}, {bits(best[1])}")
    say = (
        "Where along the sequence the distance arises; grey lines are what simple predictors score. "
        "A band, where there is one, spans the seeds, least to most."
    )
    return Chart("kl-per-step", "Distance per step", say, listed(told), views, "tunnel")


def _without_a_place(lines: Sequence[Series]) -> list[str]:
    """Which lines are exact, or infinitely far off, at which steps: there a log axis has no place for them."""
    exact, endless = [], []
    for line in lines:
        kl = [from_json(value) for value in line.y]
        exact += _at(line.name, [value <= LEAST for value in kl])
        endless += _at(line.name, [math.isinf(value) for value in kl])
    told = [f"Exact (0 bits), so without a place on a log axis: {enumerated(exact)}."] if exact else []
    return told + ([f"Infinitely far off, so not drawn: {enumerated(endless)}."] if endless else [])


def _at(name: str, steps: Sequence[bool]) -> list[str]:
    """A name with its steps in a few words, alone where it has one level; nothing where there are none.

    >>> [_at("uniform", steps) for steps in ([True, False], [True, True, False], [True, True], [False, False])]
    [['uniform at step 1'], ['uniform up to step 2'], ['uniform at every step'], []]
    >>> _at("uniform", [False, True, False, True])
    ['uniform at steps 2 and 4']
    """
    found = [at for at, there in enumerate(steps, 1) if there]
    if not found:
        return []
    if len(found) == len(steps):
        return [name if len(steps) == 1 else f"{name} at every step"]
    if len(found) == found[-1] > 1:
        return [f"{name} up to step {found[-1]}"]
    return [f"{name} at step{'s' * (len(found) > 1)} {enumerated(map(str, found))}"]


def _with_positions(source: Source) -> list[str]:
    scored = [n for n, c in source.networks.items() if "kl_per_position" in c["conditions"].get("home", {})]
    return list(dict.fromkeys([*scored, *source.exhibits]))


def _baselines(world: str, names: Sequence[str], source: Source, steps: int) -> list[Series]:
    """Per step where an exhibit has them, else their mean as a level line."""
    along = list(range(1, steps + 1))
    for name in names:
        if name in source.exhibits:
            found = source.exhibits[name]["curves"]["baselines"]
            return [Series(base, along, list(map(from_json, kl)), role="reference") for base, kl in found.items()]
    return [Series(base, along, [level] * steps, role="reference") for base, level in source.scale(world).items()]


def _banded(name: str, source: Source, curve: str) -> Series:
    """Mean over seeds, and the band from the least to the most."""
    table = np.array([[from_json(v) for v in row] for row in source.exhibits[name]["curves"][curve]])
    steps = list(range(1, table.shape[1] + 1))
    return seed_band(source.short(name), steps, table, key=source.model(name), variant=source.variant(name))


def seed_band(name: str, x: Sequence[Number], table: np.ndarray, *, key: str, variant: bool = False) -> Series:
    """A line through the mean over seeds of a table (seeds, x); of several seeds with a band from least to most."""
    ends = (table.min(0).tolist(), table.max(0).tolist()) if len(table) > 1 else (None, None)
    return Series(name, x, table.mean(0).tolist(), *ends, key=key, variant=variant)


def calibration(source: Source) -> Chart:
    """Stated probability against the exact probability of the same outcomes."""
    views, told = {}, []
    for world, names in source.worlds(source.exhibits).items():
        series = [Series("perfect", [0.0, 1.0], [0.0, 1.0], role="exact")]
        for name in names:
            rows = source.exhibits[name]["curves"]["calibration"]
            stated, exact = ([row[part] for row in rows] for part in ("model", "exact"))
            key, variant = source.model(name), source.variant(name)
            series.append(Series(source.short(name), stated, exact, key=key, variant=variant))
        views[world] = [Panel(x="probability the network states", y="exact probability", series=series)]
        errors = [f"{source.short(n)} {bits(source.exhibits[n]['curves']['calibration_error'], '')}" for n in names]
        told.append(f"{world}: expected calibration error {listed(errors)}")
    say = "On the diagonal, 30% means 30%. Held against the exact belief itself, not against luck in a sample."
    return Chart("calibration", "Calibration", say, listed(told), views, "tunnel")


def over_time(source: Source) -> Chart:
    """Validation KL against seconds of training."""
    views, told = {}, []
    for world, names in source.worlds(source.exhibits).items():
        series = []
        for name in names:
            past = source.exhibits[name]["history"]
            if past is None or not past["steps"]:
                continue
            rows = [[from_json(kl) for _, kl in points] for points in past["points"].values() if points]
            if not rows:
                continue
            steps = [step for step, _ in max(past["points"].values(), key=len)]
            table = np.array([row for row in rows if len(row) == len(steps)])
            at = [past["seconds"] * step / past["steps"] for step in steps]
            key, variant = source.model(name), source.variant(name)
            series.append(seed_band(source.short(name), at, table, key=key, variant=variant))
            told.append(f"{name}: {bits(table.mean(0)[-1])} after {at[-1]:.0f} s")
        if series:
            panel = Panel(x="seconds of training, all seeds", y="KL, bits", log_x=True, log_y=True, series=series)
            views[world] = [panel]
    say = (
        "How the distance falls while training goes on, on the validation stream; a band spans the seeds. "
        "Seconds are those of the whole run, all its seeds together, spread evenly over its steps."
    )
    return Chart("training-time", "Distance against training time", say, listed(told), views, "tunnel")


def _finite(value: Any) -> float:
    found = from_json(value)
    return found if np.isfinite(found) else np.inf
