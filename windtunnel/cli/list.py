"""`windtunnel list`: what there is, one line each."""

from __future__ import annotations

import math
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, cast

from windtunnel import models, tunnels
from windtunnel.accidents import accident
from windtunnel.cli import show
from windtunnel.cli.flags import Switch
from windtunnel.cli.parse import parse
from windtunnel.errors import InputError
from windtunnel.fidelity.baselines import SUMMARIES
from windtunnel.json_numbers import from_json
from windtunnel.study import zoo


@dataclass(frozen=True)
class List:
    """Tunnels, models, baselines and shipped networks, one line each."""

    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Print the tables."""
    options = parse(List, words, prog="windtunnel list")
    worlds = {name: _world(name) for name in tunnels.names()}
    if options.json:
        told = {"tunnels": worlds, "models": models.summaries(), "baselines": SUMMARIES}
        show.print_json(told | {"networks": {name: _network(name) for name in zoo.names()}})
        return
    rows = [
        [name, world["summary"], ", ".join(world["primitives"] or ()), _shown(world["hypotheses_log2"])]
        for name, world in worlds.items()
    ]
    show.print_table("Tunnels", ["name", "what it is", "needs", "log2\nhypotheses"], rows, "lllr")
    show.print_table("Models", ["name", "what it is"], models.summaries().items(), "ll")
    show.print_table("Baselines", ["name", "what it does"], SUMMARIES.items(), "ll")
    if shipped := zoo.names():
        title = "Networks, for evaluate, inspect and wt.zoo.load"
        show.print_table(title, ["name", "what it is"], [[name, _network(name)] for name in shipped], "ll")


def _world(name: str) -> dict[str, Any]:
    """What a tunnel says of itself at its defaults; somebody else's may have none, or fail at them."""
    cls = tunnels.get(name)
    try:
        world = cls()
        primitives, hypotheses = list(world.primitives), float(world.hypotheses_log2)
    except Exception as error:  # one tunnel that cannot be made must not hide all the others
        needed = [f"--{option.name.replace('_', '-')}" for option in fields(cast(Any, cls)) if _required(option)]
        why = f"{' and '.join(needed)} must be given" if needed else f"fails at its defaults: {_reason(error)}"
        return {"summary": f"{cls.summary} ({why})", "primitives": None, "hypotheses_log2": None}
    told = "inf" if math.isinf(hypotheses) else hypotheses
    return {"summary": cls.summary, "primitives": primitives, "hypotheses_log2": told}


def _required(option: Field) -> bool:
    return option.init and option.default is MISSING and option.default_factory is MISSING


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, InputError) else accident(error)


def _shown(hypotheses_log2: float | str | None) -> str:
    if hypotheses_log2 is None:
        return ""
    return "∞" if hypotheses_log2 == "inf" else f"{hypotheses_log2:.1f}"


def _network(name: str) -> str:
    known = zoo.card(name)
    model, tunnel = known["recipe"]["model"], known["recipe"]["tunnel"]["name"]
    kl = from_json(known["scores"]["home"]["kl_bits"]["mean"])
    return f"{model}, {known['parameters']:,} parameters, trained on {tunnel}: {kl:.2g} bits of KL"
