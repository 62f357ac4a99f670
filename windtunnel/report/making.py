"""Section 6: recipes, versions, machines, time and seeds; and the commands that make this very page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel import __version__, tunnels
from windtunnel.errors import InputError
from windtunnel.report.chart import Table
from windtunnel.report.source import Source
from windtunnel.report.told_apart import spoken
from windtunnel.study.presets import commands as study_commands
from windtunnel.training.batch_stages import batch_told

COLUMNS = (
    "name",
    "recipe",
    "tunnel",
    "model",
    "parameters",
    "seeds",
    "diverged",
    "steps",
    "batch",
    "optimiser",
    "learning rate",
    "supervision",
    "training s",
    "total s",
    "device",
    "commit",
)


def recipes(source: Source) -> Table:
    """One row per cell, and per network that stands outside the study; world by world."""
    rows = []
    for name in source.ordered(dict.fromkeys([*source.networks, *source.exhibits])):
        if name in source.networks:
            rows.append(_row(name, source.networks[name]["recipe"], source.networks[name]))
        else:
            record = source.exhibits[name]
            made = {"parameters": record["parameters"], "seeds": record["seeds"]}
            rows.append(_row(name, record["origin"]["recipe"], made))
    return Table("recipes", COLUMNS, rows)


def _row(name: str, recipe: Mapping[str, Any], made: Mapping[str, Any]) -> list[Any]:
    optimiser, seconds = recipe["optimiser"], made.get("seconds", {})
    environment = made.get("environment", {})
    rates = [optimiser["muon_lr"]] * (optimiser["kind"] == "muon") + [optimiser["lr"]]
    shown = [name, recipe["name"], describe_tunnel(recipe["tunnel"]), recipe["model"], made["parameters"]]
    shown += [" ".join(map(str, made["seeds"])), len(made.get("diverged", [])), recipe["steps"]]
    shown.append(batch_told(recipe.get("first_batch"), recipe["batch"]))
    shown += [optimiser["kind"], " / ".join(f"{rate:.3g}" for rate in rates), recipe["supervision"]]
    shown += [round(seconds[kind], 1) if kind in seconds else None for kind in ("train", "total")]
    return [*shown, environment.get("device"), environment.get("commit")]


def describe_tunnel(tunnel: Mapping[str, Any], usual: Mapping[str, Any] | None = None) -> str:
    """A tunnel on one line; what is None, or as usual, is left out."""
    usual = usual or {}
    kept = {k: v for k, v in tunnel.items() if k != "name" and v is not None and (k not in usual or v != usual[k])}
    return f"{tunnel['name']} {', '.join(spoken(*field) for field in kept.items())}".rstrip()


def _usual(name: str) -> dict[str, Any]:
    """A tunnel as it is at its defaults; somebody else's may have none, or not be known here."""
    try:
        return tunnels.to_dict(tunnels.get(name)())
    except (InputError, TypeError):
        return {}


def cards(source: Source) -> Table:
    """The recipes as the page shows them: the same rows, less wide."""
    rows = []
    for row in recipes(source).rows:
        known = dict(zip(COLUMNS, row, strict=True))
        recipe = (source.networks.get(known["name"]) or source.exhibits[known["name"]]["origin"])["recipe"]
        tunnel = recipe["tunnel"]
        usual = _usual(tunnel["name"])
        size = {kind: v for kind, v in tunnel.items() if kind in ("symbols", "states", "length", "pairs", "keys")}
        seconds = [f"{known[kind]:,.0f}" for kind in ("training s", "total s") if known[kind] is not None]
        diverged = f" ({known['diverged']} diverged)" if known["diverged"] else ""
        rows.append(
            [
                known["name"] + (f" (recipe {known['recipe']})" if known["recipe"] != known["name"] else ""),
                f"{known['model']}, {known['parameters']:,} parameters",
                describe_tunnel(tunnel, {k: v for k, v in usual.items() if k not in size}),
                f"{known['steps']:,} × {known['batch']} sequences, {known['optimiser']} {known['learning rate']}, "
                f"on the {'exact belief' if known['supervision'] == 'posterior' else known['supervision']}",
                f"{known['seeds']}{diverged}",
                " / ".join(seconds),
            ]
        )
    return Table("recipes", ["name", "network", "tunnel", "training", "seeds", "seconds, training / all"], rows)


def machines(source: Source) -> Table:
    """Where the study was made, one row per machine and version."""
    columns = ["device", "cores", "python", "platform", "commit", "versions"]
    rows = []
    for environment in (source.head or {}).get("environments", []):
        versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
        rows.append([*(environment.get(name) for name in columns[:-1]), versions])
    return Table("machines", columns, rows)


def lanes(source: Source) -> int:
    """The most cells that were made at a time on a GPU; 1 where nothing says so."""
    sittings = (source.head or {}).get("sittings", [])
    return max((one.get("lanes", 1) for one in sittings if one["device"] != "cpu"), default=1)


def commands(source: Source) -> list[str]:
    """What to type to have the study, and then this page, again."""
    made = [] if source.head is None else study_commands(source.head["preset"], source.path, source.cells)
    study = [source.asked.typed(*words) for words in made]
    return [*study, source.asked.again(source.path)]


def made_by() -> str:
    """The version that wrote the page."""
    return f"windtunnel {__version__}"
