"""Charts of section 2 for worlds other than home: longer sequences, and other numbers of stored pairs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windtunnel.json_numbers import from_json
from windtunnel.report.chart import Chart, Panel, Series
from windtunnel.report.curves import references
from windtunnel.report.source import Source
from windtunnel.report.words import bits, enumerated, listed, short
from windtunnel.study.evidence import Evidence

_PAIRS = re.compile(r"pairs-(\d+)$")
_LENGTH = re.compile(r"length-(\d+)(-beyond)?$")
INTERVALS = "Bars are 95% intervals over seeds, or over test sequences where there is one seed."


def lengths(source: Source) -> Chart:
    """The score at other lengths than the trained one: all readouts, and the new ones alone."""
    views, told = {}, []
    for world, names in source.worlds(source.networks).items():
        panels = []
        for title, beyond in (("all steps", False), ("steps beyond the trained length only", True)):
            series = [s for name in names if (s := _by_length(name, source, beyond)) is not None]
            home = source.networks[names[0]]["recipe"]["tunnel"].get("length")
            if series:
                series += _baselines_by_length(world, source, None if beyond else home)
                marks = [(home, f"trained at {home}")]
                note = _unscored(names, source) if not panels else ""
                panels.append(Panel(title, "length", "KL, bits", False, True, series, marks=marks, note=note))
        if panels:
            views[world] = panels
            ends = [f"{s.name} {bits(s.y[-1])} at {s.x[-1]}" for s in panels[-1].series if s.role == "points"]
            told.append(f"{world}, at the longest length of each: {listed(ends)}")
    say = (
        "A network that infers goes on inferring past its trained length; one that is tied to the lengths it has seen "
        "rises. " + INTERVALS
    )
    return Chart("length", "Beyond the trained length", say, listed(told), views, "tunnel")


def _unscored(names: Sequence[str], source: Source) -> str:
    """Who has no score at some length, and why."""
    found: dict[str, dict[str, list[int]]] = {}
    for name in names:
        for condition, scored in source.networks[name]["conditions"].items():
            if _is(condition, beyond=False) and "missing" in scored:
                found.setdefault(scored["missing"], {}).setdefault(source.short(name), []).append(_length(condition))
    told = [
        f"{enumerated(f'{name} at {enumerated(map(str, at))}' for name, at in who.items())}: {why}"
        for why, who in found.items()
    ]
    return " ".join(f"Not scored: {line.rstrip('.')}." for line in told)


def _by_length(name: str, source: Source, beyond: bool) -> Series | None:
    conditions = source.networks[name]["conditions"]
    found = {_length(c): s["metrics"]["kl_bits"] for c, s in conditions.items() if _is(c, beyond) and "metrics" in s}
    if not found:
        return None
    if not beyond and "metrics" in conditions.get("home", {}):
        found[source.networks[name]["recipe"]["tunnel"]["length"]] = conditions["home"]["metrics"]["kl_bits"]
    at = sorted(found)
    mean, low, high = ([from_json(found[length][part]) for length in at] for part in ("mean", "low", "high"))
    return Series(source.short(name), at, mean, low, high, source.model(name), "points", variant=source.variant(name))


def _baselines_by_length(world: str, source: Source, home: int | None) -> list[Series]:
    """On all steps, from the home length on; with None, on those beyond it."""
    record = source.cells.get(f"{world}-references", {}).get("conditions", {})
    at = {condition: _length(condition) for condition in record if _is(condition, beyond=home is None)}
    at |= {} if home is None else {"home": home}
    found: dict[str, dict[int, float]] = {}
    for condition, length in at.items():
        scored = record.get(condition, {}).get("baselines", {})
        for base in references(scored):
            found.setdefault(base, {})[length] = from_json(scored[base]["kl_bits"])
    return [Series(base, sorted(kl), [kl[n] for n in sorted(kl)], role="reference") for base, kl in found.items()]


def _is(condition: str, beyond: bool) -> bool:
    match = _LENGTH.match(condition)
    return match is not None and bool(match.group(2)) == beyond


def _length(condition: str) -> int:
    match = _LENGTH.match(condition)
    assert match is not None
    return int(match.group(1))


def capacity(source: Source) -> Chart:
    """Accuracy against the number of stored pairs, where a world was scored so; its interval is the one that claims
    are judged by, which lies within 0 and 1."""
    views, told, evidence = {}, [], Evidence(source.cells)
    for world, names in source.worlds(source.networks).items():
        series = []
        for name in names:
            conditions = source.networks[name]["conditions"].items()
            scored = {int(m.group(1)): c for c, s in conditions if (m := _PAIRS.match(c)) and "metrics" in s}
            if scored:
                at = sorted(scored)
                right = [evidence.score(name, "accuracy", scored[pairs]) for pairs in at]
                mean, low, high = ([getattr(one, part) for one in right] for part in ("mean", "low", "high"))
                series.append(Series(source.short(name), at, mean, low, high, source.model(name), "points"))
                told.append(f"{name}: {short(mean[-1])} at {at[-1]} pairs")
        if series:
            tunnel = source.networks[names[0]]["recipe"]["tunnel"]
            home, mixed = tunnel.get("pairs"), tunnel.get("mixed")
            marks = [] if home is None else [(home, f"trained {'up to' if mixed else 'at'} {home}")]
            views[world] = [Panel(x="pairs stored", y="share of answers right", log_x=True, series=series, marks=marks)]
    say = (
        "A memory of fixed size must fail at some number of pairs; attention over all of them need not. Past the mark "
        "sequences are longer as well, so what fails there need not be memory. " + INTERVALS
    )
    return Chart("capacity", "Recall against the number of pairs", say, listed(told), views, "tunnel")
