"""Charts of section 4: what the representation looks like, each number beside its nulls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windtunnel.json_numbers import from_json
from windtunnel.report.chart import Chart, Cloud, Heat, Panel, Series
from windtunnel.report.fidelity_charts import seed_band
from windtunnel.report.readings import Question, beside_nulls
from windtunnel.report.source import Source
from windtunnel.report.words import interval, listed, short

KEYS = Question(
    "key-cosines",
    "Are the keys of rival hypotheses orthogonal?",
    "Only a solid dot clearly left of its hollow nulls says that training moved the keys apart. Formed: the key of a "
    "hypothesis as the network forms it in an episode, mean over episodes; bare token: that of its token alone, "
    "without any context. Centred: less the mean of all these keys.",
    ("key cosine, raw", "key cosine, centred"),
    absent=("keys",),
)
SHAPE = Question(
    "value-shape",
    "How thin is the manifold, and what orders it?",
    "A thin manifold means little unless the untrained network's is thicker, and an order by entropy must survive the "
    "control for position.",
    ("PC1 share", "entropy, position ignored, PC1", "entropy after position, PC1", "position after entropy, PC1"),
    absent=("values",),
)
DECODED = Question(
    "decoded",
    "Can the belief be read off linearly?",
    "How much of the exact belief a linear map finds in the stream, and how much of it lies beyond a short memory.",
    ("belief decoded, R²", "log-belief decoded, R²", "belief beyond window 1, R²", "belief beyond windows 1 and 2, R²"),
    absent=("beliefs",),
)
CLUSTERS = Question(
    "clusters",
    "Does the last layer fall into one cluster per state?",
    "One of the nulls is the exact belief itself, with no network at all: where that has clusters too, they are no "
    "discovery.",
    (
        "clusters by silhouette",
        "clusters by gap",
        "adjusted Rand with the likeliest state",
        "adjusted Rand with the symbol just seen",
        "belief within clusters, R²",
    ),
    absent=("clusters",),
)


def geometry_charts(source: Source) -> list[Chart]:
    """Those for which there are numbers."""
    found = [key_matrices(source), beside_nulls(source, KEYS), sharpening(source), manifold(source)]
    found += [beside_nulls(source, SHAPE), simplices(source), beside_nulls(source, DECODED)]
    found += [beside_nulls(source, CLUSTERS), dissociation(source)]
    return [chart for chart in found if chart.views]


def pictures(source: Source, name: str) -> dict[str, Any]:
    """Subject -> its picture of that name, where it has one."""
    shown = {subject: source.exhibits[subject]["pictures"].get(name) for subject in source.ordered(source.exhibits)}
    return {subject: picture for subject, picture in shown.items() if picture}


def key_matrices(source: Source) -> Chart:
    """Cosine matrices beside those of the nulls."""
    views, told = {}, []
    for name, picture in pictures(source, "keys").items():
        labels, panels = picture["labels"], []
        for title, table in picture["tables"].items():
            off = _off_diagonal(table)
            heat = Heat(labels, labels, table, "|cosine|", 0.0, 1.0)
            panels.append(Panel(f"{title}: off the diagonal {off:.2f}", heat=heat))
            told.append(f"{name}, {title}: mean off the diagonal {off:.3f}")
        views[name] = panels
    say = (
        "|cosine| between keys (less the mean key), mean over heads, in the first seed's network. Orthogonal keys "
        "would leave only the diagonal strong; compare the first matrix with those beside it, which have learned "
        "nothing."
    )
    return Chart("key-matrices", "Key cosines in the first layer", say, listed(told), views, "network")


def _off_diagonal(table: Sequence[Sequence[float]]) -> float:
    array = np.asarray(table, dtype=float)
    count = len(array)
    return float((array.sum() - np.trace(array)) / (count * (count - 1)))


def sharpening(source: Source) -> Chart:
    """Attention entropy by depth, every head, and the untrained network's mean."""
    views, told = {}, []
    for name, picture in pictures(source, "sharpening").items():
        layers, table = picture["layers"], np.asarray(picture["heads"], dtype=float)
        mean = table.mean(-1)
        heads = [
            Series(f"head {h}", layers, table[:, h].tolist(), key="head", role="null") for h in range(table.shape[1])
        ]
        series = [*heads, Series("mean over heads", layers, mean.tolist(), key=source.model(name))]
        if "untrained" in picture:
            series.append(Series("untrained, mean", layers, picture["untrained"], role="reference"))
        views[name] = [Panel(x="layer", y="attention entropy, bits", series=series)]
        told.append(f"{name}: from {short(mean[0])} bits in the first layer to {short(mean[-1])} in the last")
    say = (
        "Attention that narrows with depth falls from left to right, well below the untrained network. "
        "Mean over episodes and steps, in the first seed's network."
    )
    return Chart("sharpening", "Attention sharpening by depth", say, listed(told), views, "network")


def manifold(source: Source) -> Chart:
    """Two principal components, coloured by entropy or by position."""
    views, told = {}, []
    for name, streams in pictures(source, "manifold").items():
        panels = []
        for stream, points in streams.items():
            share = points["pc1_share"]
            colours = {"exact entropy, bits": points["entropy"], "step": points["position"]}
            title = f"{stream}, layer {points['layer']}: PC1 {100 * share:.0f}%"
            panels.append(Panel(title, "PC1", "PC2", cloud=Cloud(points["x"], points["y"], colours)))
            told.append(f"{name}, {stream}: PC1 carries {100 * share:.0f}% of the variance")
        views[name] = panels
    say = (
        "Switch the colour: where the points look as ordered by position as by entropy, this shows no entropy axis. "
        "The first seed's network; the chart below has all surveyed seeds, and nulls."
    )
    return Chart("manifold", "The value manifold", say, listed(told), views, "network")


def simplices(source: Source) -> Chart:
    """Beliefs decoded from each layer, beside the exact ones."""
    views, told = {}, []
    for name, picture in pictures(source, "simplex").items():
        names = [f"s{state}" for state in range(len(picture["corners"]))]
        states = {"likeliest state": [f"s{state}" for state in picture["likeliest"]]}
        panels = []
        for title, points in picture["layers"].items():
            x, y = ([point[axis] for point in points] for axis in (0, 1))
            panels.append(Panel(title, cloud=Cloud(x, y, states, picture["corners"], names)))
        views[name] = panels
        told.append(f"{name}: the exact belief and that decoded {listed(list(picture['layers'])[1:])}")
    say = (
        "Layer by layer the cloud that a linear map decodes should take the shape of the exact one. Points are "
        "coloured by the likeliest state under the exact belief; R² is on sequences that the map was not fitted to. "
        "The first seed's network."
    )
    return Chart("simplices", "Belief simplices per layer", say, listed(told), views, "network")


def dissociation(source: Source) -> Chart:
    """Similarity to the end of training: does attention settle before values?"""
    views, told = {}, []
    for name, kinds in pictures(source, "dynamics").items():
        kept = {kind: by_seed for kind, by_seed in kinds.items() if kind != "KL"}
        panels = [_training("how near to the end of training", kept, "similarity (CKA)", note=_settling(source, name))]
        if "KL" in kinds:
            panels.append(_training("distance from Bayes", {"KL": kinds["KL"]}, "KL, bits", log=True))
        views[name] = panels
        told.append(f"{name}: {listed(kept)} over {len(panels[0].series[0].x)} checkpoints")
    say = (
        "The published dissociation would show attention at its final form early, and values still on the way. "
        "Similarity to the last checkpoint ends at 1 by construction; mean over layers, a band spans the seeds."
    )
    return Chart("dissociation", "Frame and precision over training", say, listed(told), views, "network")


def _settling(source: Source, name: str) -> str:
    """The instrument's own answer, with its interval and its null."""
    found = [r for r in source.readings.get(name, ()) if r["name"] == "frame–precision dissociation"]
    if not found or found[0].get("value") is None:
        return ""
    mean, *ends = (from_json(found[0].get(part)) for part in ("value", "low", "high"))
    when = "later" if mean >= 0 else "earlier"
    low, high = sorted(math.copysign(1, mean) * end for end in ends)
    size = {"mean": abs(mean)} if math.isnan(low + high) else {"mean": abs(mean), "low": low, "high": high}
    line = f"Values settle {interval(size)} {found[0].get('unit', '')} {when} than attention"
    other = " (below 0: the other way round)" if size.get("low", 0) < 0 else ""
    p = "" if found[0].get("p_value") is None else f"; p {short(found[0]['p_value'], 2)} with the two names exchanged"
    return f"{line}{other}, {_from(found[0]['over'])}{p}."


def _from(over: str) -> str:
    return over if over == "one seed" else f"over {over}"


def _training(
    title: str, kinds: Mapping[str, Mapping[str, Any]], label: str, log: bool = False, note: str = ""
) -> Panel:
    series = []
    for kind, by_seed in kinds.items():
        steps = [step + 1 for step, _ in next(iter(by_seed.values()))]
        table = np.array([[value for _, value in rows] for rows in by_seed.values() if len(rows) == len(steps)], float)
        series.append(seed_band(kind, steps, table, key=kind))
    return Panel(title, "training step + 1", label, log_x=True, log_y=log, series=series, note=note)
