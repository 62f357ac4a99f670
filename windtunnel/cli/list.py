"""`windtunnel list`: what there is, one line each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from windtunnel import models, tunnels
from windtunnel.cli import show
from windtunnel.cli.flags import Switch
from windtunnel.cli.parse import parse
from windtunnel.fidelity.baselines import SUMMARIES
from windtunnel.study import zoo
from windtunnel.study.quantity import number


@dataclass(frozen=True)
class List:
    """Tunnels, models, baselines and shipped networks, one line each."""

    json: Switch = False
    """Print one JSON document instead of tables."""


def run(words: list[str]) -> None:
    """Print the tables."""
    options = parse(List, words, prog="windtunnel list")
    worlds = {name: tunnels.get(name)() for name in tunnels.names()}
    if options.json:
        described = {
            name: {
                "summary": world.summary,
                "primitives": list(world.primitives),
                "hypotheses_log2": "inf" if math.isinf(world.hypotheses_log2) else world.hypotheses_log2,
            }
            for name, world in worlds.items()
        }
        told = {"tunnels": described, "models": models.summaries(), "baselines": SUMMARIES}
        show.print_json(told | {"networks": {name: _network(name) for name in zoo.names()}})
        return
    rows = [
        [name, world.summary, ", ".join(world.primitives), f"{world.hypotheses_log2:.1f}".replace("inf", "∞")]
        for name, world in worlds.items()
    ]
    show.print_table("Tunnels", ["name", "what it is", "needs", "log2\nhypotheses"], rows, "lllr")
    show.print_table("Models", ["name", "what it is"], models.summaries().items(), "ll")
    show.print_table("Baselines", ["name", "what it does"], SUMMARIES.items(), "ll")
    if shipped := zoo.names():
        title = "Networks, for evaluate, inspect and wt.zoo.load"
        show.print_table(title, ["name", "what it is"], [[name, _network(name)] for name in shipped], "ll")


def _network(name: str) -> str:
    known = zoo.card(name)
    model, tunnel = known["recipe"]["model"], known["recipe"]["tunnel"]["name"]
    kl = number(known["scores"]["home"]["kl_bits"]["mean"])
    return f"{model}, {known['parameters']:,} parameters, trained on {tunnel}: {kl:.2g} bits of KL"
