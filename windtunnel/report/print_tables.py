"""Matrices, clouds and the primitives table for print."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from windtunnel.report.chart import Cloud, Heat
from windtunnel.report.palette import CONTINUOUS, LIGHT, SEQUENTIAL, SHARES, ink_on
from windtunnel.report.shares import Primitives

INK, SOFT = "#1a1e24", "#6b7280"
FEW = 60  # fields into which their value is written
CROWD = 12  # rows or columns from which on their names are small
NOUGHT = 0.004  # of the scale: what is smaller is written as ≈0


def heat_size(heat: Heat) -> tuple[float, float]:
    """Width and height that its names and the values in its fields need."""
    rows, columns = len(heat.rows), len(heat.columns)
    crowded = max(rows, columns) > CROWD
    across = 0.08 if crowded else 0.04 + 0.07 * max(map(len, heat.columns), default=0)
    if rows * columns <= FEW:
        across = max(across, 0.42)  # "0.00071"
    return max(1.9, across * columns), max(1.8, (0.08 if crowded else 0.14) * rows)


def draw_heats(figure: Any, heats: Sequence[tuple[Any, Heat]]) -> None:
    """Matrices on one scale, which stands beside the last of them."""
    if not heats:
        return
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    tables = [np.array([[np.nan if v is None else v for v in row] for row in heat.values], float) for _, heat in heats]
    first = heats[0][1]
    low = first.low if first.low is not None else min(0.0, *(float(np.nanmin(table)) for table in tables))
    high = first.high if first.high is not None else max(float(np.nanmax(table)) for table in tables)
    colours = LinearSegmentedColormap.from_list("little to much", SEQUENTIAL)
    pictures = [
        axes.imshow(table, cmap=colours, vmin=low, vmax=high, aspect="auto")
        for (axes, _), table in zip(heats, tables, strict=True)
    ]
    for (axes, heat), table in zip(heats, tables, strict=True):
        crowded = max(table.shape) > CROWD
        axes.set_xticks(
            range(len(heat.columns)), heat.columns, rotation=90 if crowded else 0, fontsize=5 if crowded else 7
        )
        axes.set_yticks(range(len(heat.rows)), heat.rows, fontsize=5 if crowded else 7)
        axes.tick_params(length=0)
        if table.size <= FEW:
            for (i, j), value in np.ndenumerate(table):
                ink = ink_on(to_hex(colours((value - low) / (high - low or 1))))
                text = "" if np.isnan(value) else "≈0" if abs(value) < NOUGHT * (high - low) else f"{value:.2g}"
                axes.text(j, i, text, ha="center", va="center", fontsize=7, color=ink)
    figure.colorbar(pictures[-1], ax=[axes for axes, _ in heats], label=first.unit, shrink=0.9, aspect=30)


def draw_cloud(figure: Any, axes: Any, cloud: Cloud, markers: Sequence[str]) -> None:
    """Points coloured by the first of the cloud's quantities."""
    from matplotlib.colors import LinearSegmentedColormap

    title, values = next(iter(cloud.colours.items()))
    x, y = np.array(cloud.x, float), np.array(cloud.y, float)
    if cloud.outline:
        ring = np.array([*cloud.outline, cloud.outline[0]])
        axes.plot(ring[:, 0], ring[:, 1], color=SOFT, lw=0.8)
        for index, ((at, up), name) in enumerate(zip(cloud.outline, cloud.corners, strict=True)):
            axes.text(1.15 * at, 1.15 * up, name, ha="center", va="center", color=LIGHT[index % 6], weight="bold")
        axes.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.2, 1.25))
        axes.axis("off")
    if isinstance(values[0], str):
        for index, name in enumerate(cloud.corners or sorted(set(map(str, values)))):
            kept = np.array([value == name for value in values])
            axes.scatter(x[kept], y[kept], s=6, color=LIGHT[index % 6], marker=markers[index % 6], alpha=0.6, lw=0)
        return
    colours = LinearSegmentedColormap.from_list("low to high", CONTINUOUS)
    picture = axes.scatter(x, y, c=np.array(values, float), s=7, cmap=colours, lw=0.2, edgecolors=SOFT)
    axes.set(xlabel="PC1", ylabel="PC2")
    figure.colorbar(picture, ax=axes, label=title, shrink=0.9)


def draw_primitives(table: Primitives, style: dict[Any, Any]) -> Any:
    """The primitives table: shade by share as on the page, the interval written in, the yardsticks below."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    lists = [[f"{one.mean}  {name.partition(' (')[0]}" for name, one in column.scale] for column in table.columns]
    texts = [
        "\n".join(line for entry in mine for line in textwrap.wrap(entry, 34, subsequent_indent=" " * 8))
        for mine in lists
    ]
    below = 0.3 * max((text.count("\n") + 1 for text in texts), default=0)
    with matplotlib.rc_context(style):
        width, height = 1.4 + 2.0 * len(table.columns), 0.8 + 0.42 * (len(table.rows) + below)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlim=(0, len(table.columns)), ylim=(len(table.rows) + below + 0.2, 0))
        for i, row in enumerate(table.rows):
            for j, share in enumerate(row.shares):
                if share is None:
                    continue
                axes.add_patch(Rectangle((j, i), 1, 1, facecolor=SHARES[share.level], edgecolor="white", lw=2))
                axes.text(j + 0.5, i + 0.36, f"{share.mean} {share.ends}", ha="center", va="center", fontsize=7.5)
                state = f"{f'{share.run}: ' if share.run else ''}{share.spoken}, {share.left}"
                axes.text(j + 0.5, i + 0.72, state, ha="center", va="center", fontsize=6.5)
        for j, text in enumerate(texts):
            axes.text(j + 0.03, len(table.rows) + 0.2, text, ha="left", va="top", fontsize=6.5, color=INK)
        heads = [f"{column.primitive}\n{column.world}\nworth {column.worth} bits" for column in table.columns]
        axes.set_xticks([j + 0.5 for j in range(len(heads))], heads)
        axes.set_yticks([i + 0.5 for i in range(len(table.rows))], [row.name for row in table.rows])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    return figure
