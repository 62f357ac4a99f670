"""Trained networks that ship with the package, each with a card that says what it scores.

    model = wt.zoo.load("hmm-transformer")      a network in evaluation mode; model.card, model.tunnel
    wt.evaluate(model, episodes=20_000)         should come out as on the card

A network is a folder `NAME/` with `weights.safetensors` and `card.json` (recipe, shape, scores with intervals, the
commit it was trained at, and where it was exported).
They are in `zoo/` of the repository and in the wheel as `windtunnel/zoo_data/`, so that an installed package needs no
network access and no path; WINDTUNNEL_ZOO names another folder.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import windtunnel
from windtunnel import __version__, models, tunnels
from windtunnel.environment import environment, require_device
from windtunnel.errors import InputError, require, require_choice
from windtunnel.fidelity import Estimate, evaluate
from windtunnel.json_numbers import from_json
from windtunnel.study.quantity import Quantity, estimate_record
from windtunnel.training import Recipe, Run
from windtunnel.training.files import intact, read_json, read_tensors, read_versioned, write_json, write_tensors

FORMAT = 1
Z95, Z99 = 1.959964, 2.575829  # half widths of normal intervals, in standard errors
MOST_BYTES = 40_000_000  # of all networks together
SCORED = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "accuracy")
LOSSLESS = 0.1  # float16 is kept where it raises the KL, on the same episodes, by at most this share of the half width
# of the KL's own 95% interval over sequences: ten times less than what 20,000 episodes can tell apart


def folder() -> Path:
    """Where the networks are: WINDTUNNEL_ZOO, else beside an installed package, else the repository's zoo/."""
    if given := os.environ.get("WINDTUNNEL_ZOO"):
        return Path(given)
    package = Path(windtunnel.__file__).resolve().parent
    installed = package / "zoo_data"
    return installed if installed.is_dir() else package.parent / "zoo"


def names() -> list[str]:
    """Every network that can be loaded."""
    return sorted(path.parent.name for path in folder().glob("*/card.json"))


class Card(dict[str, Any]):
    """What is known about a network, as its card.json has it; shown on one line."""

    def __repr__(self) -> str:
        kl = Quantity.of_record(self["scores"]["home"]["kl_bits"]).brief(2)
        return f"<Card of {self['name']}: {self['parameters']:,} parameters, KL {kl} bits; keys {', '.join(self)}>"


def card(name: str) -> Card:
    """What is known about a network."""
    found = names()
    if not found:
        raise InputError(f"network = {name!r}: there is none in {folder()}")
    require_choice("network", name, found)
    return Card(read_versioned(folder() / name / "card.json", FORMAT))


def tunnel(name: str) -> tunnels.Tunnel:
    """The world a network was trained in."""
    return tunnels.from_dict(card(name)["recipe"]["tunnel"])


def load(name: str, device: str = "cpu") -> nn.Module:
    """A network in evaluation mode, in float32, with its `card` and the `tunnel` it was trained in."""
    known = card(name)
    weights = folder() / name / "weights.safetensors"
    if not intact(weights, known["sha256"]):
        raise InputError(f"{weights}: is missing, truncated or altered: must have the checksum of its card")
    model = models.from_spec(known["model"])
    model.load_state_dict({key: value.to(torch.float32) for key, value in read_tensors(weights).items()})
    model.card, model.tunnel = known, tunnels.from_dict(known["recipe"]["tunnel"])  # type: ignore[assignment]
    return model.to(require_device(device)).eval()


def as_run(name: str, device: str = "cpu") -> Run:
    """The network as a run of one seed, for functions that need a run; without folder, checkpoints or history."""
    model = load(name, device)
    known: Any = model.card
    recipe = Recipe.from_dict(known["recipe"])
    (seed,) = recipe.seeds
    history = {seed: [{"step": recipe.steps}]}  # what is shipped was trained to its end
    weights = {seed: dict(model.state_dict())}
    return Run(recipe, weights=weights, history=history, device=device, sha256=[known["sha256"]])


@dataclass(frozen=True)
class Checked:
    """A network scored on fresh episodes, beside its card.

    episodes  of the live score, and of the card
    """

    name: str
    live: Estimate
    card: Quantity
    episodes: tuple[int, int]

    @property
    def agrees(self) -> bool:
        """Is the difference within what so many episodes can tell, at 99%?

        Few episodes may hold none of the rare ones that make up most of a small KL, and their own interval is then far
        too short: the noise of the live score is at least that of the card, scaled to its number of episodes.
        """
        live, card = ((one.high - one.low) / 2 / Z95 for one in (self.live, self.card))
        few, many = self.episodes
        noise = math.hypot(card, max(live, card * math.sqrt(many / few)))
        return abs(self.live.mean - self.card.mean) <= Z99 * noise

    @property
    def apart(self) -> bool:
        """Do the two intervals not meet?"""
        return self.live.low > self.card.high or self.live.high < self.card.low


def check(name: str, *, episodes: int = 2000, seed: int = 2, device: str = "cpu") -> Checked:
    """Score a network on episodes that its card was not made with, and hold its KL against the card."""
    model = load(name, device)
    live = evaluate(model, model.tunnel, episodes=episodes, seed=seed, device=device).kl_bits  # type: ignore[arg-type]
    card: Any = model.card
    return Checked(name, live, Quantity.of_record(card["scores"]["home"]["kl_bits"]), (episodes, card["episodes"]))


def export(
    run: Run, name: str, *, seed: int | None = None, out: str | Path | None = None, episodes: int = 20_000
) -> Path:
    """Write one network of a finished run into the zoo, with a card made from the weights as they are stored.

    seed  which network; by default the one with the lowest KL on the validation stream
    out   folder of the zoo, by default the one `load` reads
    """
    require(run.finished, "run", str(run.path), "finished")
    place = Path(out) if out is not None else folder()
    seed = best_seed(run) if seed is None else seed
    require_choice("seed", seed, run.recipe.seeds)
    model = run.model(seed)
    require(isinstance(model, models.SequenceModel), "model", run.recipe.model, "a built-in architecture")
    full = {key: value.detach().clone() for key, value in model.state_dict().items()}
    scores = {"float32": _scores(model, run, episodes)}
    half = {key: value.to(torch.float16) if value.is_floating_point() else value for key, value in full.items()}
    model.load_state_dict({key: value.to(full[key].dtype) for key, value in half.items()})
    scores["float16"] = _scores(model, run, episodes)
    kl = {kind: from_json(score["kl_bits"]["mean"]) for kind, score in scores.items()}
    ends = [from_json(scores["float32"]["kl_bits"][end]) for end in ("low", "high")]
    dtype = "float16" if kl["float16"] - kl["float32"] <= LOSSLESS * (ends[1] - ends[0]) / 2 else "float32"
    weights = half if dtype == "float16" else full
    size = sum(value.numel() * value.element_size() for value in weights.values())
    there = sum(path.stat().st_size for path in place.glob("*/weights.safetensors") if path.parent.name != name)
    require(there + size <= MOST_BYTES, "zoo", f"{(there + size) / 1e6:.1f} MB", f"at most {MOST_BYTES / 1e6:g} MB")
    sha256 = write_tensors(place / name / "weights.safetensors", weights, {"name": name})
    recipe: Recipe = run.recipe.with_options(seeds=(seed,))
    sittings = read_json(run.folder.path / "environment.json")  # where it was trained; the last one finished it
    record = {
        "format": FORMAT,
        "windtunnel": __version__,
        "name": name,
        "recipe": recipe.to_dict(),
        "model": model.spec,  # type: ignore[union-attr]
        "parameters": models.describe(model).params,
        "dtype": dtype,
        "kl_bits_by_dtype": kl,
        "sha256": sha256,
        "scores": {"home": scores[dtype]},
        "episodes": episodes,
        "commit": sittings[-1]["commit"],
        "environment": sittings[-1],
        "exported": environment(run.device),
    }
    write_json(place / name / "card.json", record)
    return place / name


def best_seed(run: Run) -> int:
    """The seed with the lowest KL on the validation stream."""
    return min(run.recipe.seeds, key=lambda seed: run.metrics(seed)[-1]["kl_bits"])


def _scores(model: nn.Module, run: Run, episodes: int) -> dict[str, Any]:
    found = evaluate(model, run.tunnel, episodes=episodes)
    return {metric: estimate_record(getattr(found, metric)) for metric in SCORED}
