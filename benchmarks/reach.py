"""What the committed recipes reach: train, score against the exact belief, write one JSON file per recipe.

    python benchmarks/reach.py --only hmm-transformer-9x256 --seeds 3 --out benchmarks/results/reach

Each file holds the recipe, the environment, seconds of set-up and training, the history of every seed, and the scores
with their intervals: at the training length, and for HMMs at 30 and 50, over all positions and over the extrapolated
ones alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from common import Parser, run, save, whole

from windtunnel import tunnels
from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import require, require_choice
from windtunnel.fidelity import equivalent_window, evaluate, evaluate_parts
from windtunnel.models import build, kernels
from windtunnel.models.compiled import must_compile
from windtunnel.training import Recipe, Run, train
from windtunnel.training.files import require_writable
from windtunnel.training.tuned_recipes import NAMED
from windtunnel.tunnels import HMM, STREAMS, Recall


def scores(run: Run, episodes: int, stream: str) -> dict[str, Any]:
    """Fidelity at home, and for HMMs beyond the trained length."""
    home = evaluate(run, episodes=episodes, stream=stream)
    found: dict[str, Any] = {"home": home.to_dict()}
    tunnel = run.tunnel
    if isinstance(tunnel, HMM):
        found["equivalent_window"] = str(equivalent_window(home))
        for length in (30, 50):
            longer = tunnel.with_length(length)
            limits = [getattr(model, "length_limit", None) for model in run.models]
            if any(limit is not None and limit < longer.positions for limit in limits):
                continue  # weights tied to absolute positions go no further
            parts = {f"length-{length}": None, f"length-{length}-extrapolated": slice(tunnel.length, None)}
            told = evaluate_parts({"": run}, longer, parts, episodes=episodes, stream=stream)
            found |= {name: part[""].to_dict() for name, part in told.items()}
    if isinstance(tunnel, Recall):  # trained on more queries and an easier store; told by the usual world
        for usual in (replace(tunnel, queries=Recall.queries, mixed=False), replace(tunnel, mixed=False)):
            label = f"all-{usual.pairs}-pairs-{usual.queries}-queries"
            found[label] = evaluate(run, usual, episodes=episodes, stream=stream).to_dict()
    return found


def brief(score: dict[str, Any]) -> str:
    """KL, per-sequence and curve entropy error, accuracy, on one line."""
    names = ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "accuracy")
    return "  ".join(f"{n} {score[n]['mean']:.3g} [{score[n]['low']:.3g}, {score[n]['high']:.3g}]" for n in names)


def _value(text: str) -> bool | int | float | str:
    """What a word stands for."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def changed(recipe: Recipe, settings: list[str]) -> Recipe:
    """A recipe with `name=value` settings; `tunnel.name` and `model.name` go to the world and the architecture.

    Settings that no network can have are refused here, before any other recipe is trained."""
    for item in settings:
        name, equals, text = item.partition("=")
        require(bool(name and equals and text), "--set", item, "name=value, tunnel.name=value or model.name=value")
        part, _, field = name.rpartition(".")
        value = _value(text)
        if part == "tunnel":
            recipe = replace(recipe, tunnel=tunnels.from_dict(tunnels.to_dict(recipe.tunnel) | {field: value}))
        elif part == "model":
            recipe = replace(recipe, model_options=recipe.model_options | {field: value})
        else:
            recipe = recipe.with_options(**{name: value})
    with torch.device("meta"):  # shapes without memory
        build(recipe.model, recipe.tunnel, **recipe.model_options)
    return recipe


def main() -> None:
    parser = Parser(description="What the committed recipes reach.")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--only", default="", help="recipe names, separated by commas")
    parser.add_argument("--seeds", type=whole(1), default=3)
    parser.add_argument("--episodes", type=whole(1), default=20_000)
    parser.add_argument(
        "--stream", default="test", choices=STREAMS, help="validation while searching for a recipe, test for the result"
    )
    parser.add_argument("--steps", type=whole(1), default=None)
    parser.add_argument("--set", action="append", default=[], help="change an option: name=value, tunnel.name=value")
    parser.add_argument("--note", default="", help="who shared the card: kept in the file, told in docs/results.md")
    parser.add_argument("--out", type=Path, default=None, help="folder for the files")
    options = parser.parse_args()
    device = require_device(options.device)
    changes = options.set + ([f"steps={options.steps}"] if options.steps else [])
    wanted = options.only.split(",") if options.only else list(NAMED)
    for name in wanted:
        require_choice("--only", name, NAMED)
    recipes = {name: changed(make(), changes) for name, make in NAMED.items() if name in wanted}
    if options.out:
        require_writable(options.out / "any.json")
    for name, recipe in recipes.items():
        start = time.perf_counter()
        with must_compile():
            trained = train(recipe=recipe, device=device, seeds=options.seeds)
        spent = trained.seconds() | {"wall": time.perf_counter() - start}
        found = scores(trained, options.episodes, options.stream)
        print(f"== {name} {' '.join(changes)} set-up {spent['setup']:.1f} s, training {spent['train']:.1f} s")
        history = {str(seed): trained.metrics(seed) for seed in trained.recipe.seeds}
        for seed, records in history.items():
            told = ", ".join(f"{r['step']}: {r['kl_bits']:.2g}" for r in records)
            print(f"  seed {seed} KL by step  {told}")
        for where, score in found.items():
            print(f"  {where:24s} {score if isinstance(score, str) else brief(score)}", flush=True)
        result = {
            "name": name,
            "environment": environment(device),
            "kernels_in_use": kernels.in_use(device),
            "recipe": trained.recipe.to_dict(),
            "seconds": spent,
        }
        if options.note:
            result["note"] = options.note
        if options.out:
            save(options.out / f"{name}.json", result | {"history": history, "scores": found})
        del trained
        if device != "cpu":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    run(main)
