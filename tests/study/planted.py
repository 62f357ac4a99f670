"""Synthetic results: cells as a study would leave them, with numbers that the test chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.fidelity.intervals import t_interval
from windtunnel.study.claims import CLAIMS
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share
from windtunnel.study.worlds import WORLDS
from windtunnel.training import recipe_for
from windtunnel.tunnels import HMM, Bijection

SPREAD = (0.98, 1.0, 1.01, 0.99, 1.02)  # five seeds that agree
WIDE = (0.2, 0.5, 1.0, 2.0, 5.0)  # five that do not


def values(line: float, side: str, how: str) -> list[float]:
    """Five seeds on the claimed side of a positive line ("yes"), on the other ("no"), or on both ("straddle")."""
    if how == "straddle":
        return [line * factor for factor in WIDE]
    factor = 0.5 if (side == "below") == (how == "yes") else 2.0
    return [line * factor * wobble for wobble in SPREAD]


def around(centre: float, width: float = 0.01) -> list[float]:
    """Five seeds close to a number, on a linear scale."""
    return [centre + width * step for step in (-1.0, -0.5, 0.0, 0.5, 1.0)]


def linear(line: float, side: str, how: str, far: float = 0.2) -> list[float]:
    """As `values`, for a number that may be 0 or negative."""
    if how == "straddle":
        return around(line, far)
    return around(line + (far if (side == "above") == (how == "yes") else -far), far / 20)


class Planted:
    """A study with exactly what was put into it."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Any]] = {}

    def cell(self, name: str, **fields: Any) -> dict[str, Any]:
        tunnel = Bijection() if name.startswith("bijection") else HMM()
        worlds = [world.name for world in WORLDS if name.startswith(world.name)]
        empty = {
            "name": name,
            "kind": "networks",
            "planned": {"survey": {"episodes": 128}},
            "surveyed": {},
            "failed": {},
            "tokens": 60_000_000,
            "environment": {"device": "a made-up card", "python": "3", "commit": "abc", "versions": {"torch": "2"}},
            "world": max(worlds, key=len, default=name.partition("-")[0]),
            "model": "transformer",
            "seeds": [0, 1, 2, 3, 4],
            "diverged": [],
            "parameters": 2_670_000,
            "sequences": 3_000_000,
            "recipe": recipe_for(tunnel, "transformer").to_dict(),
            "seconds": {"train": 50.0, "setup": 10.0, "survey": 20.0, "total": 80.0, "gpu": 80.0},
            "conditions": {},
            "primitive": None,
            "survey": [],
        }
        found = self.cells.setdefault(name, empty)
        found |= fields
        return found

    def score(self, cell: str, metric: str, seeds: list[float], *conditions: str, scale: str = "log") -> None:
        for condition in conditions or ("home",):
            scored = self.cell(cell)["conditions"].setdefault(condition, {"metrics": {}})
            scored["metrics"][metric] = Quantity.of_seeds(seeds, scale).to_dict()  # type: ignore[arg-type]

    def baseline(self, world: str, name: str, metric: str, value: float, *conditions: str) -> None:
        for condition in conditions or ("home",):
            empty = {"kind": "references", "world": world, "planned": {}, "conditions": {}, "seconds": {}}
            references = self.cells.setdefault(f"{world}-references", empty)
            scored = references["conditions"].setdefault(condition, {"baselines": {}})
            scored["baselines"].setdefault(name, {})[metric] = value

    def reading(
        self,
        cell: str,
        name: str,
        seeds: list[float],
        *,
        nulls: dict[str, list[float]] | None = None,
        p: float = 0.001,
        **where,
    ) -> None:
        """One reading per seed, of networks that have learned their task; a null at 0 unless others are given."""
        self.learned(cell)
        for seed, value in enumerate(seeds):
            self.cell(cell)["survey"].append(
                {
                    "name": name,
                    "where": {"seed": seed, **where},
                    "value": value,
                    "low": value - 0.01,
                    "high": value + 0.01,
                    "over": "sequences",
                    "nulls": {"untrained": [0.0, 0.0]} if nulls is None else nulls,
                    "p_value": p,
                    "note": "",
                }
            )

    def learned(self, cell: str, kl: float = 0.01) -> None:
        """Give a cell a home KL, far below that of a uniform guess, unless it has one."""
        scored = self.cell(cell)["conditions"].setdefault("home", {"metrics": {}})["metrics"]
        if "kl_bits" not in scored:
            self.score(cell, "kl_bits", [kl * wobble for wobble in SPREAD])
        self.baseline(self.cell(cell)["world"], "uniform", "kl_bits", 2.0)

    def summary(self, cell: str, name: str, seeds: list[float], **where) -> None:
        """A reading that its instrument sums up over seeds itself, as that of the training dynamics does."""
        self.learned(cell)
        low, high, _ = t_interval(np.array(seeds))
        told = {"name": name, "where": where, "value": float(np.mean(seeds)), "low": low, "high": high, "over": "seeds"}
        self.cell(cell)["survey"].append(
            told | {"nulls": {"names exchanged": [0.0, 0.0]}, "p_value": 0.001, "note": "", "per_seed": seeds}
        )

    def share(self, cell: str, primitive: str, seeds: list[float], base_bits: float = 1.0, error: float = 0.05) -> None:
        """Shares of a primitive, one per seed; each network's own is known to `error`."""
        quantity = Quantity.of_seeds(seeds)
        kl, errors = float(base_bits * (1 - np.mean(seeds))), tuple(error for _ in seeds)
        found = Share(primitive, quantity, kl, "B", base_bits, tuple(seeds), per_seed_error=errors)
        self.cell(cell)["primitive"] = found.to_dict()

    def evidence(self) -> Evidence:
        return Evidence(self.cells)

    def write(self, path: Path) -> StudyFolder:
        """As the results folder of a study."""
        study = StudyFolder(path)
        study.begin("paper")
        study.add_environment({"device": "a made-up card", "versions": {"torch": "2"}})
        for name, cell in self.cells.items():
            study.write_cell(name, _with_kl(cell))
        study.sum_up(CLAIMS)
        return study


def _with_kl(cell: dict[str, Any]) -> dict[str, Any]:
    """As a study leaves it: nothing is scored without its KL, be it one that no claim reads."""

    def filled(scores: dict[str, Any]) -> dict[str, Any]:
        return {"kl_bits": next(iter(scores.values()))} | scores if scores else scores

    conditions = {}
    for name, scored in cell["conditions"].items():
        of_networks = {"metrics": filled(scored["metrics"])} if "metrics" in scored else {}
        of_baselines = {base: filled(scores) for base, scores in scored.get("baselines", {}).items()}
        conditions[name] = scored | of_networks | ({"baselines": of_baselines} if of_baselines else {})
    return cell | {"conditions": conditions}
